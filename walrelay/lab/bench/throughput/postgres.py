"""The PostgreSQL of a throughput run: one for all readers, with wal2json where that is asked for and to be had."""

import subprocess
from collections.abc import Mapping
from pathlib import Path

from walrelay.lab.bench.servers import Servers
from walrelay.lab.servers.backstage import Backstage
from walrelay.lab.servers.postgres import EmbeddedPostgres, OwnPostgres

_DEBIAN = Path("/usr/lib/postgresql")

# No checkpoint while a reading is under way. Fixed times for autovacuum are not needed: after it was written, the
# backlog is vacuumed.
_SETTINGS: Mapping[str, str | int] = {"max_wal_size": "32GB", "checkpoint_timeout": "1d"}


def started(servers: Servers, backstage: Backstage, *, wal2json: bool, tcp: bool) -> EmbeddedPostgres | OwnPostgres:
    """Begins to start it. Where nothing was said, an installation with wal2json is preferred, if that is wanted."""
    if wal2json and not servers.dsn and not servers.postgres_bin:
        servers = servers._replace(postgres_bin=with_wal2json(_DEBIAN))
    settings = dict(_SETTINGS)
    if not servers.dsn and _limits_plugins(servers.programs().bin):
        settings["output_plugin_libraries"] = "pgoutput, wal2json"
    return servers.postgres(backstage, settings, tcp=tcp)


def with_wal2json(installations: Path) -> Path | None:
    """The newest installation below a directory like Debian's that has the plugin: its directory of programs."""
    found = [path.parent for path in installations.glob("*/bin/postgres") if path.parent.parent.name.isdecimal()]
    having = [directory for directory in found if _has_wal2json(directory.parent / "lib")]
    return max(having, key=lambda directory: int(directory.parent.name), default=None)


def _has_wal2json(libraries: Path) -> bool:
    return any((directory / "wal2json.so").is_file() for directory in (libraries, libraries / "postgresql"))


def _limits_plugins(programs: Path) -> bool:
    """Minors since August 2026 have a list of the plugins that may be used (CVE-2026-6471); others do not know it."""
    described = subprocess.run([programs / "postgres", "--describe-config"], capture_output=True, text=True)
    return any(line.startswith("output_plugin_libraries\t") for line in described.stdout.splitlines())
