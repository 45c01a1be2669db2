"""Captured transactions: both formats yield what pgoutput yields for the very same WAL."""

import pytest

from tests.golden.capture_wal2json import OUTBOXES, SERVERS, read_capture
from walrelay.decode.contract import Decoder, OutboxLayout
from walrelay.decode.pgoutput import PgoutputDecoder
from walrelay.decode.wal2json import Wal2jsonDecoder
from walrelay.lsn import LSN
from walrelay.model import Committed, Event, Idle, OutboxRecord, Skipped
from walrelay.wire.frames import XLOGDATA


def decoder(name: str, outbox: OutboxLayout) -> Decoder:
    return PgoutputDecoder(outbox) if name == "pgoutput" else Wal2jsonDecoder(outbox, int(name[-1]))


def events(server: str, case: str, name: str) -> list[Event]:
    """Only messages are compared: the plugin does not decide when a keepalive comes and how far it is."""
    decode = decoder(name, OUTBOXES[case]).decode
    frames = [frame for frame in read_capture(server, case, name) if frame[0] == XLOGDATA]
    return [event for frame in frames for event in decode(frame)]


def work(found: list[Event]) -> list[Event]:
    """Without the idle positions: since PostgreSQL 15 pgoutput sends nothing for an empty transaction."""
    return [event for event in found if not isinstance(event, Idle)]


def with_last_bytes_for_positions(found: list[Event]) -> list[Event]:
    """What format 1 makes of the same: it does not know where a commit record starts."""
    ends = iter([event.end_lsn for event in found if isinstance(event, Committed)])
    end = next(ends)
    changed: list[Event] = []
    for event in found:
        changed.append(event._replace(commit_lsn=LSN(end - 1)) if isinstance(event, OutboxRecord) else event)
        if isinstance(event, Committed):
            end = next(ends, end)
    return changed


@pytest.mark.parametrize("case", OUTBOXES)
@pytest.mark.parametrize("server", SERVERS)
def test_format_2_yields_the_records_and_positions_of_pgoutput(server: str, case: str) -> None:
    assert work(events(server, case, "format2")) == work(events(server, case, "pgoutput"))


@pytest.mark.parametrize("case", OUTBOXES)
@pytest.mark.parametrize("server", SERVERS)
def test_format_1_yields_the_records_of_pgoutput_under_the_position_of_the_last_byte(server: str, case: str) -> None:
    assert work(events(server, case, "format1")) == with_last_bytes_for_positions(
        work(events(server, case, "pgoutput"))
    )


@pytest.mark.parametrize("case", OUTBOXES)
@pytest.mark.parametrize("server", SERVERS)
def test_both_formats_report_the_same_idle_positions_for_foreign_transactions(server: str, case: str) -> None:
    idle = [
        [event for event in events(server, case, name) if isinstance(event, Idle)] for name in ("format1", "format2")
    ]
    assert idle[0] == idle[1] != []


@pytest.mark.parametrize("name", ["format1", "format2"])
@pytest.mark.parametrize("server", SERVERS)
def test_positions_never_go_back(server: str, name: str) -> None:
    positions = [
        event.end_lsn if isinstance(event, Committed) else event.lsn
        for event in events(server, "plain", name)
        if isinstance(event, Committed | Idle | Skipped)
    ]
    assert positions == sorted(positions)


@pytest.mark.parametrize("name", ["pgoutput", "format1", "format2"])
@pytest.mark.parametrize("server", SERVERS)
def test_values_of_odd_types_are_postgresqls_text(server: str, name: str) -> None:
    records = [event for event in events(server, "odd", name) if isinstance(event, OutboxRecord)]
    assert [record.id for record in records] == ["1.50", "12345678901234567890.000", "0.0"]
    first = records[0]
    assert (first.aggregate_type, first.aggregate_id, first.type) == ('glad "1"', "1e+300", "t")
    assert (first.payload, first.headers) == (b"\x00\xff\\", b'{"a":  1}')
    assert (first.topic, first.tenant_id, first.created_at) == ("ab      ", "NaN", "2026-11-21 09:58:54.5")
