"""What PostgreSQL says when it is asked."""

from walrelay.lsn import LSN
from walrelay.operations.figures import SlotFigures
from walrelay.telemetry.instruments.reading import Instrument, RelayView, of_figures, one_of


def _wal_status(view: RelayView) -> str | None:
    if view.figures is None:
        return "missing" if view.postgres_up else None
    return view.figures.wal_status or "reserved"


def _written(figures: SlotFigures) -> float | None:
    if figures.confirmed is None or figures.lag_bytes is None:
        return None
    return LSN.parse(figures.confirmed) + figures.lag_bytes


OF_POSTGRES = (
    Instrument(
        "walrelay_postgres_up",
        "gauge",
        "{state}",
        (),
        "1 if PostgreSQL answered when it was asked for the numbers below.",
        lambda view: [((), float(view.postgres_up))],
    ),
    Instrument(
        "walrelay_lag_bytes",
        "gauge",
        "By",
        (),
        "WAL that is written and not confirmed.",
        of_figures(lambda figures: figures.lag_bytes),
    ),
    Instrument(
        "walrelay_lag_seconds",
        "gauge",
        "s",
        (),
        "The age of the oldest transaction that waits to be confirmed; 0 below a second, absent while nobody leads.",
        of_figures(lambda figures: figures.lag_seconds),
    ),
    Instrument(
        "walrelay_retained_wal_bytes",
        "gauge",
        "By",
        (),
        "WAL that the server keeps because of the slot.",
        of_figures(lambda figures: figures.retained_bytes),
    ),
    Instrument(
        "walrelay_safe_wal_bytes",
        "gauge",
        "By",
        (),
        "WAL that can be written before the slot is in danger; absent without max_slot_wal_keep_size.",
        of_figures(lambda figures: figures.safe_bytes),
    ),
    Instrument(
        "walrelay_wal_position_bytes",
        "gauge",
        "By",
        (),
        "Where the server writes WAL, as a number: how fast it grows is the rate of WAL.",
        of_figures(_written),
    ),
    Instrument(
        "walrelay_slot_active",
        "gauge",
        "{state}",
        (),
        "1 while a process reads the slot.",
        of_figures(lambda figures: figures.active),
    ),
    Instrument(
        "walrelay_slot_wal_status",
        "gauge",
        "{state}",
        ("wal_status",),
        "1 for the slot's wal_status; missing: there is no slot.",
        one_of(("reserved", "extended", "unreserved", "lost", "missing"), _wal_status),
    ),
    Instrument(
        "walrelay_outbox_bytes",
        "gauge",
        "By",
        (),
        "The outbox with its indexes and partitions.",
        of_figures(lambda figures: figures.outbox_bytes),
    ),
    Instrument(
        "walrelay_outbox_rows",
        "gauge",
        "{row}",
        (),
        "Rows of the outbox, as PostgreSQL estimates.",
        of_figures(lambda figures: figures.outbox_rows),
    ),
    Instrument(
        "walrelay_outbox_dead_rows",
        "gauge",
        "{row}",
        (),
        "Its dead rows that no vacuum has removed yet: bloat.",
        of_figures(lambda figures: figures.outbox_dead_rows),
    ),
    Instrument(
        "walrelay_backfill_rows",
        "gauge",
        "{row}",
        (),
        "Rows that a backfill has published so far; absent without one that is unfinished.",
        of_figures(lambda figures: figures.backfill_rows),
    ),
    Instrument(
        "walrelay_replays_unfinished",
        "gauge",
        "{replay}",
        (),
        "Replays of rows that are under way, or were interrupted.",
        of_figures(lambda figures: figures.replays),
    ),
    Instrument(
        "walrelay_replay_rows",
        "gauge",
        "{row}",
        (),
        "Rows that those have published so far; absent without one.",
        of_figures(lambda figures: figures.replay_rows),
    ),
    Instrument(
        "walrelay_dead_letters_open",
        "gauge",
        "{letter}",
        (),
        "Dead letters that wait for a decision.",
        of_figures(lambda figures: figures.dead_letters),
    ),
)
