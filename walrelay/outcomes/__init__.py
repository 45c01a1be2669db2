"""The outcome of each message of a row: in its topic, a dead letter, or still to be published."""

from walrelay.outcomes.blocking import BlockedKeys
from walrelay.outcomes.messages import (
    DUE,
    OPEN,
    FoundMessages,
    MessageOutcome,
    Outcome,
    letters_of_other_topics,
    of_topics,
    outcomes,
)
from walrelay.outcomes.rows import (
    NOTHING_KNOWN,
    Believed,
    Known,
    LeftToPublish,
    LettersOfRows,
    SettledRows,
    settled_rows,
    topics_of_letters,
)

__all__ = [
    "DUE",
    "NOTHING_KNOWN",
    "OPEN",
    "Believed",
    "BlockedKeys",
    "FoundMessages",
    "Known",
    "LeftToPublish",
    "LettersOfRows",
    "MessageOutcome",
    "Outcome",
    "SettledRows",
    "letters_of_other_topics",
    "of_topics",
    "outcomes",
    "settled_rows",
    "topics_of_letters",
]
