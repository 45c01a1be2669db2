"""What PostgreSQL 15, 16 and 18 sent for the scripts in pgoutput/, and the records that it has to become."""

import pytest

from tests.golden.capture_pgoutput import CAPTURES, MODES, OUTBOXES, VERSIONS, decoder_for, read_capture
from walrelay.lsn import LSN
from walrelay.model import Committed, Event, Idle, OutboxRecord, Skipped
from walrelay.wire.frames import XLOGDATA

ZEROS = "00000000-0000-0000-0000-0000000000"

NOTHING = OutboxRecord(LSN(0), 0, 0, "", None, None, None, None, None, None, None, None)


def events(name: str) -> list[Event]:
    """Of the messages alone: when a keepalive comes is not the plugin's to say."""
    decode = decoder_for(name).decode
    return [event for frame in read_capture(name) if frame[0] == XLOGDATA for event in decode(frame)]


def transactions(name: str) -> list[list[OutboxRecord]]:
    """The records between one Committed and the next, without place and time, which differ from run to run."""
    found: list[list[OutboxRecord]] = [[]]
    for event in events(name):
        if isinstance(event, OutboxRecord):
            assert event.ordinal == len(found[-1])
            found[-1].append(event._replace(commit_lsn=LSN(0), ordinal=0, committed_at=0))
        elif isinstance(event, Committed):
            found.append([])
    return found[:-1]


def captures(case: str) -> list[str]:
    return [f"{version}/{case}.{mode}" for version in VERSIONS for mode in MODES]


@pytest.mark.parametrize("name", captures("everyday"))
def test_everyday_transactions_become_their_records(name: str) -> None:
    """Rolled-back rows are absent, deleted ones are not, and a column found again by its name is the same column."""
    assert transactions(name) == [
        [
            OutboxRecord(
                *NOTHING[:3],
                id=f"{ZEROS}01",
                aggregate_type="order",
                aggregate_id="9223372036854775807",
                type="placed",
                payload=rb'{"note": "quote \" backslash \\ tab \t", "total": 99.50}',
                headers=b'{"trace":  "a1"}',
                topic="orders",
                tenant_id="-7",
                created_at="2026-11-21 09:58:54.95604+00",
            )
        ],
        [
            NOTHING._replace(id=f"{ZEROS}02", aggregate_type="", payload=b"null"),
            NOTHING._replace(id=f"{ZEROS}03", type="ßе€𝄞", payload='"é"'.encode()),
            NOTHING._replace(id=f"{ZEROS}04"),
        ],
        [
            NOTHING._replace(id="m1", aggregate_id="42", type="é", payload=b'{"n":  1.50}'),
            NOTHING._replace(id=f"{ZEROS}05", payload=b"{}"),
            NOTHING._replace(id="m2", payload=b"[1, 2 ,3]"),
        ],
        [
            NOTHING._replace(id=f"00000000-0000-0000-0001-00000000000{number}", payload=b"%d" % number)
            for number in range(1, 10)
        ],
        [
            NOTHING._replace(id=f"{ZEROS}06", topic="moved"),
            NOTHING._replace(id=f"{ZEROS}07", topic="moved", payload=b'"' + b"x" * 9000 + b'"'),
        ],
    ]


@pytest.mark.parametrize("name", captures("everyday"))
def test_transactions_of_other_tables_are_idle_progress_and_a_loose_message_is_skipped(name: str) -> None:
    kinds = [type(event) for event in events(name) if not isinstance(event, OutboxRecord)]
    assert kinds == [Committed, Idle, Committed, Committed, Skipped, Idle, Committed, Committed]


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("case", OUTBOXES)
def test_binary_and_text_mean_the_same(version: int, case: str) -> None:
    """PostgreSQL's own text is what the printers of binary values are measured by."""
    text, binary = (events(f"{version}/{case}.{mode}") for mode in MODES)
    assert text == binary != []


@pytest.mark.parametrize("name", captures("types"))
def test_values_of_all_types_are_postgresqls_text(name: str) -> None:
    (rows,) = transactions(name)
    first, second, *rest = rows
    assert first[3:-1] == (
        "-9223372036854775808",
        "-32768",
        "00112233-4455-6677-8899-aabbccddeeff",
        "t",
        b"\x00\xff\\",
        b'{"a": 1.50}',
        "ab      ",
        "Größe",
        "2026-11-21 09:58:54.95604+00",
    )
    assert (second.type, second.payload, second.headers, second.tenant_id) == ("f", b"", b"[]", "")
    assert [second.created_at, *(row.created_at for row in rest)] == [
        "infinity",
        "-infinity",
        "1999-12-31 23:59:59.000001+00",
        "2000-01-01 00:00:00+00",
        "0044-03-15 12:00:00.5+00",
        "9999-12-31 23:59:59.999999+00",
        "2026-07-01 07:00:00+00",
    ]


@pytest.mark.parametrize("name", captures("partitions"))
def test_rows_of_partitions_come_under_the_roots_name_and_layout(name: str) -> None:
    """Attached, made and dropped under way; a detached partition and another schema's table are not the outbox."""
    found = [[(record.id, record.payload) for record in records] for records in transactions(name)]
    assert found == [
        [("1", b'{"a":  1}'), ("2", b'{"b":  2}'), ("3", None)],
        [("4", b"[]")],
        [("5", b"5")],
        [("6", None)],
    ]


@pytest.mark.parametrize("name", CAPTURES)
def test_positions_only_grow_and_a_record_lies_before_the_end_of_its_transaction(name: str) -> None:
    latest, commit_lsn = LSN(0), LSN(0)
    for event in events(name):
        match event:
            case OutboxRecord():
                commit_lsn = event.commit_lsn
                assert commit_lsn >= latest
            case Committed(end_lsn):
                assert end_lsn > commit_lsn
                latest = end_lsn
            case Idle(lsn):
                assert lsn >= latest
                latest = lsn
