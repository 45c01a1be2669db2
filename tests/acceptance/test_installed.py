"""The wheel in an environment without anything else: alone, and with each of its extras."""

import fcntl
import hashlib
import json
import os
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from tests.acceptance.clean_environment import ROOT, CleanEnvironment, build_wheel
from tests.servers.pythons import python
from walrelay.publish.kinds import kinds

EXTRAS = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
USERS = sorted(EXTRAS.keys() - {"dev", "bench"})  # the latter two are of who works on walrelay
CLIENTS = {each.kind: each.traits.extra for each in kinds() if each.traits and each.traits.client}
ENVIRONMENT = {"DATABASE_URL": "postgresql://127.0.0.1:1/shop", "KAFKA_BOOTSTRAP_SERVERS": "127.0.0.1:1"}


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build_wheel(tmp_path_factory.mktemp("wheel"))


def full(version: str, wheel: Path) -> Path:
    """A Python of that version with all packages that users may install; made once for these requirements, by whichever
    worker is the first.
    """
    if version == "here":
        return Path(sys.executable)
    found = python(version)
    asked = json.dumps([EXTRAS, str(found)]).encode()
    place = Path.home() / ".cache" / "walrelay" / f"python-{version}-{hashlib.sha256(asked).hexdigest()[:12]}"
    place.mkdir(parents=True, exist_ok=True)
    with (place / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (place / "whole").exists():
            subprocess.run([found, "-m", "venv", "--clear", place / "venv"], check=True, capture_output=True)
            pip = [str(place / "venv/bin/python"), "-m", "pip", "install", "--quiet"]
            subprocess.run([*pip, f"{wheel}[{','.join(USERS)}]"], check=True, capture_output=True)
            (place / "whole").touch()
    return place / "venv/bin/python"


def examine(installed: CleanEnvironment, *extras: str) -> None:
    """What a newcomer does first."""
    assert {name: wrong for name, wrong in installed.helps().items() if wrong} == {}
    troubles = installed.sinks()
    usable = {kind for kind, trouble in troubles.items() if not trouble}
    assert {kind for kind, extra in CLIENTS.items() if extra in extras} | (troubles.keys() - CLIENTS.keys()) <= usable
    if not extras:
        assert usable == troubles.keys() - CLIENTS.keys()
    listed = installed.ran("sinks").stdout
    assert all(f"\n{kind}\n" in f"\n{listed}" for kind in troubles)
    example = installed.ran("config", "example")
    assert example.returncode == 0
    settings = installed.bin / "walrelay.yaml"
    settings.write_text(example.stdout)
    checked = installed.ran("config", "check", **ENVIRONMENT)
    assert (checked.returncode, checked.stdout) == (0, f"{settings.name}: no problems\n")
    for kind in [kind for kind, extra in CLIENTS.items() if extra in extras] if extras else ("kafka", "pubsub", "file"):
        settings.write_text(f"source: {{dsn: '{ENVIRONMENT['DATABASE_URL']}'}}\nsink: {{kind: {kind}}}\n")
        assert installed.ran("config", "check").returncode in (0, 2)


def test_the_wheel_alone_shows_help_sinks_and_an_example(wheel: Path, tmp_path: Path) -> None:
    installed = CleanEnvironment(tmp_path / "venv", Path(sys.executable), wheel)
    examine(installed)
    assert "pip install 'walrelay[pubsub]'" in installed.ran("sinks").stdout
    demo = installed.ran("demo")
    assert (demo.returncode, "hint: pip install 'walrelay[demo]'" in demo.stderr) == (1, True)


@pytest.mark.slow
@pytest.mark.timeout(1200)  # the first one of a version installs everything
@pytest.mark.parametrize(
    ("extra", "version"),
    [
        *((extra, "here") for extra in USERS),
        *((extra, "3.12") for extra in sorted({"", "demo", *USERS[::2]})),
        *((extra, "3.13") for extra in sorted({"", "demo", *USERS[1::2]})),
    ],
)
def test_each_extra_is_enough_for_what_it_names(extra: str, version: str, wheel: Path, tmp_path: Path) -> None:
    extras = [extra] if extra else []
    installed = CleanEnvironment(tmp_path / "venv", full(version, wheel), wheel, extras)
    examine(installed, *extras)
    if extra == "demo":
        done = installed.ran("demo", "--events", "50", "--json", LANG=os.environ.get("LANG", "C.UTF-8"))
        assert done.returncode == 0, done.stderr
        assert json.loads(done.stdout)["lost"] == 0
