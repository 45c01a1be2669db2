"""The table walrelay.dead_letters: what the relay writes there, and what `walrelay dlq` reads and changes."""

from walrelay.dead_letters.handling import Kept, Letterbox, Wanted
from walrelay.dead_letters.store import DeadLetters

__all__ = ["DeadLetters", "Kept", "Letterbox", "Wanted"]
