"""An LSN survives its text."""

from hypothesis import given
from hypothesis import strategies as st

from walrelay.lsn import LSN

lsns = st.integers(0, 2**64 - 1).map(LSN)


@given(lsns)
def test_text_and_back_is_the_same_position(lsn: LSN) -> None:
    assert LSN.parse(str(lsn)) == lsn
    assert LSN.parse(str(lsn).lower()) == lsn


@given(lsns, lsns)
def test_positions_that_differ_have_texts_that_differ(one: LSN, other: LSN) -> None:
    assert (one == other) == (str(one) == str(other))


@given(st.text(st.sampled_from("0123456789abcdefABCDEF/ -+x"), max_size=20))
def test_any_text_is_a_position_that_prints_alike_or_a_value_error(text: str) -> None:
    try:
        lsn = LSN.parse(text)
    except ValueError:
        return
    high, low = text.split("/")
    assert str(lsn) == f"{int(high, 16):X}/{int(low, 16):X}"
