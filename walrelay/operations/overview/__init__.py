"""All relays of a database at a glance, and which of them somebody has to look at."""

from walrelay.control.state import Level
from walrelay.operations.overview.glance import RelayGlance, glance
from walrelay.operations.overview.judgement import Judgement, judged
from walrelay.operations.overview.looking import DatabaseLook, SeenRelay

__all__ = ["DatabaseLook", "Judgement", "Level", "RelayGlance", "SeenRelay", "glance", "judged"]
