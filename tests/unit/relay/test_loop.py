"""One turn of the loop, stage by stage; tests/simulation has what follows from many."""

from collections.abc import Iterable

import pytest

from tests import pgoutput_encoder as server
from walrelay.decode.contract import Columns, OutboxLayout
from walrelay.decode.pgoutput import PgoutputDecoder
from walrelay.errors import ProtocolError, Refused, StartAnew, Unroutable
from walrelay.lsn import LSN, ZERO
from walrelay.model import LatestCommit, Message, Receipt, Refusal
from walrelay.observe import Observers
from walrelay.relay.loop import Relay
from walrelay.route import Router
from walrelay.wire.frames import keepalive, xlogdata
from walrelay.wiring import Limits

ID_AND_PAYLOAD = Columns(**dict.fromkeys(Columns._fields))._replace(id="id", payload="payload", aggregate_type="kind")
RELATION = server.relation(1, "public", "outbox", [("id", 25), ("payload", 25), ("kind", 25)])


def row(event: bytes, kind: bytes | None = b"order") -> bytes:
    return server.insert(1, [event, b"{}", kind])


class Script:
    """A source that has the given frames, one read each, and a sink; notes what is asked of them, in order."""

    start = LSN(100)
    latest: LatestCommit | None = None

    def __init__(self, *bodies: bytes, outcome: Iterable[Receipt | Refusal] = ()) -> None:
        self.frames = [body if body[:1] == b"k" else xlogdata(300, 300, body) for body in bodies]
        self.outcome = list(outcome)
        self.calls: list[tuple[object, ...]] = []
        self.flushed = 0

    def run(self) -> "Script":
        decoder = PgoutputDecoder(OutboxLayout(columns=ID_AND_PAYLOAD))
        relay = Relay(self, decoder, Router("{aggregate_type}"), self, Observers(), Limits(shutdown=0))
        relay.run(lambda: not self.frames)
        return self

    def read(self, timeout: float) -> list[bytes]:
        return [self.frames.pop(0)] if self.frames else []

    def confirm(self, lsn: LSN) -> bool:
        return self._note("confirm", int(lsn))

    def report_waiting(self, since: int | None) -> None:
        pass

    def wake_by(self, descriptor: int | None) -> None:
        pass

    def vouch(self, lsn: LSN) -> LSN:
        self._note("vouch", int(lsn))
        return lsn

    def leave(self, lsn: LSN, *, settled: bool = False) -> None:
        self._note("leave", int(lsn))

    def pause(self, lsn: LSN, stop: object) -> None:
        self._note("pause", int(lsn))

    def publish(self, message: Message, ticket: int) -> bool:
        return self._note("publish", message.topic, ticket)

    def mark(self, end_lsn: LSN, commit_lsn: LSN = ZERO, ordinal: int = 0, *, over: bool = False) -> None:
        self._note("mark", int(end_lsn), ordinal)

    def receipts(self, timeout: float) -> list[Receipt | Refusal]:
        published = any(call[0] == "publish" for call in self.calls)
        outcome, self.outcome = (self.outcome, []) if published else ([], self.outcome)
        return outcome

    def flush(self, timeout: float) -> None:
        self.flushed += 1

    def close(self) -> None:
        pass

    def descriptor(self) -> int | None:
        return None

    def trouble(self) -> str:
        return ""

    def _note(self, *call: object) -> bool:
        if not self.calls or self.calls[-1] != call:
            self.calls.append(call)
        return True


def test_a_record_is_published_before_its_commit_is_read_and_confirmed_after_its_receipt() -> None:
    script = Script(server.begin(200), RELATION, row(b"1"), server.commit(200, 300), outcome=[Receipt(0, 1)]).run()
    assert script.calls == [
        ("confirm", 100),
        ("publish", "order", 0),
        ("mark", 100, 1),
        ("confirm", 100),
        ("mark", 300, 0),
        ("confirm", 300),
        ("leave", 300),
    ]


def test_without_a_receipt_the_start_is_confirmed_again_on_leaving() -> None:
    script = Script(server.begin(200), RELATION, row(b"1"), server.commit(200, 300)).run()
    assert script.calls == [
        ("confirm", 100),
        ("publish", "order", 0),
        ("mark", 100, 1),
        ("confirm", 100),
        ("mark", 300, 0),
        ("confirm", 100),
        ("leave", 100),
    ]


def test_the_keepalives_of_a_busy_database_do_not_keep_a_message_in_its_batch() -> None:
    published = [server.begin(200), RELATION, row(b"1"), server.commit(200, 300)]
    assert Script(*published, keepalive(400), keepalive(500)).run().flushed >= 2


def test_idle_progress_is_vouched_for_before_it_is_confirmed() -> None:
    script = Script(keepalive(250)).run()
    assert script.calls == [("confirm", 100), ("vouch", 250), ("confirm", 250), ("leave", 250)]


def test_a_keepalive_that_says_nothing_new_is_not_vouched_for() -> None:
    script = Script(keepalive(100)).run()
    assert script.calls == [("confirm", 100), ("leave", 100)]


def test_receipts_that_come_with_a_refusal_still_count() -> None:
    message = Message("order", None, b"{}", [("id", b"2"), ("position", b"0/C8:1")], 0)
    script = Script(
        *(server.begin(200), RELATION, row(b"1"), server.commit(200, 300)),
        *(server.begin(300), row(b"2")),
    )
    script.outcome = [Refusal(1, message, "too large", "make it smaller"), Receipt(0, 1)]
    script.receipts = lambda timeout: (  # type: ignore[method-assign]
        script.outcome if ("publish", "order", 1) in script.calls else []
    )
    with pytest.raises(Refused, match=r"record 2 at 0/C8:1 was refused for topic 'order': too large"):
        script.run()
    assert script.calls[-2:] == [("confirm", 300), ("leave", 300)]


def test_a_run_that_ends_by_choice_confirms_what_is_settled() -> None:
    """As one does that set a message aside and needs a new sink: what came before must not come again."""
    script = Script(
        *(server.begin(200), RELATION, row(b"1"), server.commit(200, 300), server.begin(300), row(b"2")),
        outcome=[Receipt(0, 1)],
    )
    told = script.receipts

    def receipts(timeout: float) -> list[Receipt | Refusal]:
        if ("publish", "order", 1) in script.calls:
            raise StartAnew("a message was set aside")
        return told(timeout)

    script.receipts = receipts  # type: ignore[method-assign]
    script.confirm = lambda lsn: False  # type: ignore[method-assign]
    with pytest.raises(StartAnew):
        script.run()
    assert script.calls[-1] == ("leave", 300)


def test_a_record_without_a_route_ends_the_run_and_is_not_confirmed() -> None:
    script = Script(server.begin(200), RELATION, row(b"1", kind=None))
    with pytest.raises(Unroutable, match="has no aggregate_type"):
        script.run()
    assert script.calls == [("confirm", 100), ("leave", 100)]


def test_a_frame_that_cannot_be_decoded_ends_the_run_and_is_not_confirmed() -> None:
    script = Script(server.begin(200), b"?")
    with pytest.raises(ProtocolError):
        script.run()
    assert script.calls == [("confirm", 100), ("leave", 100)]
