"""What stands for something else in a settings file: `${NAME}`, `${NAME:-default}` and, for secrets, `file:/path`."""

import re
from collections.abc import Mapping
from pathlib import Path

_REFERENCE = re.compile(
    r"\$(?P<escaped>\$\{) | \$\{ (?: (?P<name>[A-Za-z_][A-Za-z0-9_]*) (?: :-(?P<default>[^{}]*) )? \} )?",
    re.VERBOSE,
)
_FILE = "file:"


def expanded(text: str, env: Mapping[str, str]) -> str:
    """`text` with its references replaced from `env`; ValueError for one without a value.

    As in a shell, the default of `${NAME:-default}` stands in for a variable that is unset or empty. `$${` is a
    literal `${`. The result is always text, even where YAML would read a number: a password may be 0123.
    """
    return _REFERENCE.sub(lambda match: _referenced(match, env), text)


def _referenced(match: re.Match[str], env: Mapping[str, str]) -> str:
    if match["escaped"]:
        return "${"
    name, default = match["name"], match["default"]
    if name is None:
        raise ValueError("'${' must go on as in ${NAME} or ${NAME:-default}; a literal '${' is written '$${'")
    value = env.get(name)
    if default is not None:
        return value or default
    if value is None:
        raise ValueError(f"the environment variable {name} is not set: set it, or write ${{{name}:-default}}")
    return value


def encodable(text: str) -> str:
    """`text`, if PostgreSQL and brokers can take it at all; ValueError, which shows nothing of it, if they cannot."""
    if "\0" in text:
        raise ValueError("has a zero byte in it, which is in no name and no text of PostgreSQL; remove it")
    try:
        text.encode()
    except UnicodeEncodeError:
        raise ValueError("has bytes in it that are not UTF-8, or half of a surrogate pair; write it in UTF-8") from None
    return text


def revealed(text: str) -> str:
    """The secret itself: `file:/path` is that file's content without its last line end, all else is `text`."""
    if not text.startswith(_FILE):
        return text
    path = Path(text.removeprefix(_FILE))
    if not path.is_absolute():
        raise ValueError(f"{text!r} needs an absolute path, as in file:/run/secrets/name")
    return _content(path)


def _content(path: Path) -> str:
    try:
        secret = path.read_text(encoding="utf-8").removesuffix("\n").removesuffix("\r")
    except OSError as error:
        raise ValueError(f"cannot read {path}: {error.strerror}") from None
    except UnicodeDecodeError:
        raise ValueError(f"{path} is not UTF-8 text") from None
    if not secret:
        raise ValueError(f"{path} is empty")
    return secret
