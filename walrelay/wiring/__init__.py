"""What a relay is made of, as values: made of the settings once, and all that the rooms above know of them."""

from walrelay.wiring.wiring import Limits, Policy, PositionPlace, Rules, Streaming, Wiring, Writers

__all__ = ["Limits", "Policy", "PositionPlace", "Rules", "Streaming", "Wiring", "Writers"]
