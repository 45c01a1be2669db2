"""What a relay is made of, as values: made once from the settings. The rooms above see nothing else of them."""

from walrelay.wiring.wiring import Limits, Policy, PositionPlace, Rules, SlotOptions, Wiring, Writers

__all__ = ["Limits", "Policy", "PositionPlace", "Rules", "SlotOptions", "Wiring", "Writers"]
