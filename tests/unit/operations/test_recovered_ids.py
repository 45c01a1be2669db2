"""Which of the ids in the topics count as published: a promoted standby may give a number out once more."""

from walrelay.lsn import LSN
from walrelay.model import System
from walrelay.operations.recovery.topics import counting_positions, is_text
from walrelay.postgres.history import History
from walrelay.table.selection import TableDescription

INT8, UUID = 20, 2950
READ = [("1", "0/1000:0"), ("2", "0/3000:1"), ("3", "nonsense"), ("4\udcff", "0/1000:1")]
PROMOTED = History(System("7", 2), LSN.parse("0/9000"), {1: LSN.parse("0/2000")})
NEVER_A_STANDBY = History(System("7", 1), LSN.parse("0/9000"), {})


def counted(id_type: int, server: History, made_at: str) -> list[str]:
    table = TableDescription("t", {"id": id_type}, False, "id", (), "", "", False)
    counts = counting_positions(table, server, LSN.parse(made_at))
    return [id_ for id_, position in READ if is_text(id_) and counts(position)]


def test_a_number_that_the_standby_had_not_heard_of_does_not_count() -> None:
    assert counted(INT8, PROMOTED, "0/500") == ["1"]


def test_a_uuid_counts_wherever_it_was_published() -> None:
    assert counted(UUID, PROMOTED, "0/500") == ["1", "2", "3"]


def test_a_number_counts_where_the_slot_was_made_after_the_promotion_or_there_was_none() -> None:
    assert counted(INT8, PROMOTED, "0/2500") == ["1", "2", "3"]
    assert counted(INT8, NEVER_A_STANDBY, "0/500") == ["1", "2", "3"]


def test_a_number_that_was_replayed_does_not_count_by_that_its_position_says_nothing() -> None:
    table = TableDescription("t", {"id": INT8}, False, "id", (), "", "", False)
    assert not counting_positions(table, PROMOTED, LSN.parse("0/500"))("0/0:3")


def test_no_number_counts_where_the_server_does_not_know_when_it_was_promoted() -> None:
    forgotten = History(System("7", 2), LSN.parse("0/9000"), {})
    assert counted(INT8, forgotten, "0/2500") == []
    assert counted(UUID, forgotten, "0/2500") == ["1", "2", "3"]
