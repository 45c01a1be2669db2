"""How long ago something was, by the server's clock, which may have been set back since."""

import re
from pathlib import Path

import walrelay

PACKAGE = Path(walrelay.__file__).parent


def test_every_age_that_is_shown_is_one_that_cannot_be_negative() -> None:
    """Each is made by `walrelay.postgres.catalog.age`, which ends at 0."""
    by_hand = re.compile(r"extract\(epoch FROM (now|clock_timestamp)\(\) -", re.IGNORECASE)
    sources = [path for path in PACKAGE.rglob("*.py") if "bench" not in path.relative_to(PACKAGE).parts]
    found = {path.relative_to(PACKAGE).as_posix(): by_hand.findall(path.read_text()) for path in sources}
    assert {name: matches for name, matches in found.items() if matches} == {"postgres/catalog.py": ["clock_timestamp"]}
