"""What applications import comes up where nothing is installed, and brings in nothing of the relay."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

import walrelay

_LOOK = """
import importlib, json, sys
sys.path.insert(0, {root!r})
importlib.import_module({module!r})
print(json.dumps(sorted(sys.modules)))
"""

ROOT = Path(walrelay.__file__).parent.parent


@pytest.mark.parametrize("module", ["walrelay.connections", "walrelay.outbox", "walrelay.inbox", "walrelay.inbox.asgi"])
def test_it_is_imported_without_any_other_package_and_without_the_relay(module: str) -> None:
    code = _LOOK.format(root=str(ROOT), module=module)
    # -S: no site-packages, so a package of others would be an ImportError.
    ended = subprocess.run([sys.executable, "-I", "-S", "-c", code], capture_output=True, text=True, timeout=60)
    assert ended.returncode == 0, ended.stderr

    loaded = [name for name in json.loads(ended.stdout) if not name.startswith("_")]
    own = {name.split(".")[1] for name in loaded if name.startswith("walrelay.")}
    others = {name.partition(".")[0] for name in loaded} - set(sys.stdlib_module_names) - {"walrelay"}
    assert own <= {"connections", "ddl", "identifiers", module.split(".")[1]}
    assert not others


def test_the_sql_for_migrations_is_printed_where_nothing_is_installed() -> None:
    code = f"import runpy, sys; sys.path.insert(0, {str(ROOT)!r}); sys.argv = ['x', '--inbox', 'app.inbox']; "
    code += "runpy.run_module('walrelay.inbox', run_name='__main__')"
    ended = subprocess.run([sys.executable, "-I", "-S", "-c", code], capture_output=True, text=True, timeout=60)
    assert ended.returncode == 0, ended.stderr
    assert 'CREATE TABLE IF NOT EXISTS "app"."inbox" (' in ended.stdout
    assert 'CREATE TABLE IF NOT EXISTS "public"."idempotency_keys" (' in ended.stdout
