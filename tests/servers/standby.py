"""A physical standby of a test server, which takes over when it is promoted; and the two as one place to connect to."""

from collections.abc import Mapping

from psycopg.conninfo import make_conninfo

from tests.servers.database import Postgres
from tests.servers.ports import LOOPBACK
from tests.servers.postgres import PostgresServer, Setting
from tests.servers.waiting import wait_until

_READY = (
    "SELECT synced AND NOT temporary AND invalidation_reason IS NULL FROM pg_replication_slots WHERE slot_name = %s"
)


class Standby(PostgresServer):
    """Copied from `primary` when made, by pg_basebackup; streams through the physical slot of the name `slot`.

    From PostgreSQL 17 on it synchronises the primary's failover slots; `port` is where it finds the primary, a proxy
    for example.
    """

    def __init__(
        self,
        primary: PostgresServer,
        settings: Mapping[str, Setting] | None = None,
        *,
        slot: str = "standby_1",
        port: int | None = None,
    ) -> None:
        self.slot = slot
        self._primary, self._way = primary, make_conninfo(host=LOOPBACK, port=port or primary.port, user="postgres")
        super().__init__(primary.programs, settings)

    def promote(self, timeout: float = 30) -> None:
        """Returns when it is the primary."""
        self.execute("SELECT pg_promote(wait => false)")
        wait_until(lambda: self.execute("SELECT NOT pg_is_in_recovery()") == [(True,)], timeout, "the promotion")

    def catch_up(self, timeout: float = 20) -> None:
        """Returns when it has replayed all that the primary has written by now."""
        ((end,),) = self._primary.execute("SELECT pg_current_wal_flush_lsn()::text")
        replayed = "SELECT pg_last_wal_replay_lsn() >= %s::pg_lsn"
        wait_until(lambda: self.execute(replayed, [end]) == [(True,)], timeout, f"the standby to replay up to {end}")

    def cut_off(self) -> None:
        """From now on it hears nothing of the primary."""
        self.configure(primary_conninfo="")
        gone = "SELECT count(*) FROM pg_stat_wal_receiver WHERE pid IS NOT NULL"
        wait_until(lambda: self.execute(gone) == [(0,)], 20, "the standby to be cut off")

    def wait_for_slot(self, name: str, timeout: float = 40, *, move: bool = False) -> None:
        """Returns when the slot would survive a promotion, by the query that PostgreSQL's manual gives for it.

        `move`: nobody reads the slot, which must catch up with the standby's oldest transaction before it is copied.
        """

        def ready() -> bool:
            self._primary.execute("SELECT pg_log_standby_snapshot()")  # which the primary does every 15 s only
            if move:
                self._primary.execute("SELECT pg_replication_slot_advance(%s, pg_current_wal_lsn())", [name])
            return self.execute(_READY, [name]) == [(True,)]

        wait_until(ready, timeout, f"slot {name} to be synchronised", interval=0.1)

    def _make_data(self) -> None:
        self._primary.execute("SELECT pg_create_physical_replication_slot(%s, true)", [self.slot])
        self._run(
            *("pg_basebackup", "--pgdata", self._data, "--dbname", self._way, "--slot", self.slot),
            *("--wal-method", "stream", "--checkpoint", "fast", "--no-sync"),
        )

    def _write_settings(self, settings: dict[str, Setting]) -> None:
        standbys: dict[str, Setting] = {
            "port": self.port,
            "primary_conninfo": make_conninfo(self._way, dbname="postgres"),
            "primary_slot_name": self.slot,
            "hot_standby_feedback": True,
            "wal_receiver_status_interval": 1,
            "wal_retrieve_retry_interval": "100ms",
        }
        if self.major >= 17:
            standbys["sync_replication_slots"] = True
        (self._data / "standby.signal").touch()
        self._append_settings({**standbys, **settings})


class Pair(Postgres):
    """A primary and its standby as clients see them: two hosts, of which they take the one that can be written to."""

    def __init__(self, primary: PostgresServer, standby: Standby) -> None:
        super().__init__(primary.dsn)
        self.primary, self.standby = primary, standby
        self.dsn = make_conninfo(
            host=f"{LOOPBACK},{LOOPBACK}",
            port=f"{primary.port},{standby.port}",
            user="postgres",
            dbname="postgres",
            target_session_attrs="read-write",
        )

    def fail_over(self) -> None:
        """The primary crashes and the standby takes its place."""
        self.primary.stop("immediate")
        self.standby.promote()
