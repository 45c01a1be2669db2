"""Whether a position in the middle of a transaction still means the same records.

It says how many records of the transaction are published. Under settings that count more or fewer, or others, the same
number is another record: events would be passed over in silence, or repeated. So a position says what was counted, and
under other settings nothing is published. To count whatever may ever be a record instead, so that no setting matters,
would count rows of other tables and messages of others: consumers see ordinals, which would have gaps and depend on
what else a publication has, and wal2json is not sent those rows at all.
"""

from walrelay.errors import Fatal
from walrelay.model import Counting, Position

_SETTINGS = Counting("source.plugin", "source.publication", "outbox.table", "outbox.messages.prefix")


def refuse_another_count(position: Position, now: Counting) -> None:
    """Fatal if the records of the transaction in which `position` is are counted in another way now."""
    then = position.counted
    if then is None:
        if now.prefix is None:  # what earlier versions kept does not say, and with them it was 'walrelay' by default
            raise _refused(position, "was kept by an earlier version, for which outbox.messages.prefix was walrelay")
    elif then != now:
        raise _refused(position, f"was counted with {_differences(then, now)}")


def _differences(then: Counting, now: Counting) -> str:
    each = zip(_SETTINGS, then, now, strict=True)
    return " and ".join(f"{name}: {_shown(old)}, not {_shown(new)}" for name, old, new in each if old != new)


def _shown(value: str | None) -> str:
    return "null" if value is None else value


def _refused(position: Position, why: str) -> Fatal:
    return Fatal(
        f"the transaction at {position.commit_lsn} is published up to before its record {position.ordinal}, which {why}"
        ": under these settings another record has that number, and events would be passed over or repeated",
        hint="Start the relay with those settings until `walrelay status` shows a confirmed position beyond"
        f" {position.commit_lsn}, then with the new ones; if it stops at a record that cannot be read, `walrelay skip`"
        " passes over that. `walrelay run --from-slot` begins where the slot stands instead, and repeats what was"
        " published behind that.",
    )
