"""The statistics sink: counts the messages of each topic and throws them away. What it counted is told in the log.

The counts of an interval are told when the first message or question for receipts comes after its end, and at close.
Nothing is told of an interval without a message.
"""

from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from time import monotonic

from pydantic import BaseModel, ConfigDict, Field

from walrelay.errors import Fatal
from walrelay.model import Finding, Message, Receipt
from walrelay.publish import SinkPlugin, SinkTraits
from walrelay.publish.contract import Sink
from walrelay.sinks.immediate import ImmediateSink
from walrelay.sinks.memory import KEEP
from walrelay.sinks.own_log import insist_on_info, log_event

_TOPICS = 1000  # with counts of their own; a topic may be taken from a row, and there may be any number
_OTHERS = "(others)"


class StatisticsSettings(BaseModel):
    """`kind: statistics`: how many messages and bytes for each topic, in walrelay's own log; nothing else is kept."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    interval: float = Field(
        60,
        gt=0,
        allow_inf_nan=False,
        description="How often the counts are told, of topics that had a message.",
        json_schema_extra={"unit": "seconds"},
    )


class TopicCounts:
    """`messages` and `bytes`: since they were told last; `total`: messages, since the process began."""

    def __init__(self) -> None:
        self.messages = self.bytes = self.total = 0

    def add(self, size: int) -> None:
        self.messages += 1
        self.bytes += size
        self.total += 1

    def told(self) -> None:
        self.messages = self.bytes = 0


class StatisticsSink(ImmediateSink):
    """`topics`: what the sinks of one relay have counted, from run to run."""

    def __init__(self, topics: dict[str, TopicCounts], interval: float, clock: Callable[[], float] = monotonic) -> None:
        super().__init__()
        self._topics, self._interval, self._clock = topics, interval, clock
        self._began = clock()

    def take(self, message: Message) -> None:
        self._tell_in_time()
        counts = self._topics.get(message.topic)
        if counts is None:
            name = message.topic if len(self._topics) < _TOPICS else _OTHERS
            counts = self._topics.setdefault(name, TopicCounts())
        counts.add(len(message.value or b""))

    def receipts(self, timeout: float) -> Iterable[Receipt]:
        self._tell_in_time()
        return super().receipts(timeout)

    def close(self) -> None:
        with suppress(Fatal):  # the log cannot be written, so nobody can be told
            self._tell()

    def _tell_in_time(self) -> None:
        if self._clock() - self._began >= self._interval:
            self._tell()

    def _tell(self) -> None:
        now = self._clock()
        seconds, self._began = now - self._began, now
        for topic, counts in self._topics.items():
            if counts.messages:
                fields = {
                    "topic": topic,
                    "messages": counts.messages,
                    "bytes": counts.bytes,
                    "seconds": round(seconds, 1),
                    "per_second": round(counts.messages / max(seconds, 0.001), 1),
                    "total": counts.total,
                }
                counts.told()
                log_event("statistics", fields)


def _open(settings: StatisticsSettings, topics: dict[str, TopicCounts]) -> Sink:
    insist_on_info("statistics")
    return StatisticsSink(topics, settings.interval)


def _examine(settings: StatisticsSettings, topics: Sequence[str]) -> Iterable[Finding]:
    return [Finding("sink", "warning", "the statistics sink counts events and keeps none of them", KEEP)]


plugin = SinkPlugin(
    StatisticsSettings,
    open=_open,
    examine=_examine,
    memory=dict[str, TopicCounts],
    traits=SinkTraits(
        durable="counted in this process; it is not kept",
        order="of commits",
        repeats="counted again",
        headers="any; they are not looked at",
        size="any",
    ),
)
