"""From a settings file to Settings, or to every problem in it at once."""

import os
from collections.abc import Iterable, Mapping
from pathlib import Path

from pydantic import SecretStr, ValidationError

from walrelay.config import document
from walrelay.config.document import Document, Problem, encodable, expanded, revealed
from walrelay.config.models import Settings
from walrelay.config.problems import Places, problems
from walrelay.errors import SettingsError

HINT = "`walrelay docs settings` lists every setting; `walrelay config example` prints a file that works."


def load(path: Path) -> Settings:
    """The settings in that file, with the process's environment; SettingsError if they cannot be used."""
    try:
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError:
        raise SettingsError(f"{path}: no such file", hint=f"walrelay config example > {path}") from None
    except OSError as error:
        raise SettingsError(f"{path}: cannot be read: {error.strerror}") from None
    except UnicodeDecodeError as error:
        raise SettingsError(f"{path}: not UTF-8 text, from byte {error.start} on") from None
    return parse(text, str(path), os.environ)


def parse(text: str, name: str, env: Mapping[str, str]) -> Settings:
    """The settings in `text`, which came from the file `name`. Reads no file but those named by `file:` secrets.

    SettingsError lists every problem, one a line, as `name:line: path: what is wrong`.
    """
    settings, found = _validated(_resolved(document.read(text), env))
    if settings is None or found:
        raise SettingsError("\n".join(_lines(found, name)), hint=HINT)
    return settings


def _resolved(written: Document, env: Mapping[str, str]) -> Document:
    """The document with what its references stand for.

    A text that may be a secret becomes a SecretStr here: a model with `str | SecretStr` would keep it as a str.
    """

    def resolved(path: document.KeyPath, text: str) -> str | SecretStr:
        value = encodable(expanded(text, env))
        return SecretStr(encodable(revealed(value))) if places.secret(path) else value

    places = Places(document.replaced(written, lambda _, text: expanded(text, env)).value)
    return document.replaced(written, resolved)


def _validated(resolved: Document) -> tuple[Settings | None, list[Problem]]:
    """Returns the problems rather than raising: an exception that carries pydantic's would carry the secrets."""
    try:
        return Settings.model_validate(resolved.value), resolved.problems
    except ValidationError as error:
        more = problems(error, resolved, Places(resolved.value))
        return None, [*resolved.problems, *more]


def _lines(found: Iterable[Problem], name: str) -> list[str]:
    in_order = sorted(dict.fromkeys(found), key=lambda problem: problem.line)
    return [f"{name}:{line}: {_dotted(path)}{text}" for line, path, text in in_order]


def _dotted(path: document.KeyPath) -> str:
    steps = "".join(f"[{step}]" if isinstance(step, int) else f".{_printable(step)}" for step in path)
    return f"{steps.removeprefix('.')}: " if steps else ""


def _printable(key: str) -> str:
    """A key as it is, unless it would break the line."""
    return key if key.isprintable() else repr(key)
