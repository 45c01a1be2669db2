"""The table walrelay.dead_letters: what the relay writes there, and what `walrelay dlq` reads and changes."""

from walrelay.source.dead_letters.kept import Kept, Letterbox, Wanted
from walrelay.source.dead_letters.writing import DeadLetters

__all__ = ["DeadLetters", "Kept", "Letterbox", "Wanted"]
