"""The conformance tests of a sink, for pytest classes to inherit; a case is all that the author of a sink writes.

    class TestMySink(AwayContract, RestartContract, ConnectionContract, RefusalContract, PluginContract):
        @pytest.fixture
        def case(self) -> Iterator[MyCase]: ...

Each class says what its case needs beside what `Case` has. The broker is the real one: a sink is as good as what its
broker does when it is stopped. docs/guides/writing-a-sink.md shows all of it.
"""

from walrelay.testing.case import (
    NASTY_HEADERS,
    Arrived,
    Case,
    answer,
    complains,
    failure,
    held,
    message,
    numbers,
    publish,
    receipts,
    refusal,
    seconds,
    settle,
)
from walrelay.testing.contract import AwayContract, ReceiptContract, SinkContract
from walrelay.testing.failures import (
    ConnectionCase,
    ConnectionContract,
    RefusalCase,
    RefusalContract,
    RestartCase,
    RestartContract,
)
from walrelay.testing.logins import LoginCase, LoginContract
from walrelay.testing.plugin import PluginCase, PluginContract
from walrelay.testing.proxy import Proxy
from walrelay.testing.relaying import Relaying, check_arrived

__all__ = [
    "NASTY_HEADERS",
    "Arrived",
    "AwayContract",
    "Case",
    "ConnectionCase",
    "ConnectionContract",
    "LoginCase",
    "LoginContract",
    "PluginCase",
    "PluginContract",
    "Proxy",
    "ReceiptContract",
    "RefusalCase",
    "RefusalContract",
    "Relaying",
    "RestartCase",
    "RestartContract",
    "SinkContract",
    "answer",
    "check_arrived",
    "complains",
    "failure",
    "held",
    "message",
    "numbers",
    "publish",
    "receipts",
    "refusal",
    "seconds",
    "settle",
]
