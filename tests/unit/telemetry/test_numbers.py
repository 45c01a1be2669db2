"""The numbers of a relay, and how they are shown."""

import re
from pathlib import Path

import pytest
import yaml
from prometheus_client.openmetrics.parser import text_string_to_metric_families

from tests.unit.telemetry.relays import STREAMING, message, seen, view
from walrelay.observe import (
    Acknowledged,
    Behind,
    Paused,
    PauseOver,
    Relayed,
    Settled,
    WaitedForRoom,
)
from walrelay.observe.numbers import RelayNumbers
from walrelay.observe.sent import OTHER_TOPICS
from walrelay.telemetry.instruments import INSTRUMENTS
from walrelay.telemetry.prometheus import Exposition


def samples(numbers: RelayNumbers, name: str) -> dict[tuple[str, ...], float]:
    """By the values of its own labels."""
    text, _ = Exposition(lambda: [view(numbers)], {}).text("application/openmetrics-text; version=1.0.0")
    return {
        tuple(value for label, value in sorted(each.labels.items()) if label not in ("relay", "slot")): each.value
        for family in text_string_to_metric_families(text.decode())  # type: ignore[no-untyped-call]
        for each in family.samples
        if each.name == name
    }


def test_what_is_sent_is_counted_by_topic() -> None:
    numbers = seen(Relayed(3, 3, [message("a"), message("b", None), message("a")], [2, 1], 3))
    assert samples(numbers, "messaging_client_sent_messages_total") == {("a", "kafka", ""): 2, ("b", "kafka", ""): 1}
    assert samples(numbers, "walrelay_sent_bytes_total") == {("a", "kafka", ""): 10, ("b", "kafka", ""): 0}
    assert samples(numbers, "walrelay_records_total") == {(): 3}
    assert samples(numbers, "walrelay_transaction_records_bucket")["1",] == 1
    assert samples(numbers, "walrelay_in_flight_messages") == {(): 3}


def test_turns_of_one_topic_and_of_several_and_transactions_alike_and_not_count_the_same() -> None:
    alike = seen(Relayed(3, 3, [message("a"), message("a", None), message("a")], [3, 3], 3))
    assert samples(alike, "messaging_client_sent_messages_total") == {("a", "kafka", ""): 3}
    assert samples(alike, "walrelay_sent_bytes_total") == {("a", "kafka", ""): 10}
    mixed = seen(Relayed(3, 0, [], [3, 1, 3], 3))
    assert (alike.sizes.sum, mixed.sizes.sum) == (6, 7)
    assert (alike.sizes.counts, mixed.sizes.counts) == ([0, 2, *[0] * 6], [1, 2, *[0] * 6])


def test_the_address_of_one_of_several_sinks_is_taken_apart() -> None:
    numbers = seen(Relayed(1, 1, [message("left:a:b")]), several_sinks=True)
    assert [*numbers.sent] == [("left", "a:b")]


def test_topics_beyond_the_limit_share_a_number() -> None:
    many = [message(f"t{number}") for number in range(5_000)]
    numbers = seen(Relayed(1, 1, many), Relayed(1, 1, many), topics=3)
    assert [*numbers.sent] == [("", "t0"), ("", "t1"), ("", "t2"), ("", OTHER_TOPICS)]
    assert sum(each.messages for each in numbers.sent.values()) == 10_000
    assert len(numbers._sent._by_address) <= 30, "a topic for each row must not fill the memory"


def test_receipts_of_one_run_after_the_other_add_up() -> None:
    numbers = seen(STREAMING, Acknowledged(5, 0), Acknowledged(3, 1), STREAMING, Acknowledged(9, 0))
    assert samples(numbers, "walrelay_published_messages_total") == {(): 17}


def test_a_distribution_has_every_value_once() -> None:
    numbers = seen(*(Settled(seconds, 0.0) for seconds in (0.001, 0.002, 1000.0)))
    buckets = samples(numbers, "walrelay_publish_latency_seconds_bucket")
    assert (buckets["0.001",], buckets["0.0025",], buckets["300.0",], buckets["+Inf",]) == (1, 2, 2, 3)
    assert samples(numbers, "walrelay_publish_latency_seconds_sum") == {(): pytest.approx(1000.003)}


def test_back_pressure_adds_up() -> None:
    assert samples(seen(WaitedForRoom(0.25), WaitedForRoom(0.5)), "walrelay_back_pressure_seconds_total") == {(): 0.75}


def test_an_alias_is_the_same_metric_under_another_name() -> None:
    text, _ = Exposition(lambda: [view(seen())], {"outbox_backlog": "walrelay_lag_bytes"}).text("")
    assert 'outbox_backlog{relay="r",slot="s"} 0.0' in text.decode()


def test_every_metric_is_in_the_docs_with_its_unit_its_meaning_and_its_alerts() -> None:
    root = Path(__file__).parents[3]
    page = (root / "docs" / "metrics.md").read_text()
    groups = yaml.safe_load((root / "deploy" / "prometheus" / "walrelay.rules.yaml").read_text())["groups"]
    rules = [rule for group in groups for rule in group["rules"]]
    for each in INSTRUMENTS:
        labels = ", ".join(f"`{label}`" for label in each.labels)
        alerts = ", ".join(
            f"[{rule['alert']}](runbook.md#{rule['annotations']['runbook'].rpartition('#')[2]})"
            for rule in rules
            if re.search(rf"\b{each.name}(_bucket)?\b", str(rule["expr"]))
        )
        assert f"| `{each.name}` | {each.kind} | {each.unit} | {labels} | {each.meaning} | {alerts} |" in page


def test_a_pause_is_told_since_when_it_was_asked_for_and_until_it_is_over() -> None:
    paused = Paused("s", "by a", "", 1500.5)
    assert samples(seen(paused), "walrelay_paused_timestamp_seconds") == {(): 1500.5}
    assert samples(seen(paused, PauseOver("resumed", 2.0)), "walrelay_paused_timestamp_seconds") == {}
    assert samples(seen(), "walrelay_paused_timestamp_seconds") == {}


def test_a_lag_is_told_since_when() -> None:
    assert seen(Behind(1_500_000)).behind_since == 1.5
    assert seen(Behind(1_500_000), Behind(None)).behind_since is None
