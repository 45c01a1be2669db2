"""What is sent where. Needs no library."""

import os
from collections.abc import Mapping, Sequence
from typing import Literal, NamedTuple

Signal = Literal["metrics", "traces", "logs"]


class OtlpOptions(NamedTuple):
    """`headers` may hold secrets. `sample`: which share of the messages without a parent is traced. `interval`: seconds
    between two exports of the metrics.
    """

    endpoint: str
    protocol: str = "http/protobuf"
    headers: Mapping[str, str] = {}
    signals: Sequence[Signal] = ("metrics", "traces", "logs")
    sample: float = 0.01
    interval: float = 60.0


def disabled(env: Mapping[str, str] = os.environ) -> bool:
    """Whether the environment says that nothing is to be sent, whatever the settings say."""
    return env.get("OTEL_SDK_DISABLED", "").strip().lower() == "true"
