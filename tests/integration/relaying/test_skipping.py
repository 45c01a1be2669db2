"""`walrelay skip` in each way of reading: one named row is skipped, if it cannot be read, and nothing else."""

from pathlib import Path

import pytest
import yaml
from click.testing import CliRunner, Result

from tests.integration.relaying.conftest import OutboxMaker
from tests.integration.relaying.harness import Outbox
from walrelay.cli import main
from walrelay.errors import Undecodable


@pytest.fixture
def outbox(make_outbox: OutboxMaker) -> Outbox:
    """A table whose id may be NULL, with three rows in one transaction; the middle one has none."""
    made = make_outbox()
    made.database.execute("ALTER TABLE outbox DROP CONSTRAINT outbox_pkey, ALTER id DROP NOT NULL")
    with made.database.connect(autocommit=False) as connection:
        made.write(1, connection=connection)
        connection.execute(
            "INSERT INTO outbox (id, aggregate_type, aggregate_id, type, payload)"
            " VALUES (NULL, 'order', 'lost', 'placed', '\"lost\"')"
        )
        made.write(3, connection=connection)
    return made


def skip(outbox: Outbox, directory: Path, *arguments: str, answer: str = "y\n") -> Result:
    source = outbox.settings.source.model_dump(exclude={"dsn"}) | {"dsn": outbox.database.dsn}
    settings = directory / "walrelay.yaml"
    settings.write_text(yaml.safe_dump({"source": source, "sink": {"kind": "memory"}}))
    return CliRunner().invoke(main, ["skip", "--config", str(settings), *arguments], input=answer)


def stopped_at(outbox: Outbox) -> str:
    """The position that the relay names as unreadable."""
    failure = outbox.failure()
    assert isinstance(failure, Undecodable)
    return str(failure).split(" at ")[1].split()[0]


@pytest.mark.parametrize("whole", [False, True])
def test_a_row_that_was_named_is_passed_over_and_the_others_arrive(outbox: Outbox, tmp_path: Path, whole: bool) -> None:
    position = stopped_at(outbox)
    assert position.endswith(":1")
    done = skip(outbox, tmp_path, "--position", position.partition(":")[0] if whole else position)
    assert (done.exit_code, "lost" in done.stdout) == (0, True), done.output
    with outbox.relay() as relay:
        assert list(dict.fromkeys(outbox.values(relay))) == [b"1", b"3"]
    kept = outbox.database.execute(
        "SELECT commit_lsn::text || ':' || ordinal, status, error, raw IS NOT NULL FROM walrelay.dead_letters"
    )
    assert kept == [(position, "skipped", "undecodable", True)]


def test_of_two_rows_in_one_transaction_the_relay_names_one_after_the_other_and_each_can_be_skipped(
    outbox: Outbox, tmp_path: Path
) -> None:
    null_id = "INSERT INTO outbox (id, aggregate_type, aggregate_id, type) VALUES (NULL, 'order', 'lost', 'placed')"
    with outbox.database.connect(autocommit=False) as connection:
        for number in (4, 5):
            connection.execute(null_id)
            outbox.write(number, connection=connection)
    positions = []
    for _ in range(3):
        positions.append(stopped_at(outbox))
        done = skip(outbox, tmp_path, "--position", positions[-1])
        assert done.exit_code == 0, (positions, done.output)
    assert [int(position.partition(":")[2]) for position in positions] == [1, 0, 2]
    with outbox.relay() as relay:
        assert list(dict.fromkeys(outbox.values(relay))) == [b"1", b"3", b"4", b"5"]


def test_nothing_is_skipped_that_can_be_read_or_that_the_operator_does_not_agree_to(
    outbox: Outbox, tmp_path: Path
) -> None:
    position = stopped_at(outbox)
    readable = skip(outbox, tmp_path, "--position", position.replace(":1", ":0"))
    assert readable.exit_code == 1
    assert "the relay stops at a different row" in readable.stderr
    assert position in readable.stderr
    assert skip(outbox, tmp_path, "--position", "0/1:0").exit_code == 1
    assert skip(outbox, tmp_path, "--position", position, answer="n\n").exit_code == 1
    assert skip(outbox, tmp_path, "--position", "nonsense").exit_code == 2
    assert stopped_at(outbox) == position
    assert outbox.database.execute("SELECT count(*) FROM walrelay.dead_letters") == [(0,)]
