"""What holds when something breaks: the broker dies, connections are cut or lead nowhere, a message is refused."""

from contextlib import closing
from typing import Protocol

from walrelay.model import Message
from walrelay.publish import Sink
from walrelay.testing.case import Case, held, message, numbers
from walrelay.testing.relaying import Relaying, check_arrived

_COUNT = 2000
_SOON = 100  # messages that are durable when something breaks


class RestartCase(Case, Protocol):
    """A broker that can be killed. What it has acknowledged is there again when it has started."""

    def kill(self) -> None:
        """As SIGKILL does."""
        ...

    def start(self) -> None:
        """Returns when it answers again; nothing happens if it runs."""
        ...


class ConnectionCase(Case, Protocol):
    """Connections that can be broken; best through a proxy between sink and broker."""

    def open(self, *, room: int = 10_000, seconds: float = 30) -> Sink:
        """As that of `Case`; an answer may take so many seconds."""
        ...

    def cut(self) -> None:
        """Resets every connection; new ones work."""
        ...

    def half_open(self) -> None:
        """From now on nothing gets through on any connection, and nobody closes one."""
        ...

    def resume(self) -> None:
        """New connections work again; the old ones stay as they are."""
        ...


class RefusalCase(Case, Protocol):
    """A broker, or a sink, that refuses a single message."""

    def refused(self, message: Message) -> Message:
        """The message, changed so that it will be refused; its topic and key stay as they are."""
        ...


class RestartContract:
    """For a sink whose broker has a process that can be killed."""

    def test_a_broker_that_is_killed_in_mid_window_loses_and_reorders_nothing(self, case: RestartCase) -> None:
        messages = some(case)
        with closing(Relaying(lambda: case.open(room=500), messages)) as relaying:
            relaying.go_on(lambda: len(relaying.durable) >= _SOON, "the first receipts")
            case.kill()
            try:
                relaying.go_on(lambda: relaying.failures or relaying.full, "the sink to notice")
            finally:
                case.start()
            relaying.go_on(lambda: relaying.complete, "all receipts", 120)
        assert not relaying.refused, "a broker that is away is no refusal"
        check_arrived(relaying, case.arrived(), messages)


class ConnectionContract:
    """For a sink whose connections can be broken."""

    def test_connections_that_are_cut_in_mid_window_lose_and_reorder_nothing(self, case: ConnectionCase) -> None:
        messages = some(case)
        with closing(Relaying(lambda: case.open(room=500), messages)) as relaying:
            for durable in (_SOON, 2 * _SOON, 3 * _SOON):
                relaying.go_on(lambda wanted=durable: len(relaying.durable) >= wanted, "receipts")  # type: ignore[misc]
                case.cut()
            relaying.go_on(lambda: relaying.complete, "all receipts", 120)
        assert not relaying.refused, "a connection that was cut is no refusal"
        check_arrived(relaying, case.arrived(), messages)

    def test_a_connection_without_its_other_end_is_given_up(self, case: ConnectionCase) -> None:
        messages = some(case)
        with closing(Relaying(lambda: case.open(room=500, seconds=1), messages)) as relaying:
            relaying.go_on(lambda: len(relaying.durable) >= _SOON, "the first receipts")
            case.half_open()
            try:
                relaying.go_on(lambda: relaying.failures or relaying.trouble, "the sink to notice", 20)
            finally:
                case.resume()
            relaying.go_on(lambda: relaying.complete, "all receipts", 120)
        assert not relaying.refused, "silence is no refusal"
        check_arrived(relaying, case.arrived(), messages)

    def test_a_message_that_never_gets_an_answer_is_told_of_and_sent_again(self, case: ConnectionCase) -> None:
        messages = some(case, 20)
        with closing(Relaying(lambda: case.open(seconds=1), messages)) as relaying:
            with held(case):
                relaying.go_on(lambda: relaying.failures or relaying.trouble, "the sink to notice", 20)
                assert not relaying.complete
            relaying.go_on(lambda: relaying.complete, "all receipts")
        assert not relaying.refused, "silence is no refusal"
        check_arrived(relaying, case.arrived(), messages)


class RefusalContract:
    """For a sink that can refuse a single message."""

    def test_nothing_of_its_key_overtakes_a_refused_message(self, case: RefusalCase) -> None:
        messages, bad = some(case, 40), 12
        messages[bad] = case.refused(messages[bad])
        assert messages[bad][:2] == (case.topic, messages[0].key), "another topic or key has an order of its own"
        key = (messages[bad].key or b"").decode()
        with closing(Relaying(case.open, messages)) as relaying:
            relaying.go_on(lambda: relaying.refused, "the refusal")
            relaying.close()
            seen = case.arrived()
            assert all(number < bad for number in numbers(seen, key)), "it was overtaken"
            relaying.go_on(lambda: relaying.complete, "all others to arrive")
        assert {*relaying.refused} == {bad}
        arrived = case.arrived()
        check_arrived(relaying, arrived if arrived[: len(seen)] == seen else [*seen, *arrived], messages)


def some(case: Case, count: int = _COUNT) -> list[Message]:
    """Messages of four keys in turn, in this order."""
    return [message(case, number, key="abcd"[number % 4]) for number in range(count)]
