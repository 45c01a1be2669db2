"""A physical standby of a test's PostgreSQL, that can be cut off and promoted. It has no logical slots."""

from tests.servers.postgres import PostgresServer
from tests.servers.programs import PostgresPrograms
from tests.servers.waiting import wait_until


class PhysicalStandby(PostgresServer):
    """Made by pg_basebackup from a running primary; streams from it between start() and cut_off()."""

    def __init__(self, programs: PostgresPrograms, primary: PostgresServer) -> None:
        self._primary = primary
        super().__init__(programs)

    def catch_up(self) -> None:
        """Returns when the standby has replayed what the primary has now."""
        ((end,),) = self._primary.execute("SELECT pg_current_wal_insert_lsn()::text")
        wait_until(
            lambda: self.execute("SELECT pg_last_wal_replay_lsn() >= %s::pg_lsn", [end]) == [(True,)],
            20,
            "the standby to catch up",
        )

    def cut_off(self) -> None:
        """From now on it hears nothing of the primary."""
        self.configure(primary_conninfo="")
        wait_until(
            lambda: self.execute("SELECT count(*) FROM pg_stat_wal_receiver WHERE pid IS NOT NULL") == [(0,)],
            20,
            "the standby to be cut off",
        )

    def promote(self) -> None:
        assert self.execute("SELECT pg_promote()") == [(True,)]

    def _initdb(self) -> None:
        self._run(
            *("pg_basebackup", "--pgdata", self._data, "--dbname", self._primary.dsn),
            *("--checkpoint", "fast", "--wal-method", "stream", "--write-recovery-conf", "--no-sync"),
        )
