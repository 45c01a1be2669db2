"""Who the broker lets in, with real users and real certificates, and what is said of those whom it does not."""

from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from time import monotonic
from typing import Protocol

from walrelay.errors import WalrelayError
from walrelay.publish import Sink
from walrelay.testing.case import Case, message, numbers, settle


class LoginCase(Case, Protocol):
    """A broker that asks who is there."""

    secrets: Sequence[str]
    """Passwords and tokens, right and wrong ones, that no message may show."""

    def logins(self) -> Mapping[str, Callable[[], Sink]]:
        """By name each way in: a password, a token, TLS with and without a certificate of the relay's own."""
        ...

    def strangers(self) -> Mapping[str, Callable[[], Sink]]:
        """By name what has to fail: a wrong password, no certificate, a server whose certificate nobody vouches for."""
        ...


class LoginContract:
    """For a sink whose broker asks who is there."""

    def test_each_way_to_log_in_leads_in(self, case: LoginCase) -> None:
        logins = case.logins()
        for number, (name, open_sink) in enumerate(logins.items()):
            with closing(open_sink()) as sink:
                assert sink.publish(message(case, number), 0), name
                settle(sink, 1)
        assert numbers(case.arrived()) == [*range(len(logins))]

    def test_a_stranger_is_told_why_and_no_secret_is_shown(self, case: LoginCase) -> None:
        for name, open_sink in case.strangers().items():
            told, deadline = "", monotonic() + 30
            try:
                with closing(open_sink()) as sink:
                    sink.publish(message(case, 0), 0)
                    while not told:
                        assert monotonic() < deadline, f"{name}: nobody is told"
                        heard = [*sink.receipts(0.05)]
                        assert not heard, f"{name}: {heard}"
                        told = _last_words(sink)
            except WalrelayError as why:
                told = f"{why} {why.hint}"
            assert told.strip(), f"{name}: an error without a text"
            assert not [secret for secret in case.secrets if secret in told], f"{name}: {told}"
        assert case.arrived() == []


def _last_words(sink: Sink) -> str:
    """What it complains of, but for that it is not connected yet."""
    told = sink.trouble()
    return "" if told.endswith("yet") else told
