"""LSNs as PostgreSQL prints them."""

import pytest

from walrelay.lsn import LSN, ZERO


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("0/0", 0),
        ("16/B374D848", 0x16_B374_D848),
        ("0/ff", 255),
        ("FFFFFFFF/FFFFFFFF", 2**64 - 1),
        ("00000001/0", 2**32),
    ],
)
def test_text_is_two_hexadecimal_halves(text: str, number: int) -> None:
    assert LSN.parse(text) == number


@pytest.mark.parametrize(
    "text", ["", "16", "16/", "/16", "16/B374D8480", "0x16/0", "16/ 0", "-1/0", "16/G", "1/2/3", "1/2\n"]
)
def test_anything_else_is_a_value_error_that_quotes_it(text: str) -> None:
    with pytest.raises(ValueError, match="not an LSN: ") as caught:
        LSN.parse(text)
    assert repr(text) in str(caught.value)


def test_an_lsn_prints_as_postgresql_prints_it() -> None:
    assert str(LSN(0x16_B374_D848)) == f"{LSN(0x16_B374_D848)}" == "16/B374D848"
    assert str(LSN(0x16_0000_00FF)) == "16/FF"
    assert str(ZERO) == "0/0"
    assert repr(LSN(255)) == "LSN('0/FF')"


def test_an_lsn_is_a_number() -> None:
    assert LSN.parse("0/FF") < LSN.parse("1/0")
    assert LSN.parse("1/0") - LSN.parse("0/FFFFFFFF") == 1
