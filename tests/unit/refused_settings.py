"""What an error says of a settings file."""

from collections.abc import Callable

import pytest

from walrelay.errors import SettingsError


def problems_of(read: Callable[[], object]) -> list[str]:
    """The lines of its message, without the name of the file: each begins with the number of the line."""
    with pytest.raises(SettingsError) as caught:
        read()
    return [line.removeprefix("walrelay.yaml:") for line in str(caught.value).splitlines()]
