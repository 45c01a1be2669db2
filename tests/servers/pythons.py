"""Other Pythons of this machine: on PATH, or made by pyenv."""

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path
from shutil import which

import pytest


def python(version: str) -> Path:
    """One of that version, such as 3.13, that runs and can make environments; the test is skipped where there is none,
    and fails in CI.
    """
    for each in _candidates(version):
        check = f"import sys, venv, ensurepip; sys.exit(sys.version_info[:2] != ({version.replace('.', ', ')}))"
        if subprocess.run([each, "-c", check], capture_output=True).returncode == 0:
            return each
    text = f"there is no Python {version}: neither on PATH nor made by pyenv (`pyenv install {version}`)"
    if os.environ.get("CI"):
        pytest.fail(text)
    pytest.skip(text)


def _candidates(version: str) -> Iterator[Path]:
    if (found := which(f"python{version}")) is not None:
        yield Path(found)
    pyenv = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv"))
    yield from sorted(pyenv.glob(f"versions/{version}*/bin/python"), reverse=True)
