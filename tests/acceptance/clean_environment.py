"""An environment as users have it: the wheel, and no packages but those that it and some of its extras ask for.

The packages are linked from an environment that has all of them, file by file; so a second one takes a second, and no
network. The wheel is installed by pip.
"""

import json
import subprocess
import sys
from collections.abc import Collection, Iterator
from importlib.metadata import Distribution, distributions
from pathlib import Path
from shutil import copy2
from typing import Any

from packaging.requirements import Requirement
from packaging.utils import NormalizedName, canonicalize_name

ROOT = Path(__file__).parents[2]

_ABOUT = """
import json, platform, sys, sysconfig
print(json.dumps([sysconfig.get_path("purelib"), {
    "python_version": "%d.%d" % sys.version_info[:2], "python_full_version": platform.python_version(),
    "sys_platform": sys.platform, "platform_system": platform.system(), "os_name": "posix",
    "platform_machine": platform.machine(), "platform_python_implementation": platform.python_implementation(),
    "implementation_name": sys.implementation.name,
}]))
"""

_HELP = """
import json, sys
import click
from click.testing import CliRunner
from walrelay.cli import main

def commands(group, words):
    with click.Context(group) as context:
        for name in group.list_commands(context):
            yield [*words, name]
            found = group.get_command(context, name)
            if isinstance(found, click.Group):
                yield from commands(found, [*words, name])

for words in [[], *commands(main, [])]:
    done = CliRunner().invoke(main, [*words, "--help"])
    whole = done.exit_code == 0 and done.output.startswith("Usage: ")
    print(json.dumps([" ".join(words), "" if whole else f"{done.output} {done.exception!r}"]))
"""


def build_wheel(directory: Path) -> Path:
    command = [sys.executable, "-m", "hatchling", "build", "--target", "wheel", "--directory", str(directory)]
    subprocess.run(command, cwd=ROOT, check=True, capture_output=True)
    (wheel,) = directory.glob("*.whl")
    return wheel


class CleanEnvironment:
    """`full`: a Python whose environment has all packages."""

    def __init__(self, directory: Path, full: Path, wheel: Path, extras: Collection[str] = ()) -> None:
        self.bin = directory / "bin"
        subprocess.run([full, "-m", "venv", "--without-pip", directory], check=True, capture_output=True)
        (source, about), (target, _) = _about(full), _about(self.bin / "python")
        pip = [sys.executable, "-m", "pip", "--python", str(self.bin / "python"), "install", "--quiet"]
        subprocess.run([*pip, "--no-deps", "--no-index", str(wheel)], check=True, capture_output=True)
        (own,) = distributions(name="walrelay", path=[str(target)])
        for each in _closure(own, extras, source, about):
            _link(each, source, target)

    def ran(self, *words: str, **env: str) -> "subprocess.CompletedProcess[str]":
        """`walrelay` with those words, from a directory without its source; no output may be that of a crash."""
        done = subprocess.run(
            [self.bin / "walrelay", *words],
            capture_output=True,
            text=True,
            cwd=self.bin,
            timeout=120,
            env={"PATH": "/usr/bin:/bin", "HOME": str(self.bin.parent), **env},
        )
        assert "Traceback" not in done.stderr
        assert "this is a bug in walrelay" not in done.stderr
        return done

    def helps(self) -> dict[str, str]:
        """What is wrong with the help of each command."""
        done = subprocess.run([self.bin / "python", "-I", "-c", _HELP], capture_output=True, text=True, cwd=self.bin)
        assert done.returncode == 0, done.stderr
        return dict(map(json.loads, done.stdout.splitlines()))

    def sinks(self) -> dict[str, str]:
        """What keeps each sink from being used."""
        return {each["kind"]: each["trouble"] for each in json.loads(self.ran("sinks", "--json").stdout)}


def _about(python: Path) -> tuple[Path, dict[str, str]]:
    packages, about = json.loads(subprocess.run([python, "-c", _ABOUT], check=True, capture_output=True).stdout)
    return Path(packages), about


def _closure(own: Distribution, extras: Collection[str], source: Path, about: dict[str, str]) -> Iterator[Distribution]:
    """What pip would install beside `own`."""
    there = {canonicalize_name(each.metadata["Name"]): each for each in distributions(path=[str(source)])}
    root = canonicalize_name("walrelay")
    there[root] = own
    left, done = [(root, extra) for extra in ("", *extras)], set[tuple[NormalizedName, str]]()
    while left:
        name, extra = each = left.pop()
        if each in done:
            continue
        done.add(each)
        for text in there[name].requires or ():
            wanted = Requirement(text)
            environment: Any = {**about, "extra": extra}
            if wanted.marker is None or wanted.marker.evaluate(environment):
                left += [(canonicalize_name(wanted.name), more) for more in ("", *wanted.extras)]
    yield from (there[name] for name in {name for name, _ in done} - {root})


def _link(distribution: Distribution, source: Path, target: Path) -> None:
    for file in distribution.files or ():
        if file.parts[0] != ".." and "__pycache__" not in file.parts:
            (target / file).parent.mkdir(parents=True, exist_ok=True)
            try:
                (target / file).hardlink_to(source / file)
            except OSError:  # of another file system
                copy2(source / file, target / file)
