"""The programs of a PostgreSQL installation where the account of a server can run them."""

import functools

from tests.servers.process import temporary_directory
from walrelay.lab.servers.backstage import SystemUser, enterable
from walrelay.lab.servers.postgres import Programs


@functools.cache
def within_reach_of(account: SystemUser | None, programs: Programs) -> Programs:
    """These programs, or one copy of them for all servers where the account may not enter a directory above them."""
    if account is None or enterable(programs.bin):
        return programs
    copies = temporary_directory("programs")
    copies.chmod(0o755)
    return programs.reachable(copies)
