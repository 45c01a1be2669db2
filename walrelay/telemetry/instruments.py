"""The metrics: name, unit, meaning, and how each is read. Exporters and docs/metrics.md are made from this one list."""

from collections.abc import Callable, Iterable, Mapping
from math import inf
from typing import Any, Literal, NamedTuple, get_args

from walrelay.operations.figures import SlotFigures
from walrelay.telemetry.numbers import Distribution, RelayNumbers, State

Sample = tuple[tuple[str, ...], float | Distribution]
"""The values of an instrument's own labels, and the value."""

Read = Callable[["RelayView"], Iterable[Sample]]


class RelayView(NamedTuple):
    """All that is known of a relay at one moment. `kinds`: of its sinks, by their names. `figures` None: the server did
    not answer, or has no such slot.
    """

    name: str
    numbers: RelayNumbers
    kinds: Mapping[str, str]
    figures: SlotFigures | None
    postgres_up: bool
    unmoved_since: float = inf  # when the slot was last seen to move, or to have nothing to read, by `monotonic`


class Instrument(NamedTuple):
    """`name` as in Prometheus; OpenTelemetry leaves out `_total`. `labels`: beside relay and slot, which all have."""

    name: str
    kind: Literal["counter", "gauge", "histogram"]
    unit: str
    labels: tuple[str, ...]
    meaning: str
    read: Read


_TOPIC = ("sink", "messaging_system", "messaging_destination_name")


def _number(get: Callable[[RelayNumbers], Any]) -> Read:
    """One sample, unless it is None."""

    def read(view: RelayView) -> Iterable[Sample]:
        value = get(view.numbers)
        return () if value is None else [((), value)]

    return read


def _figure(get: Callable[[SlotFigures], float | None]) -> Read:
    def read(view: RelayView) -> Iterable[Sample]:
        value = None if view.figures is None else get(view.figures)
        return () if value is None else [((), float(value))]

    return read


def _one_of(all_values: Iterable[str], get: Callable[[RelayView], str | None]) -> Read:
    """A sample for each value: 1 for the present one, 0 for the others; none where it is not known."""
    known = tuple(all_values)

    def read(view: RelayView) -> Iterable[Sample]:
        now = get(view)
        return () if now is None else [((each,), float(each == now)) for each in known]

    return read


def _counts(get: Callable[[RelayNumbers], Mapping[Any, int]]) -> Read:
    def read(view: RelayView) -> Iterable[Sample]:
        for key, count in [*get(view.numbers).items()]:
            yield (key if isinstance(key, tuple) else (key,)), count

    return read


def _by_topic(get: Callable[[Any], int]) -> Read:
    def read(view: RelayView) -> Iterable[Sample]:
        for (sink, topic), sent in view.numbers.sent.items():
            yield (sink, view.kinds.get(sink, ""), topic), get(sent)

    return read


def _wal_status(view: RelayView) -> str | None:
    if view.figures is None:
        return "missing" if view.postgres_up else None
    return view.figures.wal_status or "reserved"


def _last_error(view: RelayView) -> Iterable[Sample]:
    last = view.numbers.last_error
    return () if last is None else [((last.error,), last.at)]


INSTRUMENTS = (
    Instrument(
        "walrelay_records_total",
        "counter",
        "1",
        (),
        "Rows and logical messages that were read.",
        _number(lambda numbers: numbers.records),
    ),
    Instrument(
        "messaging_client_sent_messages_total",
        "counter",
        "1",
        _TOPIC,
        "Messages handed to the sink. What is published again after an error counts again.",
        _by_topic(lambda sent: sent.messages),
    ),
    Instrument(
        "walrelay_sent_bytes_total",
        "counter",
        "By",
        _TOPIC,
        "The sizes of their values.",
        _by_topic(lambda sent: sent.size),
    ),
    Instrument(
        "walrelay_published_messages_total",
        "counter",
        "1",
        (),
        "Messages that the broker acknowledged as durable.",
        _number(lambda numbers: numbers.published),
    ),
    Instrument(
        "walrelay_in_flight_messages",
        "gauge",
        "1",
        (),
        "Messages that were handed to the sink and are not durable yet.",
        _number(lambda numbers: numbers.in_flight),
    ),
    Instrument(
        "walrelay_publish_latency_seconds",
        "histogram",
        "s",
        (),
        "From a transaction's commit, by the server's clock, until its last message was durable. Under load of the last"
        " transaction of each turn of the loop.",
        _number(lambda numbers: numbers.latency),
    ),
    Instrument(
        "walrelay_round_trip_seconds",
        "histogram",
        "s",
        (),
        "The same from the moment at which the relay had read it: routing, batching and the broker.",
        _number(lambda numbers: numbers.round_trip),
    ),
    Instrument(
        "walrelay_transaction_records",
        "histogram",
        "1",
        (),
        "How many outbox rows a transaction has.",
        _number(lambda numbers: numbers.sizes),
    ),
    Instrument(
        "walrelay_back_pressure_seconds_total",
        "counter",
        "s",
        (),
        "How long nothing was read because the sink had no room.",
        _number(lambda numbers: numbers.back_pressure),
    ),
    Instrument(
        "walrelay_stalled",
        "gauge",
        "1",
        (),
        "1 while the oldest transaction has had no receipt for 5 s.",
        _number(lambda numbers: int(numbers.stalled is not None)),
    ),
    Instrument(
        "walrelay_state",
        "gauge",
        "1",
        ("state",),
        f"1 for the state that the relay is in: {', '.join(get_args(State))}.",
        _one_of(get_args(State), lambda view: view.numbers.state),
    ),
    Instrument(
        "walrelay_leader",
        "gauge",
        "1",
        (),
        "1 while this instance leads the relay.",
        _number(lambda numbers: int(numbers.leads)),
    ),
    Instrument(
        "walrelay_streams_total",
        "counter",
        "1",
        (),
        "How often the slot began to stream: the reconnects, and one.",
        _number(lambda numbers: numbers.streams),
    ),
    Instrument(
        "walrelay_retries_total",
        "counter",
        "1",
        ("error",),
        "Errors that the relay retries, by their class.",
        _counts(lambda numbers: numbers.retries),
    ),
    Instrument(
        "walrelay_last_error_timestamp_seconds",
        "gauge",
        "s",
        ("error",),
        "When the last error was, and its class.",
        _last_error,
    ),
    Instrument(
        "walrelay_dead_letters_total",
        "counter",
        "1",
        ("status", "error"),
        "Messages and records that became dead letters, or were skipped, by reason.",
        _counts(lambda numbers: numbers.dead_letters),
    ),
    Instrument(
        "walrelay_dead_letters_open",
        "gauge",
        "1",
        (),
        "Dead letters that wait for a decision.",
        _figure(lambda figures: figures.dead_letters),
    ),
    Instrument(
        "walrelay_dropped_records_total",
        "counter",
        "1",
        ("rule",),
        "Records that a rule drops.",
        _counts(lambda numbers: numbers.drops),
    ),
    Instrument(
        "walrelay_skipped_total",
        "counter",
        "1",
        (),
        "What was skipped because the settings or an operator say so.",
        _number(lambda numbers: numbers.skipped),
    ),
    Instrument(
        "walrelay_cleanup_rows_total",
        "counter",
        "1",
        (),
        "Rows that the clean-up deleted.",
        _number(lambda numbers: numbers.rows_deleted),
    ),
    Instrument(
        "walrelay_cleanup_failures_total",
        "counter",
        "1",
        (),
        "Passes of the clean-up that could not do everything.",
        _number(lambda numbers: numbers.clean_up_failures),
    ),
    Instrument(
        "walrelay_cleanup_timestamp_seconds",
        "gauge",
        "s",
        (),
        "When a pass of the clean-up last ended well.",
        _number(lambda numbers: numbers.cleaned_at),
    ),
    Instrument(
        "walrelay_mark_failures_total",
        "counter",
        "1",
        (),
        "Times that published rows could not be marked.",
        _number(lambda numbers: numbers.mark_failures),
    ),
    Instrument(
        "walrelay_postgres_up",
        "gauge",
        "1",
        (),
        "1 if PostgreSQL answered when it was asked for the numbers below.",
        lambda view: [((), float(view.postgres_up))],
    ),
    Instrument(
        "walrelay_lag_bytes",
        "gauge",
        "By",
        (),
        "WAL that is written and not confirmed.",
        _figure(lambda figures: figures.lag_bytes),
    ),
    Instrument(
        "walrelay_lag_seconds",
        "gauge",
        "s",
        (),
        "The age of the oldest transaction that waits to be confirmed; 0 below a second, absent while nobody leads.",
        _figure(lambda figures: figures.lag_seconds),
    ),
    Instrument(
        "walrelay_retained_wal_bytes",
        "gauge",
        "By",
        (),
        "WAL that the server keeps because of the slot.",
        _figure(lambda figures: figures.retained_bytes),
    ),
    Instrument(
        "walrelay_safe_wal_bytes",
        "gauge",
        "By",
        (),
        "WAL that can be written before the slot is in danger; absent without max_slot_wal_keep_size.",
        _figure(lambda figures: figures.safe_bytes),
    ),
    Instrument(
        "walrelay_slot_active",
        "gauge",
        "1",
        (),
        "1 while a process reads the slot.",
        _figure(lambda figures: figures.active),
    ),
    Instrument(
        "walrelay_slot_wal_status",
        "gauge",
        "1",
        ("wal_status",),
        "1 for the slot's wal_status; missing: there is no slot.",
        _one_of(("reserved", "extended", "unreserved", "lost", "missing"), _wal_status),
    ),
    Instrument(
        "walrelay_outbox_bytes",
        "gauge",
        "By",
        (),
        "The outbox with its indexes and partitions.",
        _figure(lambda figures: figures.outbox_bytes),
    ),
    Instrument(
        "walrelay_outbox_rows",
        "gauge",
        "1",
        (),
        "Rows of the outbox, as PostgreSQL estimates.",
        _figure(lambda figures: figures.outbox_rows),
    ),
    Instrument(
        "walrelay_outbox_dead_rows",
        "gauge",
        "1",
        (),
        "Its dead rows that no vacuum has removed yet: bloat.",
        _figure(lambda figures: figures.outbox_dead_rows),
    ),
)
