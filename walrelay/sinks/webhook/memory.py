"""What the sinks of a relay that posts know from run to run."""

from dataclasses import dataclass, field

from walrelay.sinks.hosting import RefusalMemory
from walrelay.sinks.hosting.circuit import Circuit


@dataclass
class EndpointMemory(RefusalMemory):
    """Also the circuits that were open when a run ended, by URL: the next run waits as long as the endpoint asked."""

    circuits: dict[str, Circuit] = field(default_factory=dict)
