"""Which slot is read, from where, and what is remembered as confirmed."""

from typing import Any, cast

import pytest

from walrelay.errors import Fatal, Retryable
from walrelay.lsn import LSN
from walrelay.model import RelayPosition, System
from walrelay.postgres.catalog import Catalog, Slot
from walrelay.postgres.publications import PublishedTable
from walrelay.source.slot_source import SlotReading, SlotSource, usable_slot
from walrelay.source.start import OwnPosition
from walrelay.source.stream import Stream

HERE = System("7301", 1)
READING = SlotReading("orders", "outbox", "pgoutput", [("proto_version", "1")], '"public"."outbox"', check_interval=2)
SLOT = Slot("orders", "pgoutput", "db", None, LSN(50), LSN(100), "reserved", None, None, False, False)
PUBLISHED = PublishedTable(exists=True, oid=16400, partitioned=False, covered=True, inserts=True, via_root=False)


def test_a_slot_that_is_there_and_free_is_usable() -> None:
    assert usable_slot(SLOT, "orders", "pgoutput", "db") is SLOT


@pytest.mark.parametrize(
    ("slot", "says"),
    [
        (None, "does not exist"),
        (SLOT._replace(wal_status="lost"), "wal_status is lost"),
        (SLOT._replace(invalidation_reason="idle_timeout"), "idle_timeout"),
        (SLOT._replace(plugin="wal2json"), "was made for wal2json, the settings say pgoutput"),
        (SLOT._replace(plugin=None), "is a physical slot"),
        (SLOT._replace(database="elsewhere"), "belongs to database elsewhere"),
        (SLOT._replace(two_phase=True), "two_phase"),
        (SLOT._replace(wal_status="lost", active_pid=7), "lost"),
    ],
)
def test_a_slot_that_cannot_be_read_is_fatal(slot: Slot | None, says: str) -> None:
    with pytest.raises(Fatal, match=says):
        usable_slot(slot, "orders", "pgoutput", "db")


class FakeCatalog:
    """Answers what the test says."""

    database = "db"

    def __init__(self) -> None:
        self.standing, self.table, self.now = SLOT, PUBLISHED, LSN(1000)
        self.synchronous = False

    def refuse_synchronous(self, walsender_pid: int) -> None:
        if self.synchronous:
            raise Fatal("synchronous")

    def slot(self, name: str) -> Slot:
        return self.standing

    def current_lsn(self) -> LSN:
        return self.now

    def published(self, publication: str, table: str) -> PublishedTable:
        return self.table

    def value(self, query: str, *parameters: object) -> None:
        """There is no table walrelay.slots."""


class FakeStream:
    """Tells the server only when the test says it is due."""

    def __init__(self) -> None:
        self.system, self.pid, self.due = HERE, 1, True
        self.read = lambda timeout: [b""]

    def identify(self) -> System:
        return self.system

    def branches(self, timeline: int) -> dict[int, LSN]:
        return {}

    def start_stream(self, start: LSN, options: object, *, confirmed: LSN | None = None) -> None:
        self.start = start

    def confirm(self, lsn: LSN) -> bool:
        return self.due

    def leave(self, lsn: LSN) -> None:
        pass


class Opened:
    """A SlotSource over the two, and the time it sees."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now = 100.0
        self.catalog, self.stream = FakeCatalog(), FakeStream()
        monkeypatch.setattr("walrelay.source.slot_source.monotonic", lambda: self.now)
        monkeypatch.setattr("walrelay.source.slot_source.sleep", self._wait)

    def source(self, own: OwnPosition | None = None) -> SlotSource:
        source = SlotSource(READING, cast(Stream, self.stream), cast(Catalog, self.catalog), lambda text: None)
        source.start_stream(source.find_start(own).lsn)
        return source

    def _wait(self, seconds: float) -> None:
        self.now += seconds


@pytest.fixture
def opened(monkeypatch: pytest.MonkeyPatch) -> Opened:
    return Opened(monkeypatch)


def test_what_is_remembered_and_held_goes_on_only_where_nothing_happened_to_slot_and_server(opened: Opened) -> None:
    source, confirmed = opened.source(), RelayPosition(HERE, "orders", LSN(100))
    assert source.continues(confirmed, LSN(100))
    assert source.continues(confirmed._replace(lsn=LSN(1000)), LSN(100)), "a crash may set the slot back"
    assert not source.continues(confirmed._replace(lsn=LSN(99)), LSN(100)), "another reader got further"
    assert not source.continues(confirmed._replace(lsn=LSN(1001)), LSN(100)), "the server lost WAL"
    assert not source.continues(confirmed._replace(system=System("7301", 2)), LSN(100))
    assert not source.continues(confirmed, LSN(1001)), "the server lost WAL that was read and not confirmed"


def test_a_slot_that_another_process_reads_is_waited_for(opened: Opened) -> None:
    """The leader before lets the slot go a moment after the lead, so it is looked at more than once."""
    opened.catalog.standing = SLOT._replace(active_pid=4711)
    begun = opened.now
    with pytest.raises(Retryable, match="in use by PID 4711") as caught:
        opened.source()
    assert caught.value.retry_within == 1.0
    assert opened.now >= begun + 1


def test_the_bookmark_is_what_was_told_and_nothing_newer(opened: Opened) -> None:
    """Section D: D12, a newer position came between keeping one and confirming it."""
    source = opened.source()
    assert source.bookmark == RelayPosition(HERE, "orders", LSN(100))
    opened.stream.due = False
    assert not source.confirm(LSN(300))
    assert source.bookmark.lsn == 100
    opened.stream.due = True
    assert source.confirm(LSN(300))
    assert source.bookmark.lsn == 300
    source.leave(LSN(400))
    assert source.bookmark.lsn == 400


def test_a_new_connection_starts_from_the_bookmark(opened: Opened) -> None:
    assert (
        opened.source(OwnPosition("memory", RelayPosition(HERE, "orders", LSN(250)))).start
        == opened.stream.start
        == 250
    )


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


def test_an_outbox_whose_events_are_confirmed_is_not_looked_at_for_the_sake_of_other_tables(opened: Opened) -> None:
    """A look keeps events waiting, and what they confirm moves the slot."""
    source = opened.source()
    opened.catalog.now = LSN(5000)
    opened.now += READING.check_interval
    assert source.confirm(LSN(1500))
    assert source.vouch(LSN(3000)) == 1000
    opened.now += READING.check_interval
    assert source.vouch(LSN(3000)) == 3000
    opened.now += READING.check_interval
    assert source.confirm(LSN(3000))  # for an idle position is not for an event
    assert source.vouch(LSN(6000)) == 5000


def test_a_busy_outbox_is_looked_at_now_and_then(opened: Opened) -> None:
    """Commits to the table confirm the slot, and say nothing about a row filter or commits that wait for the relay."""
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
        ({"oid": 16999}, "was dropped and created again"),
        ({"entry": 16888}, "left publication 'outbox' and came back"),
    ],
)
def test_an_outbox_that_is_not_published_any_more_ends_the_run(
    opened: Opened, change: dict[str, Any], says: str
) -> None:
    """Silence would look like an outbox without events, and keepalives would confirm past them (guarantees A19)."""
    source = opened.source()
    opened.catalog.table = PUBLISHED._replace(**change)
    opened.now += READING.check_interval
    with pytest.raises(Fatal, match=says):
        source.vouch(LSN(3000))


def test_an_outbox_that_is_not_published_begins_no_stream(opened: Opened) -> None:
    opened.catalog.table = PUBLISHED._replace(covered=False)
    with pytest.raises(Fatal, match="the outbox is not published"):
        opened.source()


def test_a_stream_that_commits_would_wait_for_does_not_go_on(opened: Opened) -> None:
    opened.catalog.synchronous = True
    with pytest.raises(Fatal, match="synchronous"):
        opened.source()
