"""A signal becomes one exception, at a moment when it does no harm."""

import signal

import pytest

from walrelay.lab.servers.interruption import Interrupted, Interruption


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143), (signal.SIGHUP, 129)])
def test_a_signal_interrupts_with_the_exit_code_of_a_shell(number: signal.Signals, code: int) -> None:
    with Interruption(), pytest.raises(Interrupted) as interrupted:
        signal.raise_signal(number)
    assert interrupted.value.exit_code == code


def test_a_signal_waits_for_the_end_of_what_must_be_whole() -> None:
    steps = []

    def whole(interruption: Interruption) -> None:
        with interruption.held_off():
            signal.raise_signal(signal.SIGINT)
            steps.append("whole")
        steps.append("after")

    with Interruption() as interruption, pytest.raises(Interrupted):
        whole(interruption)
    assert steps == ["whole"]


def test_an_error_in_what_must_be_whole_is_not_hidden_by_a_signal() -> None:
    def failing(interruption: Interruption) -> None:
        with interruption.held_off():
            signal.raise_signal(signal.SIGINT)
            raise LookupError

    with Interruption() as interruption, pytest.raises(LookupError):
        failing(interruption)


def test_only_the_first_signal_interrupts() -> None:
    with Interruption():
        with pytest.raises(Interrupted):
            signal.raise_signal(signal.SIGINT)
        signal.raise_signal(signal.SIGINT)


def test_no_signal_disturbs_the_tidying_up() -> None:
    with Interruption() as interruption:
        interruption.end()
        signal.raise_signal(signal.SIGTERM)


def test_afterwards_signals_mean_what_they_meant_before() -> None:
    before = signal.getsignal(signal.SIGTERM)
    with Interruption():
        pass
    assert signal.getsignal(signal.SIGTERM) is before
