"""Which message a closed channel is blamed on."""

import pytest
from pika.exceptions import ChannelClosedByBroker, IncompatibleProtocolError, StreamLostError

from walrelay.errors import WalrelayError
from walrelay.model import Message
from walrelay.sinks.hosting import InDoubt, PumpedLoop, Sending, Taken
from walrelay.sinks.rabbitmq.connection import RabbitmqConnection, said
from walrelay.sinks.rabbitmq.settings import RabbitmqSettings


class Owner:
    """Of some sendings: implements `SendingOwner`."""

    def __init__(self) -> None:
        self.refused: list[int] = []
        self.failures: list[WalrelayError] = []

    def settle(self, sending: Sending) -> None:
        raise AssertionError

    def refuse(self, sending: Sending, reason: str, hint: str, error: str, scope: str, *, ends: bool) -> None:
        self.refused += [taken.ticket for taken in sending.taken]

    def put_off(self, sending: Sending, why: str) -> None:
        raise AssertionError

    def fail(self, why: WalrelayError) -> None:
        self.failures.append(why)


class Channel:
    """Takes everything."""

    def basic_publish(self, *arguments: object, **options: object) -> None:
        pass


@pytest.mark.parametrize(
    ("code", "text", "messages", "refused", "doubtful"),
    [
        (406, "PRECONDITION_FAILED - message size 9 is larger than configured max size 8", 2, [], True),
        (406, "PRECONDITION_FAILED - message size 9 is larger than configured max size 8", 1, [0], False),
        (403, "ACCESS_REFUSED - user is blocked", 2, [], True),
        (403, "ACCESS_REFUSED - access to exchange 'b' in vhost '/' refused for user 'a'", 2, [1], False),
        (403, "ACCESS - to topic 'y' in exchange 'a' in vhost '/' refused for user 'a'", 2, [], True),
        (403, "ACCESS - to topic 'x' in exchange 'a' in vhost '/' refused for user 'a'", 2, [0], False),
        (404, "NOT_FOUND - no exchange 'a' in vhost '/'", 2, [0], False),
        (404, "NOT_FOUND - no exchange 'an-exchange-whose-name-is-cut...", 2, [], True),
        (540, "NOT_IMPLEMENTED - immediate=true", 1, [], False),
        (541, "INTERNAL_ERROR", 2, [], False),
    ],
)  # fmt: skip
def test_a_closed_channel_is_blamed_on_no_message_that_is_not_certain(
    code: int, text: str, messages: int, refused: list[int], doubtful: bool
) -> None:
    owner, loop = Owner(), PumpedLoop()
    settings = RabbitmqSettings.model_validate({"url": "amqp://nowhere", "exchange": "{topic}", "routing_key": "x"})
    connection = RabbitmqConnection(settings, loop, owner.fail)
    connection._channel = Channel()
    for number in range(messages):
        message = Message("ab"[number], None, b"x" * (9 - number), [], 0)
        connection.send(Sending(owner, None, (Taken(message, number),)))
    connection._on_channel_closed(None, ChannelClosedByBroker(code, text))
    loop.let_go()
    assert owner.refused == refused
    assert [isinstance(each, InDoubt) for each in owner.failures] == [doubtful]


def test_a_lost_connection_is_called_that() -> None:
    reset = "Stream connection lost: ConnectionResetError(104, 'Connection reset by peer')"
    assert said(StreamLostError(reset)) == "the connection was lost: Connection reset by peer"
    guessed = IncompatibleProtocolError(f'StreamLostError: ("{reset}",)')
    assert said(guessed).startswith("the connection was lost in the handshake")
