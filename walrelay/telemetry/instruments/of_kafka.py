"""What librdkafka says of itself, every five seconds."""

from collections.abc import Iterable
from typing import Literal

from walrelay.telemetry.instruments.reading import Instrument, RelayView, Sample


def _instrument(
    name: str, kind: Literal["counter", "gauge"], unit: str, labels: tuple[str, ...], meaning: str
) -> Instrument:
    def read(view: RelayView) -> Iterable[Sample]:
        return view.client_numbers().get(name, {}).items()

    return Instrument(name, kind, unit, ("sink", *labels), meaning, read)


OF_KAFKA = (
    _instrument(
        "walrelay_kafka_queue_messages", "gauge", "{message}", (), "Messages in the producer's queue, or on their way."
    ),
    _instrument("walrelay_kafka_queue_bytes", "gauge", "By", (), "The same in bytes."),
    _instrument("walrelay_kafka_requests_total", "counter", "{request}", (), "Requests that were sent to brokers."),
    _instrument("walrelay_kafka_retries_total", "counter", "{request}", (), "Requests that were sent again."),
    _instrument("walrelay_kafka_timeouts_total", "counter", "{request}", (), "Requests that had no answer in time."),
    _instrument(
        "walrelay_kafka_disconnects_total", "counter", "{connection}", (), "Connections to brokers that ended."
    ),
    _instrument(
        "walrelay_kafka_broker_round_trip_seconds",
        "gauge",
        "s",
        ("broker", "quantile"),
        "How long a broker took for a request, over the last seconds.",
    ),
    _instrument(
        "walrelay_kafka_broker_throttle_seconds",
        "gauge",
        "s",
        ("broker", "quantile"),
        "How long a broker made the client wait because of a quota.",
    ),
)
