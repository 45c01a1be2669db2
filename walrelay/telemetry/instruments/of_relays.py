"""What the relay itself counts."""

from collections.abc import Callable, Iterable
from typing import Any, get_args

from walrelay.observe.numbers import State
from walrelay.telemetry.instruments.reading import (
    Instrument,
    Read,
    RelayView,
    Sample,
    counts,
    messaging_system,
    of_numbers,
    one_of,
)

_TOPIC = ("sink", "messaging_system", "messaging_destination_name")


def _by_topic(get: Callable[[Any], int]) -> Read:
    def read(view: RelayView) -> Iterable[Sample]:
        for (sink, topic), sent in view.numbers.sent.items():
            yield (sink, messaging_system(view.kinds.get(sink, "")), topic), get(sent)

    return read


def _last_error(view: RelayView) -> Iterable[Sample]:
    last = view.numbers.last_error
    return () if last is None else [((last.error,), last.at)]


OF_RELAYS = (
    Instrument(
        "walrelay_records_total",
        "counter",
        "{record}",
        (),
        "Rows and logical messages that were read.",
        of_numbers(lambda numbers: numbers.records),
    ),
    Instrument(
        "messaging_client_sent_messages_total",
        "counter",
        "{message}",
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
        "{message}",
        (),
        "Messages that the broker acknowledged as durable.",
        of_numbers(lambda numbers: numbers.published),
    ),
    Instrument(
        "walrelay_batches_total",
        "counter",
        "{batch}",
        (),
        "Turns of the loop in which messages were handed to the sink: what it got together.",
        of_numbers(lambda numbers: numbers.batches),
    ),
    Instrument(
        "walrelay_in_flight_messages",
        "gauge",
        "{message}",
        (),
        "Messages that were handed to the sink and are not durable yet.",
        of_numbers(lambda numbers: numbers.in_flight),
    ),
    Instrument(
        "walrelay_publish_latency_seconds",
        "histogram",
        "s",
        (),
        "From a transaction's commit, by the server's clock, until its last message was durable. Under load of the last"
        " transaction of each turn of the loop.",
        of_numbers(lambda numbers: numbers.latency),
    ),
    Instrument(
        "walrelay_round_trip_seconds",
        "histogram",
        "s",
        (),
        "The same from the moment at which the relay had read it: routing, batching and the broker.",
        of_numbers(lambda numbers: numbers.round_trip),
    ),
    Instrument(
        "walrelay_transaction_records",
        "histogram",
        "{record}",
        (),
        "How many outbox rows a transaction has.",
        of_numbers(lambda numbers: numbers.sizes),
    ),
    Instrument(
        "walrelay_back_pressure_seconds_total",
        "counter",
        "s",
        (),
        "How long nothing was read because the sink had no room.",
        of_numbers(lambda numbers: numbers.back_pressure),
    ),
    Instrument(
        "walrelay_registry_wait_seconds_total",
        "counter",
        "s",
        (),
        "How long nothing was read because the schema registry was away.",
        of_numbers(lambda numbers: numbers.registry_wait),
    ),
    Instrument(
        "walrelay_stalled",
        "gauge",
        "{state}",
        (),
        "1 while the oldest transaction has had no receipt for 5 s, or a sink says that its broker is away or takes"
        " nothing.",
        of_numbers(lambda numbers: int(numbers.stalled is not None)),
    ),
    Instrument(
        "walrelay_state",
        "gauge",
        "{state}",
        ("state",),
        f"1 for the state that the relay is in: {', '.join(get_args(State))}.",
        one_of(get_args(State), lambda view: view.numbers.state),
    ),
    Instrument(
        "walrelay_leader",
        "gauge",
        "{state}",
        (),
        "1 while this instance leads the relay.",
        of_numbers(lambda numbers: int(numbers.leads)),
    ),
    Instrument(
        "walrelay_paused_timestamp_seconds",
        "gauge",
        "s",
        (),
        "When the pause began, by the server's clock; absent unless this instance leads the relay and it is paused.",
        of_numbers(lambda numbers: numbers.paused_at),
    ),
    Instrument(
        "walrelay_streams_total",
        "counter",
        "{stream}",
        (),
        "How often the slot began to stream: the reconnects, and one.",
        of_numbers(lambda numbers: numbers.streams),
    ),
    Instrument(
        "walrelay_retries_total",
        "counter",
        "{error}",
        ("error",),
        "Errors that the relay retries, by their class.",
        counts(lambda numbers: numbers.retries),
    ),
    Instrument(
        "walrelay_fatal_errors_total",
        "counter",
        "{error}",
        ("error",),
        "Errors that ended the relay, by their class: refusals among them, where the policy is to stop.",
        counts(lambda numbers: numbers.fatal),
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
        "{letter}",
        ("status", "error"),
        "Messages and records that became dead letters, or were skipped, by reason; beyond 100 reasons `(other)`.",
        counts(lambda numbers: numbers.dead_letters),
    ),
    Instrument(
        "walrelay_dropped_records_total",
        "counter",
        "{record}",
        ("rule",),
        "Records that a rule drops.",
        counts(lambda numbers: numbers.drops),
    ),
    Instrument(
        "walrelay_skipped_total",
        "counter",
        "{event}",
        (),
        "What was skipped because the settings or an operator say so.",
        of_numbers(lambda numbers: numbers.skipped),
    ),
    Instrument(
        "walrelay_cleanup_rows_total",
        "counter",
        "{row}",
        (),
        "Rows that the clean-up deleted.",
        of_numbers(lambda numbers: numbers.rows_deleted),
    ),
    Instrument(
        "walrelay_cleanup_partitions_total",
        "counter",
        "{partition}",
        (),
        "Partitions that the clean-up dropped.",
        of_numbers(lambda numbers: numbers.partitions_dropped),
    ),
    Instrument(
        "walrelay_cleanup_failures_total",
        "counter",
        "{pass}",
        (),
        "Passes of the clean-up that could not do everything.",
        of_numbers(lambda numbers: numbers.clean_up_failures),
    ),
    Instrument(
        "walrelay_cleanup_timestamp_seconds",
        "gauge",
        "s",
        (),
        "When a pass of the clean-up last ended well.",
        of_numbers(lambda numbers: numbers.cleaned_at),
    ),
    Instrument(
        "walrelay_mark_failures_total",
        "counter",
        "{pass}",
        (),
        "Times that published rows could not be marked.",
        of_numbers(lambda numbers: numbers.mark_failures),
    ),
    Instrument(
        "walrelay_telemetry_dropped_total",
        "counter",
        "{item}",
        ("signal",),
        "Spans (traces) and log records (logs) that no collector got: it was away, or there were too many.",
        counts(lambda numbers: numbers.untold),
    ),
)
