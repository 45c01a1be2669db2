"""Settings to a pass of a clean-up."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from walrelay.compose.backfill import outbox_table
from walrelay.compose.reading import dsn, publication, table
from walrelay.config import Settings
from walrelay.operations.cleanup import Cleanup, CleanupWish, Session, Step, Tally


@contextmanager
def cleaning(
    settings: Settings, wish: CleanupWish, wait: Callable[[float], object], reached: dict[str, int] | None = None
) -> Iterator[tuple[Iterator[Step], Tally]]:
    """The steps of a pass, to be iterated over for as long as it may go on, and what came of it so far.

    `wait` passes the time between two batches; `reached`: the page that an earlier pass got to in each table.
    """
    with Session(dsn(settings)) as session:
        session.refuse_standby()
        outbox = outbox_table(settings, session)
        pass_ = Cleanup(session, outbox, table(settings), wish, wait, {} if reached is None else reached)
        yield pass_.steps(settings.source.slot, publication(settings), settings.outbox.columns.created_at), pass_.tally
