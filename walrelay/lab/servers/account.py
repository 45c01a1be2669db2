"""Whom PostgreSQL runs as: it refuses to be root."""

import os
import pwd
from pathlib import Path
from typing import Any, NamedTuple

from walrelay.errors import Fatal


class Account(NamedTuple):
    """A system user without rights."""

    uid: int
    gid: int

    def identity(self) -> dict[str, Any]:
        """What subprocess needs to run a program as this account."""
        return {"user": self.uid, "group": self.gid, "extra_groups": []}


def unprivileged() -> Account | None:
    """None: just as ourselves, who are not root. No user is created for this."""
    if os.geteuid() != 0:
        return None
    for name in ("postgres", "nobody"):
        try:
            entry = pwd.getpwnam(name)
        except KeyError:
            continue
        return Account(entry.pw_uid, entry.pw_gid)
    raise Fatal(
        "PostgreSQL does not run as root, and this machine has neither a user 'postgres' nor 'nobody'",
        hint="Run this as an ordinary user.",
    )


def enterable(directory: Path) -> bool:
    """Whether any account can get to what lies in the directory."""
    return all(each.stat().st_mode & 0o001 for each in (directory, *directory.parents))
