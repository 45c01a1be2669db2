"""Records of dead letters corrected before they are replayed: what is stored, published, refused, in which order."""

import json
import threading
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from tests.integration.dead_letters.test_dead_letters import Broker, letter
from tests.servers.database import Database
from tests.servers.waiting import wait_until
from walrelay import compose
from walrelay.cli import main
from walrelay.config import load
from walrelay.dead_letter import UNDECODABLE
from walrelay.dead_letters import DeadLetterFilter, DeadLetterTable, DeadLetterTableWriter, StoredDeadLetter
from walrelay.dead_letters.editing import DeadLetterEditing, dead_letter_to_edit
from walrelay.dead_letters.replay import DeadLetterReplay, ReplayOutcome
from walrelay.dead_letters.republishing import Republishing
from walrelay.errors import Fatal, Retryable
from walrelay.postgres.catalog import Catalog
from walrelay.wiring import Wiring

OPEN = ("waiting", "blocked")


@pytest.fixture
def published(tmp_path: Path) -> Path:
    return tmp_path / "published"


@pytest.fixture
def settings(database: Database, tmp_path: Path, published: Path) -> Path:
    path = tmp_path / "walrelay.json"
    path.write_text(json.dumps({"source": {"dsn": database.dsn}, "sink": {"kind": "file", "path": str(published)}}))
    return path


@pytest.fixture
def wiring(settings: Path) -> Wiring:
    return compose.wiring(load(settings))


@pytest.fixture
def editing(wiring: Wiring, table: DeadLetterTable) -> DeadLetterEditing:
    return DeadLetterEditing(wiring, table)


def found(table: DeadLetterTable, id_: str) -> StoredDeadLetter:
    stored = dead_letter_to_edit(table, id_)
    assert stored is not None
    return stored


def edit(editing: DeadLetterEditing, table: DeadLetterTable, id_: str, **changes: Any) -> None:
    stored = found(table, id_)
    editing.store(stored, editing.tried(stored, changes).record, "anna", "typo")


def replay(wiring: Wiring, table: DeadLetterTable, broker: Broker, *, block_key: bool = False) -> list[ReplayOutcome]:
    republishing = Republishing(wiring.router(table.catalog).route)
    replaying = DeadLetterReplay(table, republishing, lambda: broker, "somebody", block_key=block_key)
    return [*replaying.replay(table.find(DeadLetterFilter(OPEN)), OPEN)]


def run(settings: Path, *arguments: str, answer: str = "") -> Result:
    return CliRunner().invoke(main, [*arguments, "--config", str(settings)], input=answer)


def lines(published: Path) -> list[dict[str, Any]]:
    files = sorted(published.parent.glob("published*"))
    return [json.loads(line) for file in files for line in file.read_text().splitlines()]


def test_the_command_shows_the_difference_asks_and_stores_who_when_and_why(
    settings: Path, database: Database, letters: DeadLetterTableWriter, tmp_path: Path, published: Path
) -> None:
    letters.write(letter(1))
    given = tmp_path / "edited.json"
    given.write_text('{"payload": {"n": 2}}')
    command = ("dlq", "edit", "e1", "--file", str(given), "--reason", "too large")
    declined = run(settings, *command, answer="n\n")
    assert declined.exit_code == 1
    assert '+  "payload": {' in declined.stdout
    assert "it becomes 8 bytes for topic t, key k" in declined.stderr
    assert run(settings, *command[:-2], "--dry-run").exit_code == 0
    assert database.execute("SELECT edited_record, edited_by FROM walrelay.dead_letters") == [(None, None)]
    assert run(settings, *command[:-2]).exit_code == 2, "an edit without a reason"
    stored = run(settings, *command, answer="y\n")
    assert (stored.exit_code, "dead letter 1 is edited" in stored.stdout) == (0, True)
    shown = run(settings, "dlq", "show", "1")
    told = json.loads(shown.stdout)
    assert told["record"]["payload"] == "1", "the original stays"
    assert told["edited_record"]["payload"] == '{"n": 2}'
    assert (told["edited"], told["edit_reason"], bool(told["edited_by"])) == (True, "too large", True)
    assert told["edited_at"] > told["first_at"]
    assert '+  "payload": {' in shown.stderr
    (exported,) = map(json.loads, run(settings, "dlq", "export").stdout.splitlines())
    assert exported == told
    assert "1 time, edited" in run(settings, "dlq", "list").stdout
    assert "e1  (edited)" in run(settings, "dlq", "replay", "--dry-run").stdout
    assert "1 replayed" in run(settings, "dlq", "replay").stdout
    (message,) = lines(published)
    assert message["value"] == '{"n": 2}'
    assert dict(message["headers"]) | {"id": "e1", "position": "0/64:1", "replayed": "true"} == dict(message["headers"])
    closed = json.loads(run(settings, "dlq", "show", "1").stdout)
    assert (closed["status"], closed["edited"], closed["record"]["payload"]) == ("replayed", True, "1")


def test_the_editor_gets_the_record_and_is_opened_again_for_what_is_none(
    settings: Path, letters: DeadLetterTableWriter, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    letters.write(letter(1))
    editor = tmp_path / "editor"
    seen = tmp_path / "seen"
    script = (
        "#!/bin/sh",
        f'cat "$1" >> {seen}',
        """if grep -q wrong "$1"; then echo '{"payload": "7"}' > "$1"; else echo wrong > "$1"; fi""",
        'touch -d "+5 seconds" "$1"',  # a second is too short for two times of a file
    )
    editor.write_text("\n".join(script))
    editor.chmod(0o755)
    monkeypatch.setenv("VISUAL", str(editor))
    edited = run(settings, "dlq", "edit", "1", "--reason", "x", answer="y\ny\n")
    assert edited.exit_code == 0, edited.stderr
    assert "this is not JSON" in edited.stderr
    assert seen.read_text().startswith('{\n  "commit_lsn": "0/64",')
    assert json.loads(run(settings, "dlq", "show", "1").stdout)["edited_record"]["payload"] == "7"


def test_another_edit_takes_the_place_of_the_first_and_taking_it_back_restores(
    settings: Path, editing: DeadLetterEditing, letters: DeadLetterTableWriter, table: DeadLetterTable, published: Path
) -> None:
    letters.write(letter(1))
    edit(editing, table, "e1", payload="2", topic="u")
    edit(editing, table, "e1", payload="3")
    stored = found(table, "e1")
    assert stored.edit is not None
    assert (stored.edit.record.payload, stored.edit.record.topic) == (b"3", "t"), "each edit is of the original"
    back = run(settings, "dlq", "edit", "1", "--take-back", answer="y\n")
    assert (back.exit_code, "--- edited" in back.stdout) == (0, True)
    again = run(settings, "dlq", "edit", "1", "--take-back", "--yes")
    assert (again.exit_code, "is not edited" in again.stderr) == (1, True)
    assert found(table, "e1").edit is None
    assert "1 replayed" in run(settings, "dlq", "replay").stdout
    assert [each["value"] for each in lines(published)] == ["1"]


def test_what_cannot_be_edited_says_why_and_what_can_be_done(
    settings: Path, letters: DeadLetterTableWriter, table: DeadLetterTable
) -> None:
    letters.write(letter(1)._replace(record=None))
    letters.write(letter(2)._replace(record=None, message=None, error=UNDECODABLE, raw=b"?"))
    letters.write(letter(3))
    letters.write(letter(4, status="skipped"))
    table.discard(table.find(DeadLetterFilter(id="e3")), "somebody", "a test")
    for id_, said, hint in (
        ("e1", "an earlier version stored its message alone", "replayed as that message"),
        ("e2", "could not be read", "emit the event again"),
        ("e3", "is discarded", "dlq list"),
        ("e4", "is skipped", "dlq list"),
        ("e5", "there is no dead letter 'e5'", "dlq list"),
    ):
        result = run(settings, "dlq", "edit", id_, "--reason", "x")
        assert result.exit_code == 1
        assert said in result.stderr
        assert hint in result.stderr


def test_what_today_s_rules_would_make_of_it_is_told_before_it_is_stored(
    database: Database, tmp_path: Path, letters: DeadLetterTableWriter
) -> None:
    letters.write(letter(1))
    settings = tmp_path / "rules.json"
    rules = [{"name": "noise", "when": {"type": "Noise"}, "drop": True}, {"name": "rest", "topic": "{topic}"}]
    sections = {"source": {"dsn": database.dsn}, "sink": {"kind": "memory"}, "routes": rules}
    settings.write_text(json.dumps(sections))
    given = tmp_path / "edited.json"
    for record, said in (
        ({"type": "Noise"}, "today's rules give no message for it"),
        ({"topic": None}, "a replay would refuse it as edited"),
        ({"headers": [1]}, "a replay would refuse it as edited"),
        ({"topic": "u"}, "it is published late for topic u, key k"),
    ):
        given.write_text(json.dumps(record))
        tried = run(settings, "dlq", "edit", "1", "--file", str(given), "--dry-run")
        assert (tried.exit_code, said in tried.stderr) == (0, True), tried.stderr
    for text, said in (("{", "not JSON"), ('{"x": 1}', "not a field"), ('{"payload": "1"}', "nothing is edited")):
        given.write_text(text)
        refused = run(settings, "dlq", "edit", "1", "--file", str(given), "--reason", "x", "--yes")
        assert (refused.exit_code, said in refused.stderr) == (1, True), refused.stderr
    assert database.execute("SELECT count(*) FROM walrelay.dead_letters WHERE edited_at IS NOT NULL") == [(0,)]


def test_an_edit_waits_for_a_replay_and_is_refused_if_that_closes_it(
    database: Database, wiring: Wiring, letters: DeadLetterTableWriter, table: DeadLetterTable
) -> None:
    letters.write(letter(1))
    outcomes: list[object] = []

    def store() -> None:
        with Catalog(database.dsn) as catalog:
            other = DeadLetterTable(catalog, "walrelay")
            editing = DeadLetterEditing(wiring, other)
            stored = found(other, "e1")
            ready.set()
            locked.wait(60)
            try:
                editing.store(stored, editing.tried(stored, {"payload": "2"}).record, "anna", "typo")
            except Fatal as error:
                outcomes.append(str(error))

    ready, locked = threading.Event(), threading.Event()
    thread = threading.Thread(target=store)
    thread.start()
    assert ready.wait(60)
    with table.locked(table.keys([1]), OPEN) as taken:
        locked.set()
        waits = "SELECT 1 FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND datname = current_database()"
        wait_until(lambda: database.execute(waits), 60, "the edit to wait")
        table.replayed([each.id for each in taken], "somebody")
    thread.join(60)
    assert outcomes == ["dead letter 1 is replayed: only what is waiting or blocked can be edited"]
    assert database.execute("SELECT edited_at FROM walrelay.dead_letters") == [(None,)]


def test_an_edit_gives_up_where_a_replay_takes_too_long(
    database: Database, wiring: Wiring, letters: DeadLetterTableWriter, table: DeadLetterTable
) -> None:
    letters.write(letter(1))
    with Catalog(database.dsn) as catalog, table.locked(table.keys([1]), OPEN):
        hasty = DeadLetterTable(catalog, "walrelay", patience=0.2)
        editing = DeadLetterEditing(wiring, hasty)
        stored = found(hasty, "e1")
        with pytest.raises(Retryable, match="another process holds the dead letters"):
            editing.store(stored, editing.tried(stored, {"payload": "2"}).record, "anna", "typo")


def test_an_edit_of_what_somebody_else_edited_meanwhile_is_refused(
    editing: DeadLetterEditing, letters: DeadLetterTableWriter, table: DeadLetterTable
) -> None:
    letters.write(letter(1))
    stored = found(table, "e1")
    trial = editing.tried(stored, {"payload": "2"})
    edit(editing, table, "e1", payload="3")
    with pytest.raises(Fatal, match="was edited meanwhile, by anna: typo"):
        editing.store(stored, trial.record, "bert", "too")
    edited = found(table, "e1")
    editing.take_back(edited)
    with pytest.raises(Fatal, match="back to the original"):
        editing.take_back(edited)


def test_an_edited_record_is_refused_again_as_any_other_and_stays_edited(
    wiring: Wiring, editing: DeadLetterEditing, letters: DeadLetterTableWriter, table: DeadLetterTable
) -> None:
    letters.write(letter(1))
    edit(editing, table, "e1", payload="still too large")
    (outcome,) = replay(wiring, table, Broker(b"still too large"))
    assert outcome.outcome == "refused"
    stored = found(table, "e1")
    assert stored.edit is not None
    assert (stored.letter.status, stored.letter.attempts) == ("waiting", 2)
    letters.write(letter(1))  # read again after a crash
    assert found(table, "e1").edit == stored.edit


def test_what_is_blocked_behind_one_whose_key_is_edited_waits_until_that_is_published(
    wiring: Wiring, editing: DeadLetterEditing, letters: DeadLetterTableWriter, table: DeadLetterTable
) -> None:
    letters.write(letter(1))
    assert letters.write_blocked(letter(2, status="blocked"))
    stored = found(table, "e1")
    trial = editing.tried(stored, {"aggregate_id": "x"})
    assert "1 dead letter waits behind it for topic t, key k, until it is replayed or discarded" in trial.notices
    editing.store(stored, trial.record, "anna", "wrong order")
    assert letters.write_blocked(letter(3, status="blocked")), (
        "the relay keeps later ones behind the key that was refused"
    )
    assert not letters.write_blocked(letter(4, status="blocked", key=b"x")), "and holds up nobody else"
    broker = Broker()
    assert {each.outcome for each in replay(wiring, table, broker, block_key=True)} == {"replayed"}
    assert [(message.key, message.value) for message in broker.taken] == [(b"x", b"1"), (b"k", b"2"), (b"k", b"3")]


@pytest.mark.parametrize("refused", [False, True])
def test_one_whose_key_is_edited_does_not_overtake_open_ones_of_its_new_key(
    wiring: Wiring, editing: DeadLetterEditing, letters: DeadLetterTableWriter, table: DeadLetterTable, refused: bool
) -> None:
    """In one replay it comes after them; alone, or where they are refused again, it is left."""
    record = letter(1).record
    assert record is not None
    letters.write(letter(1, key=b"x")._replace(record=record._replace(aggregate_id="x", topic="t")))
    letters.write(letter(2))
    edit(editing, table, "e2", aggregate_id="x")
    assert "it is not published before dead letter 1 of that key is closed" in notices(wiring, table)
    republishing = Republishing(wiring.router(table.catalog).route)
    broker = Broker(*([b"1"] if refused else []))
    replaying = DeadLetterReplay(table, republishing, lambda: broker, "somebody", block_key=True)
    (alone,) = replaying.replay([2], OPEN)
    assert (alone.outcome, "waits behind dead letter 1" in alone.why) == ("left", True)
    outcomes = {each.id: each.outcome for each in replaying.replay([1, 2], OPEN)}
    assert outcomes == ({1: "refused", 2: "left"} if refused else {1: "replayed", 2: "replayed"})
    assert [message.value for message in broker.taken] == ([] if refused else [b"1", b"2"])


def notices(wiring: Wiring, table: DeadLetterTable) -> tuple[str, ...]:
    """The policy is not to block in these settings: as if it were."""
    blocking = wiring._replace(policy=wiring.policy._replace(default="dead_letter", block_key=True))
    return DeadLetterEditing(blocking, table).tried(found(table, "e2"), {"aggregate_id": "x"}).notices


def test_without_block_key_nothing_is_held_up_by_an_edit(
    wiring: Wiring, editing: DeadLetterEditing, letters: DeadLetterTableWriter, table: DeadLetterTable
) -> None:
    letters.write(letter(1, key=b"x"))
    letters.write(letter(2))
    edit(editing, table, "e2", aggregate_id="x")
    broker = Broker()
    republishing = Republishing(wiring.router(table.catalog).route)
    (alone,) = DeadLetterReplay(table, republishing, lambda: broker, "somebody").replay([2], OPEN)
    assert alone.outcome == "replayed"


def test_a_table_of_an_earlier_version_is_listed_and_replayed_and_only_editing_asks_for_init(
    settings: Path, database: Database, letters: DeadLetterTableWriter, published: Path
) -> None:
    columns = ("edited_record", "edited_at", "edited_by", "edit_reason")
    database.execute("ALTER TABLE walrelay.dead_letters " + ", ".join(f"DROP COLUMN {name}" for name in columns))
    letters.write(letter(1))
    assert "e1" in run(settings, "dlq", "list").stdout
    refused = run(settings, "dlq", "edit", "1", "--reason", "x")
    assert (refused.exit_code, "walrelay init" in refused.stderr) == (1, True)
    assert json.loads(run(settings, "dlq", "show", "1").stdout)["edited"] is False
    assert "1 replayed" in run(settings, "dlq", "replay").stdout
    assert len(lines(published)) == 1
    made = run(settings, "init")
    assert "updated   table walrelay.dead_letters" in made.stdout
    assert "created   index walrelay.dead_letters_order" in made.stdout
    letters.write(letter(2))
    edited = settings.with_name("edited.json")
    edited.write_text('{"payload": "5"}')
    assert run(settings, "dlq", "edit", "e2", "--file", str(edited), "--reason", "x", "--yes").exit_code == 0
    assert "present   index walrelay.dead_letters_order" in run(settings, "init").stdout


def test_init_does_not_wait_behind_a_replay_and_mends_an_index_that_was_given_up(
    settings: Path, database: Database, letters: DeadLetterTableWriter
) -> None:
    letters.write(letter(1))
    run(settings, "init")
    database.execute("ALTER TABLE walrelay.dead_letters DROP COLUMN edited_record")
    with database.connect(autocommit=False) as replaying:
        replaying.execute("SELECT FROM walrelay.dead_letters FOR UPDATE")
        tried = run(settings, "init")
        assert tried.exit_code == 0
        assert "table walrelay.dead_letters left out: " in tried.stdout
    order = "'walrelay.dead_letters_order'::regclass"
    database.execute(f"UPDATE pg_index SET indisvalid = false WHERE indexrelid = {order}")
    assert "created   index walrelay.dead_letters_order" in run(settings, "init").stdout
    assert database.execute(f"SELECT indisvalid FROM pg_index WHERE indexrelid = {order}") == [(True,)]
