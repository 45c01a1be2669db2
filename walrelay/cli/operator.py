"""Who runs a command, for what is recorded."""

import os
import pwd


def operator() -> str:
    """The operating system's name for the user; its number where it has none."""
    try:
        return pwd.getpwuid(os.getuid()).pw_name
    except KeyError:
        return str(os.getuid())
