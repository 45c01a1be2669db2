"""Which slot is read, from where, and what is remembered as confirmed."""

from typing import Any, cast

import pytest

from walrelay.errors import Fatal, Retryable
from walrelay.lsn import LSN
from walrelay.model import System
from walrelay.source.catalog import Catalog, PublishedTable, Slot
from walrelay.source.slot_source import Bookmark, Reading, SlotSource, _start, usable

HERE, ELSEWHERE = System("7301", 1), System("7301", 2)
READING = Reading(
    "dsn", "orders", "outbox", "pgoutput", [("proto_version", "1")], '"public"."outbox"', check_interval=2
)
SLOT = Slot("orders", "pgoutput", "db", None, LSN(50), LSN(100), "reserved", None, None, False, False)
PUBLISHED = PublishedTable(exists=True, oid=16400, partitioned=False, covered=True, inserts=True, via_root=False)


def test_without_a_position_of_its_own_a_relay_starts_where_the_slot_stands() -> None:
    """Section D: D10, others started at the server's current position."""
    assert _start(SLOT, None, HERE) == 100


def test_its_own_position_is_better_than_the_slots_which_a_crash_sets_back() -> None:
    assert _start(SLOT, Bookmark(HERE, LSN(200)), HERE) == 200
    assert _start(SLOT, Bookmark(HERE, LSN(100)), HERE) == 100


def test_a_position_in_another_history_says_nothing() -> None:
    assert _start(SLOT, Bookmark(ELSEWHERE, LSN(200)), HERE) == 100
    assert _start(SLOT, Bookmark(System("9", 1), LSN(1)), HERE) == 100


def test_a_slot_that_went_on_without_us_is_refused() -> None:
    """Section D: D9 and pitfall A11: somebody consumed it, or it was made anew, and events are missing."""
    with pytest.raises(Fatal, match="stands at 0/64, but walrelay confirmed only 0/63"):
        _start(SLOT, Bookmark(HERE, LSN(99)), HERE)


def test_a_slot_without_a_position_starts_at_zero_which_is_the_slots_own() -> None:
    assert _start(SLOT._replace(confirmed_flush_lsn=None), None, HERE) == 0


def test_a_slot_that_is_there_and_free_is_usable() -> None:
    assert usable(SLOT, "orders", "pgoutput") is SLOT


@pytest.mark.parametrize(
    ("slot", "says"),
    [
        (None, "does not exist"),
        (SLOT._replace(wal_status="lost"), "wal_status is lost"),
        (SLOT._replace(invalidation_reason="idle_timeout"), "idle_timeout"),
        (SLOT._replace(plugin="wal2json"), "was made for wal2json, the settings say pgoutput"),
        (SLOT._replace(plugin=None), "was made for physical replication"),
        (SLOT._replace(wal_status="lost", active_pid=7), "lost"),
    ],
)
def test_a_slot_that_cannot_be_read_is_fatal(slot: Slot | None, says: str) -> None:
    with pytest.raises(Fatal, match=says):
        usable(slot, "orders", "pgoutput")


class FakeCatalog:
    """Answers what the test says."""

    database = "db"

    def __init__(self) -> None:
        self.standing, self.table, self.now = SLOT, PUBLISHED, LSN(1000)
        self.synchronous = self.closed = False

    def refuse_standby(self) -> None:
        pass

    def refuse_synchronous(self, walsender_pid: int) -> None:
        if self.synchronous:
            raise Fatal("synchronous")

    def slot(self, name: str) -> Slot:
        return self.standing

    def current_lsn(self) -> LSN:
        return self.now

    def published(self, publication: str, table: str) -> PublishedTable:
        return self.table

    def noted(self, slot: str) -> None:
        return None

    def close(self) -> None:
        self.closed = True


class FakeStream:
    """Tells the server only when the test says it is due."""

    made: "FakeStream"

    def __init__(self, *arguments: Any) -> None:
        FakeStream.made = self
        self.system, self.pid, self.due, self.closed = HERE, 1, True, False
        self.read = lambda timeout: [b""]

    def begin(self, start: LSN, options: object) -> None:
        self.start = start

    def confirm(self, lsn: LSN) -> bool:
        return self.due

    def leave(self, lsn: LSN) -> None:
        pass

    def close(self) -> None:
        self.closed = True


class Opened:
    """A SlotSource over the two, and the time it sees."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now = 100.0
        self.catalog = FakeCatalog()
        monkeypatch.setattr("walrelay.source.slot_source.Stream", FakeStream)
        monkeypatch.setattr("walrelay.source.slot_source.monotonic", lambda: self.now)

    def source(self, bookmark: Bookmark | None = None) -> SlotSource:
        return SlotSource(READING, cast(Catalog, self.catalog), bookmark, lambda text: None)


@pytest.fixture
def opened(monkeypatch: pytest.MonkeyPatch) -> Opened:
    return Opened(monkeypatch)


def test_a_slot_that_another_process_reads_is_waited_for(opened: Opened) -> None:
    opened.catalog.standing = SLOT._replace(active_pid=4711)
    with pytest.raises(Retryable, match="in use by PID 4711") as caught:
        opened.source()
    assert caught.value.retry_within == 1.0


def test_the_bookmark_is_what_was_told_and_nothing_newer(opened: Opened) -> None:
    """Section D: D12, a newer position came between keeping one and confirming it."""
    source = opened.source()
    assert source.bookmark == Bookmark(HERE, LSN(100))
    FakeStream.made.due = False
    assert not source.confirm(LSN(300))
    assert source.bookmark.confirmed == 100
    FakeStream.made.due = True
    assert source.confirm(LSN(300))
    assert source.bookmark.confirmed == 300
    source.leave(LSN(400))
    assert source.bookmark.confirmed == 400


def test_a_new_connection_starts_from_the_bookmark(opened: Opened) -> None:
    assert opened.source(Bookmark(HERE, LSN(250))).start == FakeStream.made.start == 250


def test_the_outbox_is_vouched_for_up_to_the_last_look_and_looks_have_an_interval(opened: Opened) -> None:
    source = opened.source()
    opened.catalog.now = LSN(5000)
    assert source.vouch(LSN(700)) == 700
    assert source.vouch(LSN(3000)) == 1000
    opened.now += READING.check_interval
    assert source.vouch(LSN(3000)) == 3000
    assert source.vouch(LSN(6000)) == 5000


def test_a_look_is_taken_only_when_something_is_to_be_vouched_for(opened: Opened) -> None:
    source = opened.source()
    opened.catalog.table = PUBLISHED._replace(covered=False)
    opened.now += 1000
    assert source.vouch(LSN(1000)) == 1000


def test_a_busy_outbox_is_looked_at_now_and_then(opened: Opened) -> None:
    """Its own commits confirm it, and tell neither of a row filter nor of commits that wait for the relay."""
    source = opened.source()
    opened.catalog.synchronous = True
    opened.now += 9
    assert source.confirm(LSN(300))
    opened.now += 2
    with pytest.raises(Fatal, match="synchronous"):
        source.confirm(LSN(400))


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"exists": False}, "publication 'outbox' does not exist"),
        ({"oid": None}, "does not exist"),
        ({"covered": False}, "is not in publication"),
        ({"inserts": False}, "does not publish inserts"),
        ({"partitioned": True}, "partitions"),
        ({"oid": 16999}, "was dropped and made anew"),
        ({"entry": 16888}, "left publication 'outbox' and came back"),
    ],
)
def test_an_outbox_that_is_not_published_any_more_ends_the_run(
    opened: Opened, change: dict[str, Any], says: str
) -> None:
    """Silence would look like an outbox without events, and keepalives would confirm past them (PITFALLS A19)."""
    source = opened.source()
    opened.catalog.table = PUBLISHED._replace(**change)
    opened.now += READING.check_interval
    with pytest.raises(Fatal, match=says):
        source.vouch(LSN(3000))


def test_an_outbox_that_is_not_published_begins_no_stream(opened: Opened) -> None:
    opened.catalog.table = PUBLISHED._replace(covered=False)
    with pytest.raises(Fatal, match="the outbox is not published"):
        opened.source()


def test_a_stream_that_may_not_go_on_is_closed(opened: Opened) -> None:
    opened.catalog.synchronous = True
    with pytest.raises(Fatal, match="synchronous"):
        opened.source()
    assert FakeStream.made.closed


def test_closing_closes_both_connections(opened: Opened) -> None:
    source = opened.source()
    source.close()
    assert FakeStream.made.closed
    assert opened.catalog.closed
