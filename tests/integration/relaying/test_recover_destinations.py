"""`walrelay recover` and `init --backfill` judge each message of a row by its own topic, and leave out dead letters."""

from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest

from tests.integration.relaying.broker import Killed
from tests.integration.relaying.harness import Outbox, header
from tests.integration.relaying.test_recover import lose
from tests.servers.database import Database
from walrelay.dead_letter import record_json
from walrelay.lsn import LSN
from walrelay.model import OutboxRecord
from walrelay.operations import recovery

pytestmark = pytest.mark.parametrize("way", ["text"])  # the table is read in one way only

BOTH: dict[str, Any] = {"routes": [{"name": "a", "continue": True, "topic": "a"}, {"name": "b", "topic": "b"}]}


@pytest.fixture
def fanned(make_outbox: Callable[..., Outbox]) -> Outbox:
    """Each row becomes a message of topic a and one of topic b."""
    return make_outbox(**BOTH)


def values(outbox: Outbox) -> dict[str, list[str]]:
    """What each topic has, in order."""
    found = dict[str, list[str]]()
    for message in outbox.broker.durable:
        found.setdefault(message.topic, []).append((message.value or b"").decode())
    return found


def published(outbox: Outbox, *numbers: int) -> None:
    outbox.write(*numbers)
    with outbox.relay() as relay:
        relay.confirms(outbox.end_of_wal())


def taken_back(outbox: Outbox, topic: str, *numbers: int) -> None:
    """As if the relay had been killed before that topic had them."""
    gone = {str(number).encode() for number in numbers}
    outbox.broker.durable[:] = [each for each in outbox.broker.durable if each.topic != topic or each.value not in gone]


def letter(outbox: Outbox, number: int, status: str, topic: str | None = "a") -> None:
    """A dead letter of the row with that payload."""
    outbox.database.execute(
        "INSERT INTO walrelay.dead_letters (slot_name, commit_lsn, ordinal, number, record_id, sink, topic, key,"
        " status, error, reason, attempts) SELECT %s, '0/10', %s, 0, id::text, 'recording', %s, aggregate_id::bytea,"
        " %s, 'too_large', 'too large', 1 FROM outbox WHERE payload = %s::jsonb",
        [outbox.settings.source.slot, number, topic, status, str(number)],
    )


def test_a_message_that_its_own_topic_lacks_is_published_alone(fanned: Outbox) -> None:
    published(fanned, 1, 2, 3)
    taken_back(fanned, "b", 2, 3)
    lose(fanned)
    fanned.write(4)
    plan = fanned.recover()
    assert (plan.rows, plan.settled.partly) == (3, 2)
    assert values(fanned) == {"a": ["1", "2", "3", "4"], "b": ["1", "2", "3", "4"]}


def test_two_messages_of_a_row_in_one_topic_are_both_looked_for(make_outbox: Callable[..., Outbox]) -> None:
    rules = [{"name": "1", "continue": True, "topic": "a", "key": "one"}, {"name": "2", "topic": "a", "key": "two"}]
    outbox = make_outbox(routes=rules)
    published(outbox, 1, 2)
    second = [each for each in outbox.broker.durable if each.key == b"two" and each.value == b"2"]
    outbox.broker.durable.remove(second[0])
    outbox.broker.durable.append(outbox.broker.durable[-1])  # and a repetition of the first
    lose(outbox)
    assert outbox.recover().rows == 1
    assert Counter((each.key, each.value) for each in outbox.broker.durable).keys() == {
        (key, value) for key in (b"one", b"two") for value in (b"1", b"2")
    }


def test_a_recovery_killed_between_two_topics_goes_on_without_a_loss(
    fanned: Outbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("walrelay.table.rows.BATCH_ROWS", 4)
    lose(fanned)
    fanned.write(*range(20))
    for offered in (1, 2, 3, 4, 5, 6):
        fanned.broker.break_after(offered, Killed)
        with pytest.raises(Killed):
            fanned.recover()
        fanned.broker.durable.append(fanned.broker.offered[-1])  # of the batch one message alone was acknowledged
    fanned.recover()
    assert {topic: {*map(int, of)} for topic, of in values(fanned).items()} == {"a": {*range(20)}, "b": {*range(20)}}


@pytest.mark.parametrize("status", ["waiting", "blocked", "discarded", "skipped", "replayed"])
def test_a_dead_letter_is_left_out_and_its_siblings_are_published(fanned: Outbox, status: str) -> None:
    fanned.write(1, 2)
    letter(fanned, 1, status)
    lose(fanned)
    plan = fanned.recover()
    assert values(fanned) == {"a": ["2"], "b": ["1", "2"]}
    assert plan.settled.letters == ({} if status == "replayed" else {status: 1})


def test_a_record_that_is_a_dead_letter_as_a_whole_does_not_end_the_command(make_outbox: Callable[..., Outbox]) -> None:
    outbox = make_outbox(routes=[{"name": "a", "when": {"type": "placed"}, "topic": "a"}])
    outbox.write(1, 2)
    outbox.database.execute("UPDATE outbox SET type = 'unknown' WHERE payload = '1'")
    letter(outbox, 1, "discarded", None)
    lose(outbox)
    assert outbox.recover().rows == 1
    assert values(outbox) == {"a": ["2"]}


def test_a_backfill_leaves_out_the_dead_letters_of_an_earlier_slot(database: Database, way: str) -> None:
    outbox = Outbox(database, way, **BOTH)
    outbox.init()
    lose(outbox)
    outbox.write(1, 2, 3)
    letter(outbox, 1, "discarded")
    letter(outbox, 2, "replayed")
    database.execute("DELETE FROM walrelay.slots")
    assert outbox.backfill()
    assert values(outbox) == {"a": ["2", "3"], "b": ["1", "2", "3"]}


def test_a_topic_of_earlier_rules_counts_where_it_is_named(make_outbox: Callable[..., Outbox]) -> None:
    outbox = make_outbox(route={"topic": "old"})
    published(outbox, 1, 2, 3)
    outbox = outbox.under(route={"topic": "new"})
    published(outbox, 4)
    lose(outbox)
    plan = recovery.plan_recovery(outbox.wiring, recovery.RecoveryRequest())
    assert (plan.rows, plan.repeats) == (3, 0)
    assert not plan.settled.elsewhere, "nothing names that topic"
    plan = outbox.recover(topics=("old",))
    assert plan.rows == 0
    assert values(outbox) == {"old": ["1", "2", "3"], "new": ["4"]}


def test_a_topic_that_dead_letters_name_is_read_and_told(make_outbox: Callable[..., Outbox]) -> None:
    outbox = make_outbox(route={"topic": "old"})
    published(outbox, 1, 2, 3)
    letter(outbox, 3, "discarded", "old")
    outbox = outbox.under(route={"topic": "new"})
    lose(outbox)
    plan = recovery.plan_recovery(outbox.wiring, recovery.RecoveryRequest())
    assert (plan.settled.elsewhere, plan.settled.letters) == ({"old": 3}, {})
    plan = outbox.recover(topics=("old",))
    assert (plan.rows, plan.settled.letters) == (0, {"discarded": 1})


@pytest.mark.parametrize("status", ["waiting", "discarded", "replayed"])
def test_a_letter_of_a_topic_that_is_gone_hides_no_message(make_outbox: Callable[..., Outbox], status: str) -> None:
    outbox = make_outbox(routes=[{"name": "gone", "topic": "old", "continue": True}, {"name": "new", "topic": "new"}])
    published(outbox, 1)
    letter(outbox, 1, status, "old")
    outbox.broker.durable.clear()
    outbox = outbox.under(routes=[{"name": "new", "topic": "new"}])
    lose(outbox)
    assert outbox.recover().rows == 1
    assert values(outbox) == {"new": ["1"]}


def test_of_two_letters_of_a_topic_the_key_says_which_is_the_rows(make_outbox: Callable[..., Outbox]) -> None:
    rules = [{"name": key, "topic": "a", "key": key, "continue": key == "k1"} for key in ("k1", "k2")]
    outbox = make_outbox(routes=rules)
    outbox.write(1)
    for number, status in ((1, "replayed"), (0, "discarded")):
        letter(outbox, 1, status)
        key = f"k{number + 1}"
        changed = "UPDATE walrelay.dead_letters SET number = %s, key = %s::bytea WHERE status = %s"
        outbox.database.execute(changed, [number, key, status])
    outbox = outbox.under(routes=rules[1:])
    lose(outbox)
    outbox.database.execute("DELETE FROM walrelay.slots")
    assert outbox.backfill()
    assert values(outbox) == {"a": ["1"]}, "what was replayed comes again, what was discarded was another message"


def test_an_edited_message_that_was_replayed_counts_for_the_row(make_outbox: Callable[..., Outbox]) -> None:
    outbox = make_outbox(route={"topic": "a"})
    published(outbox, 1)
    outbox.write(2)
    letter(outbox, 2, "replayed")
    lose(outbox)
    assert outbox.recover().rows == 0
    assert [header(each, "id") for each in outbox.broker.durable if each.value == b"2"] == []


def letters_of(outbox: Outbox) -> list[tuple[str, str]]:
    """The payload and the status of each dead letter's row, in the order of the dead letters."""
    return outbox.database.execute(
        "SELECT payload::text, status FROM walrelay.dead_letters JOIN outbox o ON record_id = o.id::text"
        " ORDER BY commit_lsn, ordinal"
    )


@pytest.mark.parametrize("command", ["recover", "backfill"])
def test_rows_behind_a_dead_letter_of_their_key_are_blocked_behind_it(
    make_outbox: Callable[..., Outbox], command: str
) -> None:
    outbox = make_outbox(route={"topic": "a"}, refusals={"policy": "dead_letter", "block_key": True})
    outbox.write(1, 2, 3, 4)
    outbox.database.execute("UPDATE outbox SET aggregate_id = 'k' WHERE payload <> '3'")
    letter(outbox, 2, "waiting")
    lose(outbox)
    if command == "recover":
        outbox.recover()
    else:
        outbox.database.execute("DELETE FROM walrelay.slots")
        assert outbox.backfill()
    assert values(outbox) == {"a": ["1", "3"]}, "what precedes it in its key, and other keys, do not wait"
    assert letters_of(outbox) == [("2", "waiting"), ("4", "blocked")]
    outbox.write(5)
    outbox.database.execute("UPDATE outbox SET aggregate_id = 'k' WHERE payload = '5'")
    lose(outbox)
    outbox.recover()
    assert values(outbox) == {"a": ["1", "3"]}
    assert letters_of(outbox) == [("2", "waiting"), ("4", "blocked"), ("5", "blocked")]


@pytest.mark.parametrize(
    ("before", "after"),
    [({"topic": "a"}, {"topic": "new"}), ({"topic": "a", "key": "{id}"}, {"topic": "a"})],
    ids=["topic", "key"],
)
def test_rows_wait_behind_a_letter_whose_topic_or_key_changed(
    make_outbox: Callable[..., Outbox], before: dict[str, str], after: dict[str, str]
) -> None:
    refusals = {"policy": "dead_letter", "block_key": True}
    outbox = make_outbox(route=before, refusals=refusals)
    outbox.broker.refused = {"a"}
    outbox.write(1)
    with outbox.relay() as relay:
        outbox.messages(relay)
    outbox.broker.refused = set()
    outbox.write(2)
    outbox.database.execute("UPDATE outbox SET aggregate_id = '1'")
    lose(outbox)
    outbox = outbox.under(route={"key": None, **after})
    outbox.recover()
    assert [status for _, status in letters_of(outbox)] == ["waiting", "blocked"]
    assert "2" not in values(outbox).get(after["topic"], [])


def test_a_key_is_free_once_its_dead_letter_was_discarded(make_outbox: Callable[..., Outbox]) -> None:
    outbox = make_outbox(route={"topic": "a"}, refusals={"policy": "dead_letter", "block_key": True})
    outbox.write(1, 2)
    outbox.database.execute("UPDATE outbox SET aggregate_id = 'k'")
    letter(outbox, 1, "discarded")
    lose(outbox)
    outbox.recover()
    assert values(outbox) == {"a": ["2"]}


def test_a_recovery_killed_behind_a_dead_letter_blocks_each_row_once(
    make_outbox: Callable[..., Outbox], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("walrelay.table.rows.BATCH_ROWS", 2)
    outbox = make_outbox(route={"topic": "a"}, refusals={"policy": "dead_letter", "block_key": True})
    outbox.write(*range(1, 9))
    outbox.database.execute("UPDATE outbox SET aggregate_id = 'k' WHERE payload::int % 2 = 0")
    letter(outbox, 2, "waiting")
    lose(outbox)
    for offered in (0, 1, 1):
        outbox.broker.break_after(offered, Killed)
        with pytest.raises(Killed):
            outbox.recover()
    outbox.recover()
    assert {*values(outbox)["a"]} == {"1", "3", "5", "7"}
    assert letters_of(outbox) == [("2", "waiting"), ("4", "blocked"), ("6", "blocked"), ("8", "blocked")]


def test_a_backfill_publishes_an_edited_message_as_its_replay_did(make_outbox: Callable[..., Outbox]) -> None:
    outbox = make_outbox(**BOTH)
    outbox.write(1)
    letter(outbox, 1, "replayed")
    ((id_,),) = outbox.database.execute("SELECT id::text FROM outbox")
    edited = OutboxRecord(LSN(16), 0, 0, id_, "order", "1", "placed", b'"edited"', None, None, None, None)
    outbox.database.execute("UPDATE walrelay.dead_letters SET edited_record = %s::json", [record_json(edited)])
    lose(outbox)
    outbox.database.execute("DELETE FROM walrelay.slots")
    assert outbox.backfill()
    assert values(outbox) == {"a": ['"edited"'], "b": ["1"]}
