"""Rights are said once: what is deployed and shown is made of the list that the relay is examined by."""

import re
from pathlib import Path

from walrelay.postgres import rights

ROOT = Path(__file__).parents[3]
REGENERATE = """python -c "from walrelay.postgres import rights; print(rights.script(), end='')" > deploy/grants.sql"""


def test_the_grants_that_are_deployed_are_those_of_the_list() -> None:
    assert (ROOT / "deploy" / "grants.sql").read_text() == rights.grants_script(), f"run: {REGENERATE}"
    assert rights.grants_script() in (ROOT / "docs" / "security.md").read_text(), "copy deploy/grants.sql to the page"


def test_each_role_of_the_list_is_made_by_the_sql_for_roles() -> None:
    made = re.findall(r"CREATE ROLE (\w+)", (ROOT / "deploy" / "roles.sql").read_text())
    assert {each.role for each in rights.NEEDS} < set(made)


# Their roles and their outbox are their own.
OTHERS = {"bench", "demo"}


def test_no_text_besides_the_list_grants_a_right_to_a_table_of_walrelay() -> None:
    named = re.compile(r"GRANT [A-Z, ]+(?:\([a-z_]+\) )?ON (?:SCHEMA )?(?:walrelay|public\.outbox)\b")
    ours = [*(ROOT / "walrelay").rglob("*.py"), *(ROOT / "docs").rglob("*.md"), ROOT / "README.md"]
    texts = {
        file: file.read_text().replace(rights.grants_script(), "") for file in ours if OTHERS.isdisjoint(file.parts)
    }
    assert [file.name for file, text in texts.items() if named.search(text)] == []


def test_the_relay_needs_more_only_where_the_settings_ask_for_it() -> None:
    outbox = ("app", "events")
    everything = {rights.REFUSALS, rights.POSITION, rights.RETENTION}
    least = rights.role_rights("relay", outbox, (), vital=True)
    most = [right for vital in (True, False) for right in rights.role_rights("relay", outbox, everything, vital=vital)]
    assert {(right.privilege, right.table) for right in least if right.table} == {("SELECT", "slots")}
    assert rights.Right("DELETE", "app", "events") in most
    assert rights.Right("INSERT", "walrelay", "positions") in most
    assert not [right for right in most if right.column], (
        "what is to be revoked again is asked for by the command that needs it"
    )
