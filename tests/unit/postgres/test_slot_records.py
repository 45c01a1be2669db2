"""The table walrelay.slots has one owner."""

import re
from pathlib import Path

import walrelay

_SQL = re.compile(r"(?:FROM|INTO|UPDATE|JOIN|to_regclass\(')\s*walrelay\.slots\b")


def test_all_sql_on_the_records_of_slots_is_in_one_module() -> None:
    package = Path(walrelay.__file__).parent
    found = {path.relative_to(package).as_posix() for path in package.rglob("*.py") if _SQL.search(path.read_text())}
    assert found == {"postgres/slot_records.py"}
