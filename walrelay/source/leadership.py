"""Which of any number of instances with the same slot leads: one reads the slot, the others wait without polling.

The right to lead is a session-level advisory lock, held by the replication connection that streams. So it lives and
dies with the stream: a process that dies releases it at once; one whose host is gone or that is frozen, when the
server's wal_sender_timeout ends its walsender. An instance that waits has sent its request for the lock and sleeps on
the socket.

A statement that waits has a snapshot, and that would keep VACUUM from removing rows for as long as it waits. So the
request is given up and sent again once in a while, and nothing is asked in between.

Any role can take an advisory lock, and so keep every relay waiting (docs/decisions/0013-who-may-hold-the-lead.md). A
relay holds it on a replication connection, which takes the right to replicate; any other holder is reported.
"""

from collections.abc import Callable

from walrelay.errors import Disconnected
from walrelay.postgres.connect import Connection, Status, answer, answer_or_stop
from walrelay.postgres.failures import server_message, sqlstate_of
from walrelay.postgres.locks import lock_key, terminate, unexpected_leader, unexpected_leader_query

RENEWAL = 60.0  # seconds after which a waiting request is sent again
SILENCE = 300.0  # seconds without a word, before the stream begins, after which whoever got the lead loses it
_SLACK = 10.0  # seconds after which a server that did not even give up waiting counts as gone

# A backend that waits for a lock does not read its socket: whoever was gone would seem to wait for up to a minute.
_NOTICES_IF_GONE = (  # in milliseconds; PostgreSQL 14 and later, and not on every platform
    "SELECT set_config('client_connection_check_interval', '{}', false)"
    " WHERE current_setting('client_connection_check_interval', true) IS NOT NULL"
)

# wal_sender_timeout is for streams: whoever is frozen while it waits would get the lead, and keep it for ever.
_ENDS_IF_FROZEN = (  # PostgreSQL 14 and later
    "SELECT set_config('idle_session_timeout', '{}', false)"
    " WHERE current_setting('idle_session_timeout', true) IS NOT NULL"
)

_LOCK_NOT_AVAILABLE = "55P03"


def lead(
    connection: Connection,
    slot: str,
    stop: Callable[[], bool],
    waiting: Callable[[], None],
    tell: Callable[[str], None],
    *,
    renewal: float = RENEWAL,
    silence: float = SILENCE,
) -> bool:
    """True as soon as this connection leads, False when `stop` came first. `waiting` is called once, if it has to wait;
    `tell` is called with the text about a holder that is no relay, again with each request.

    After a wait the server ends the connection if it is asked nothing for `silence` seconds, until it streams.
    """
    if lead_at_once(connection, slot):
        return True
    waiting()
    answer(connection, f"SET lock_timeout = {int(renewal * 1000)}")
    answer(connection, _NOTICES_IF_GONE.format(1000))
    answer(connection, _ENDS_IF_FROZEN.format(int(silence * 1000)))
    request, patience = f"SELECT pg_advisory_lock({lock_key(slot)})", renewal + _SLACK
    _report_other_holder(connection, slot, tell)
    while (granted := answer_or_stop(stop, connection, request, patience)) is not None:
        if granted.status == Status.TUPLES_OK:
            answer(connection, "SET lock_timeout = 0")
            answer(connection, _NOTICES_IF_GONE.format(0))
            return True
        if sqlstate_of(granted) != _LOCK_NOT_AVAILABLE:
            raise Disconnected(f"the wait for the lead ended: {server_message(granted)}")
        _report_other_holder(connection, slot, tell)
    return False


def _report_other_holder(connection: Connection, slot: str, tell: Callable[[str], None]) -> None:
    found = answer(connection, unexpected_leader_query(slot))
    if found.status == Status.TUPLES_OK and found.ntuples:
        pid, role, application = ((found.get_value(0, column) or b"").decode(errors="replace") for column in range(3))
        tell(f"{unexpected_leader(slot, pid, role, application)}: {terminate(pid)}")


def lead_at_once(connection: Connection, slot: str) -> bool:
    """Whether this connection leads now; it does not if another connection leads, or waits for the lead."""
    granted = answer(connection, f"SELECT pg_try_advisory_lock({lock_key(slot)})")
    return granted.status == Status.TUPLES_OK and granted.get_value(0, 0) == b"t"
