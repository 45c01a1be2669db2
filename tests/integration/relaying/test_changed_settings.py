"""A dead letter stays one and settles its own message alone, whatever the settings of the next start are."""

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from tests.integration.relaying.broker import Killed
from tests.integration.relaying.conftest import OutboxMaker
from tests.integration.relaying.harness import Outbox
from walrelay.cli import main
from walrelay.dead_letters import OPEN, DeadLetterFilter, DeadLetterTable
from walrelay.dead_letters.elsewhere import letters_elsewhere
from walrelay.dead_letters.replay import ReplayOutcome, dead_letter_replay
from walrelay.errors import Refused
from walrelay.model import RecordPosition
from walrelay.observe import Noticed
from walrelay.postgres.catalog import Catalog

KEPT: dict[str, Any] = {"policy": "dead_letter"}


@pytest.fixture
def way() -> str:
    """How the slot is read decides nothing here."""
    return "text"


def to(*topics: str) -> list[dict[str, Any]]:
    """Rules that make a message for each of the topics, but for the harness's own events."""
    own = {"name": "own", "when": {"aggregate_type": "test"}}
    rules = [{"name": topic, "topic": topic, "continue": True} for topic in topics]
    return [own, *rules[:-1], {"name": topics[-1], "topic": topics[-1]}]


def died_with_a_letter(outbox: Outbox, *, confirmed: int = 0) -> None:
    """A relay that is killed when its first dead letter is durable; no message has a receipt but those granted."""
    outbox.broker.withhold()
    with outbox.relay() as relay:
        relay.wait_until(lambda: letters(outbox), "a dead letter")
        outbox.broker.break_after(0, Killed)
        outbox.write("later")
        relay.dies()
    outbox.broker.release()


def letters(outbox: Outbox) -> list[tuple[object, ...]]:
    return outbox.database.execute("SELECT topic, status FROM walrelay.dead_letters ORDER BY commit_lsn, number, id")


def replay(outbox: Outbox, instead: str | None = None) -> list[ReplayOutcome]:
    with Catalog(outbox.wiring.dsn) as catalog:
        table = DeadLetterTable(catalog, outbox.wiring.slot)
        ids, statuses = table.find_to_replay(DeadLetterFilter())
        return list(dead_letter_replay(outbox.wiring, table, "operator", instead).replay(ids, statuses))


def discard(outbox: Outbox) -> None:
    with Catalog(outbox.wiring.dsn) as catalog:
        table = DeadLetterTable(catalog, outbox.wiring.slot)
        table.discard(table.find(DeadLetterFilter(statuses=OPEN)), "operator", "a test")


def of_event(outbox: Outbox, value: bytes) -> dict[str, int]:
    """How often each topic has the event."""
    topics = [message.topic for message in outbox.broker.durable if message.value == value]
    return {topic: topics.count(topic) for topic in sorted(topics)}


@pytest.mark.parametrize("then", [to("us", "eu"), to("archive", "eu", "us")], ids=["reordered", "inserted"])
def test_other_rules_after_a_crash_leave_every_destination_its_message(
    make_outbox: OutboxMaker, then: list[dict[str, Any]]
) -> None:
    outbox = make_outbox(refusals=KEPT, routes=to("eu", "us"))
    outbox.broker.refused = {"us"}
    outbox.write(1)
    died_with_a_letter(outbox)
    outbox.broker.refused = set()
    changed = outbox.under(routes=then)
    with changed.relay() as relay:
        changed.messages(relay)
        once = {rule["name"]: 1 for rule in then if rule["name"] not in ("us", "own")}
        assert of_event(changed, b"1") == once
        assert [each.outcome for each in replay(changed)] == ["replayed"]
    assert of_event(changed, b"1") == once | {"us": 1}
    assert letters(changed) == [("us", "replayed")]


def test_a_replay_publishes_to_the_topic_of_its_letter_after_a_rule_was_inserted(make_outbox: OutboxMaker) -> None:
    outbox = make_outbox(refusals=KEPT, routes=to("a", "b"))
    outbox.broker.refused = {"b"}
    outbox.write(1)
    with outbox.relay() as relay:
        outbox.messages(relay)
    outbox.broker.refused = set()
    changed = outbox.under(routes=to("archive", "a", "b"))
    assert [each.outcome for each in replay(changed)] == ["replayed"]
    assert of_event(changed, b"1") == {"a": 1, "b": 1}


def test_a_second_refusal_under_other_rules_is_a_letter_of_its_own(make_outbox: OutboxMaker) -> None:
    outbox = make_outbox(refusals=KEPT, routes=to("eu", "us"))
    outbox.broker.refused = {"us"}
    outbox.write(1)
    died_with_a_letter(outbox)
    outbox.broker.refused = {"us", "eu"}
    changed = outbox.under(routes=to("us", "eu"))
    with changed.relay() as relay:
        changed.messages(relay)
    assert sorted(letters(changed))[:2] == [("eu", "waiting")] * 2  # also of the event that came later
    query = "SELECT topic, attempts FROM walrelay.dead_letters WHERE message->>'value' = '1'"
    assert sorted(changed.database.execute(query)) == [("eu", 1), ("us", 1)]
    changed.broker.refused = set()
    assert {each.outcome for each in replay(changed)} == {"replayed"}
    assert of_event(changed, b"1") == {"eu": 1, "us": 1}


def test_a_letter_whose_topic_is_gone_is_left_until_another_topic_is_named(make_outbox: OutboxMaker) -> None:
    outbox = make_outbox(refusals=KEPT, routes=to("a", "ordres"))
    outbox.broker.refused = {"ordres"}
    outbox.write(1)
    with outbox.relay() as relay:
        outbox.messages(relay)
    changed = outbox.under(routes=to("a", "orders"))
    (left,) = replay(changed)
    assert (left.outcome, letters(changed)) == ("left", [("ordres", "waiting")])
    assert "no message for topic ordres" in left.why
    assert "they give: a, orders" in left.why
    assert "--instead TOPIC" in left.why
    assert [each.outcome for each in replay(changed, "nonsense")] == ["left"]
    assert [each.outcome for each in replay(changed, "orders")] == ["replayed"]
    assert of_event(changed, b"1") == {"a": 1, "orders": 1}


@pytest.mark.parametrize("decision", ["wait", "discard"])
def test_a_letter_of_a_whole_record_settles_all_of_its_messages(make_outbox: OutboxMaker, decision: str) -> None:
    outbox = make_outbox(
        refusals={**KEPT, "topics": {"pay": "stop"}},
        routes=[*to("pay")[:1], {"name": "pay", "when": {"aggregate_id": "2"}, "topic": "pay"}],
    )
    outbox.broker.refused = {"pay"}
    with outbox.database.connect(autocommit=False) as connection:
        outbox.write(1, 2, connection=connection)
    assert isinstance(outbox.failure(), Refused)
    assert letters(outbox) == [(None, "waiting")]
    if decision == "discard":
        discard(outbox)
    outbox.broker.refused = set()
    changed = outbox.under(routes=to("a", "b"))
    with changed.relay() as relay:
        changed.messages(relay)
        assert of_event(changed, b"1") == {}
        assert of_event(changed, b"2") == {"a": 1, "b": 1}
        replay(changed)
    assert of_event(changed, b"1") == ({} if decision == "discard" else {"a": 1, "b": 1})


def test_a_replay_of_a_whole_record_repeats_no_message_that_was_published(make_outbox: OutboxMaker) -> None:
    outbox = make_outbox(refusals=KEPT, routes=[*to("a")[:1], {"name": "none", "topic": "{tenant_id}"}])
    outbox.write(1)
    with outbox.relay() as relay:
        outbox.messages(relay)
    changed = outbox.under(routes=to("a", "b"))
    changed.broker.refused = {"b"}
    assert [each.outcome for each in replay(changed)] == ["refused"]
    assert letters(changed) == [(None, "replayed"), ("b", "waiting")]
    changed.broker.refused = set()
    assert [each.outcome for each in replay(changed)] == ["replayed"]
    assert of_event(changed, b"1") == {"a": 1, "b": 1}
    headers = [name for name, _ in changed.broker.durable[-1].headers]
    assert headers.count("replayed") == 1


@pytest.mark.parametrize("decision", ["wait", "discard"])
def test_the_policy_stop_honours_the_letters_of_an_earlier_life(make_outbox: OutboxMaker, decision: str) -> None:
    outbox = make_outbox(refusals=KEPT, routes=to("a"))
    outbox.broker.refused = {"a"}
    outbox.write(1)
    died_with_a_letter(outbox)
    outbox.broker.refused = set()
    if decision == "discard":
        discard(outbox)
    changed = outbox.under(refusals={"policy": "stop"})
    with changed.relay() as relay:
        changed.messages(relay)
        assert of_event(changed, b"1") == {}
        replay(changed)
    assert of_event(changed, b"1") == ({} if decision == "discard" else {"a": 1})


def test_the_policy_stop_does_not_stop_at_a_record_that_is_a_letter(make_outbox: OutboxMaker) -> None:
    """Two records of one transaction: no rule routes the first, and the second stops the relay."""
    first = {"name": "nothing", "when": {"aggregate_id": "1"}, "topic": "{tenant_id}"}
    outbox = make_outbox(refusals={**KEPT, "topics": {"pay": "stop"}}, routes=[*to("pay")[:1], first, *to("pay")[1:]])
    outbox.broker.refused = {"pay"}
    with outbox.database.connect(autocommit=False) as connection:
        outbox.write(1, 2, connection=connection)
    assert isinstance(outbox.failure(), Refused)
    outbox.broker.refused = set()
    with outbox.under(refusals={"policy": "stop", "topics": {}}).relay() as relay:
        outbox.messages(relay)
    assert (of_event(outbox, b"1"), of_event(outbox, b"2")) == ({}, {"pay": 1})
    assert letters(outbox) == [(None, "waiting")]


def test_a_tenant_without_a_place_keeps_no_other_tenant_out(make_outbox: OutboxMaker) -> None:
    """Here the key is the tenant, and a place is missing."""
    outbox = make_outbox(refusals=KEPT, routes=to("a"), place="queue of {key}")
    outbox.broker.refused, outbox.broker.scope = {"queue of 1"}, "topic"
    with outbox.relay() as relay:
        outbox.write(1)
        relay.wait_until(lambda: letters(outbox), "a dead letter")
        outbox.write(2, 1, 2)
        outbox.messages(relay)
    assert (of_event(outbox, b"2"), of_event(outbox, b"1")) == ({"a": 2}, {})
    attempts = outbox.database.execute("SELECT attempts FROM walrelay.dead_letters ORDER BY commit_lsn")
    assert attempts == [(1,), (0,)], "the place is not asked again so soon"


KEYED: dict[str, Any] = {"name": "by-type", "topic": "a", "key": "{type}"}


@pytest.mark.parametrize(
    ("then", "now", "topic"),
    [(to("old"), to("new"), "new"), (to("a"), [*to("a")[:1], KEYED], "a")],
    ids=["another topic", "another key"],
)
def test_later_messages_wait_behind_a_letter_whose_topic_or_key_changed(
    make_outbox: OutboxMaker, then: list[dict[str, Any]], now: list[dict[str, Any]], topic: str
) -> None:
    blocking = {**KEPT, "block_key": True}
    outbox = make_outbox(refusals=blocking, routes=then)
    outbox.broker.refused = {"old", "a"}
    with outbox.relay() as relay:
        outbox.write(1)
        relay.wait_until(lambda: letters(outbox), "a dead letter")
        outbox.write(1)
        outbox.messages(relay)
    outbox.broker.refused = set()
    changed = outbox.under(routes=now)
    with changed.relay() as relay:
        changed.write(1)
        changed.messages(relay)
        assert [status for _, status in letters(changed)] == ["waiting", "blocked", "blocked"]
        assert of_event(changed, b"1") == {}
        last = max(row[0] for row in changed.database.execute("SELECT id FROM walrelay.dead_letters"))
        with Catalog(changed.wiring.dsn) as catalog:
            table = DeadLetterTable(catalog, changed.wiring.slot)
            (left,) = dead_letter_replay(changed.wiring, table, "operator").replay([last], ("blocked",))
        assert (left.outcome, "waits behind dead letter" in left.why) == ("left", True)
        assert [each.outcome for each in replay(changed, "new")] == ["replayed"] * 3
        positions = [dict(each.headers)["position"] for each in changed.broker.durable if each.topic == topic]
        assert len(positions) == 3
        assert positions == sorted(positions, key=lambda each: RecordPosition.parse((each or b"").decode()))
        changed.write(1)
        changed.messages(relay)
    assert of_event(changed, b"1") == {topic: 4}


@pytest.mark.parametrize("gone", [True, False])
def test_open_letters_of_a_renamed_slot_are_told_with_what_takes_them_over(
    make_outbox: OutboxMaker, tmp_path: Path, gone: bool
) -> None:
    outbox = make_outbox(refusals=KEPT, routes=to("a"))
    outbox.broker.refused = {"a"}
    outbox.write(1)
    with outbox.relay() as relay:
        outbox.messages(relay)
    old, new = outbox.wiring.slot, f"{outbox.wiring.slot}_new"
    if gone:
        outbox.database.execute("SELECT pg_drop_replication_slot(%s)", [old])
    renamed = outbox.under(source={"slot": new}, refusals={**KEPT, "block_key": True})
    path = tmp_path / "walrelay.yaml"
    source = {"dsn": outbox.database.dsn, "slot": new, "binary": False}
    path.write_text(json.dumps({"source": source, "sink": {"kind": "memory"}}))

    def said(*arguments: str) -> str:
        return CliRunner().invoke(main, [*arguments, "-c", str(path)]).output

    told = f"1 open dead letter is of slot {old}, which {'is gone' if gone else 'no relay reads'}"
    for command in ("init", "doctor", "dlq list", "status"):
        assert told in said(*command.split()), command
    with renamed.relay() as relay:
        renamed.messages(relay)
        assert any(told in str(each) for each in renamed.watcher.of(Noticed))
    with Catalog(outbox.wiring.dsn) as catalog:
        (finding,) = letters_elsewhere(catalog, new, renamed.wiring.table)
    outbox.database.execute(finding.fix)
    assert told not in said("doctor")
    outbox.broker.refused = set()
    with renamed.relay() as relay:
        renamed.write(1)
        renamed.messages(relay)
        assert [status for _, status in letters(renamed)] == ["waiting", "blocked"]
    assert [each.outcome for each in replay(renamed)] == ["replayed"] * 2
    assert of_event(renamed, b"1") == {"a": 2}


def test_letters_of_another_relay_of_the_outbox_are_its_own(make_outbox: OutboxMaker) -> None:
    outbox = make_outbox(refusals=KEPT, routes=to("a"))
    outbox.broker.refused = {"a"}
    outbox.write(1)
    with outbox.relay() as relay, Catalog(outbox.wiring.dsn) as catalog:
        outbox.messages(relay)
        assert [*letters_elsewhere(catalog, "another", outbox.wiring.table)] == []
    with Catalog(outbox.wiring.dsn) as catalog:
        assert [*letters_elsewhere(catalog, "another", "public.another")] == []
        assert len([*letters_elsewhere(catalog, "another", outbox.wiring.table)]) == 1


def test_exactly_once_leaves_a_letter_until_the_relay_has_passed_it(make_outbox: OutboxMaker) -> None:
    """A group that was aborted has not published what precedes the letter."""
    outbox = make_outbox(refusals={**KEPT, "block_key": True}, routes=to("a"))
    outbox.broker.refused = {"a"}
    outbox.write(1)
    died_with_a_letter(outbox)
    outbox.broker.refused = set()
    outbox.wiring = outbox.wiring._replace(exactly_once=True)
    (left,) = replay(outbox)
    assert (left.outcome, letters(outbox)[:1]) == ("left", [("a", "waiting")])
    assert "the relay has not confirmed what is before it" in left.why
    assert of_event(outbox, b"1") == {}
    outbox.wiring = outbox.wiring._replace(exactly_once=False)
    with outbox.relay() as relay:
        outbox.messages(relay)
        relay.confirms(outbox.end_of_wal())
    outbox.wiring = outbox.wiring._replace(exactly_once=True)
    assert {each.outcome for each in replay(outbox)} == {"replayed"}
    assert of_event(outbox, b"1") == {"a": 1}


def test_exactly_once_replays_the_letters_of_a_slot_that_is_gone(make_outbox: OutboxMaker) -> None:
    outbox = make_outbox(refusals=KEPT, routes=to("a"))
    outbox.broker.refused = {"a"}
    outbox.write(1)
    died_with_a_letter(outbox)
    outbox.broker.refused = set()
    outbox.database.drop_slots()
    outbox.wiring = outbox.wiring._replace(exactly_once=True)
    assert [each.outcome for each in replay(outbox)] == ["replayed"]


def test_without_a_table_the_policy_stop_relays(make_outbox: OutboxMaker) -> None:
    outbox = make_outbox()
    outbox.database.execute("DROP TABLE walrelay.dead_letters")
    outbox.write(1)
    with outbox.relay() as relay:
        assert outbox.values(relay) == [b"1"]
