"""Errors by consequence."""

import pytest

from walrelay.errors import (
    Fatal,
    LedgerError,
    ProtocolError,
    Refused,
    Retryable,
    SettingsError,
    Undecodable,
    Unroutable,
)
from walrelay.lsn import LSN, ZERO


@pytest.mark.parametrize("kind", [ProtocolError, Refused, SettingsError, Undecodable, Unroutable])
def test_what_no_retry_cures_is_fatal(kind: type[Fatal]) -> None:
    assert issubclass(kind, Fatal)
    assert not issubclass(kind, Retryable)


def test_a_broken_promise_between_the_stages_is_never_retried_and_called_a_bug() -> None:
    assert not issubclass(LedgerError, Retryable)
    assert isinstance(LedgerError("a receipt too many"), Fatal)
    assert "bug" in LedgerError("a receipt too many").hint


def test_a_fatal_error_carries_what_to_do() -> None:
    assert Fatal("it broke", hint="mend it").hint == "mend it"
    assert Fatal("it broke").hint == ""


def test_a_protocol_error_says_where_if_it_knows_and_always_what_to_do() -> None:
    error = ProtocolError("odd", lsn=LSN(255))
    assert str(error) == "odd (at 0/FF)"
    assert error.lsn == 255
    assert "Nothing was confirmed past this point" in error.hint
    assert str(ProtocolError("odd")) == str(ProtocolError("odd", lsn=ZERO)) == "odd"
    assert ProtocolError("odd", hint="mend it").hint == "mend it"


def test_a_retry_may_have_a_longest_pause() -> None:
    assert Retryable("busy").retry_within is None
    assert Retryable("busy", retry_within=1.0).retry_within == 1.0
