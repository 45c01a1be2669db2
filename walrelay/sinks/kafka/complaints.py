"""What the client library complains of, kept for whoever asks why nothing moves; an outage is said when it begins,
once a minute while it lasts, and when it is over.
"""

import logging
from time import monotonic

from confluent_kafka import KafkaError

CLIENT_LOG = logging.getLogger("walrelay.kafka")
CLIENT_LOG.setLevel(logging.INFO)  # the root's would leave the end of an outage out
# librdkafka says the first for every producer, the second for every close with something in flight, as a "fatal error",
# and the third when a refused message ended a producer, which is what it is told to do.
_EXPECTED = (
    "enable.gapless.guarantee is experimental",
    "Purged in flight",
    "Gap-less ordering would not be guaranteed",
)
CLIENT_LOG.addFilter(lambda entry: not any(text in entry.getMessage() for text in _EXPECTED))

_AGAIN = 60.0  # seconds between two lines about one outage


class Outage:
    """No broker can be reached. One for the process: the producers of a run see only a part of it."""

    def __init__(self) -> None:
        self._began = self._said = 0.0

    def lasts(self, why: str) -> None:
        now = monotonic()
        self._began = self._began or now
        if not self._said or now - self._said >= _AGAIN:
            self._said = now
            _say(
                logging.WARNING,
                "broker away",
                why=why,
                seconds=round(now - self._began),
                action="trying again; nothing is lost, and PostgreSQL keeps what waits",
            )

    def ended(self) -> None:
        if self._began:
            _say(logging.INFO, "broker back", after_seconds=round(monotonic() - self._began, 1))
        self._began = self._said = 0.0


class Complaints:
    """The last complaint. The producer holds it as error_cb; it must not hold the sink, which would outlive the run."""

    def __init__(self, outage: Outage) -> None:
        self.text = ""
        self._outage = outage

    def __call__(self, error: KafkaError) -> None:
        if error.code() == KafkaError._ALL_BROKERS_DOWN:
            self._outage.lasts(self.text or error.str())
        else:
            self.text = error.str()

    def answered(self) -> None:
        """A broker took something, so the complaints are over."""
        self.text = ""
        self._outage.ended()


def _say(level: int, event: str, **fields: object) -> None:
    CLIENT_LOG.log(level, event, extra={"fields": fields})
