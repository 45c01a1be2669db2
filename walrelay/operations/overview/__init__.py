"""All relays of a database at a glance, and which of them somebody has to look at."""

from walrelay.operations.overview.glance import RelayGlance, glance
from walrelay.operations.overview.judgement import Judgement, Level, judged

__all__ = ["Judgement", "Level", "RelayGlance", "glance", "judged"]
