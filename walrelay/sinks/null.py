"""The null sink: every message counts as published, and is gone. For measurements, and to let a stream pass."""

from collections.abc import Iterable, Sequence

from pydantic import BaseModel, ConfigDict

from walrelay.model import Finding
from walrelay.publish import SinkPlugin, SinkTraits
from walrelay.publish.contract import Sink
from walrelay.sinks.immediate import ImmediateSink
from walrelay.sinks.memory import KEEP
from walrelay.sinks.own_log import SINK_LOG


class NullSettings(BaseModel):
    """`kind: "null"`: every message counts as published, and nothing is kept. The quotes are YAML's."""

    model_config = ConfigDict(frozen=True, extra="forbid")


def _open(settings: NullSettings, memory: None) -> Sink:
    SINK_LOG.warning("nothing is kept", extra={"fields": {"sink": "null", "consequence": "every event is thrown away"}})
    return ImmediateSink()


def _examine(settings: NullSettings, topics: Sequence[str]) -> Iterable[Finding]:
    what = "the null sink keeps NOTHING: every event counts as published, is confirmed to PostgreSQL, and is gone"
    return [Finding("sink", "warning", what, KEEP)]


plugin = SinkPlugin(
    NullSettings,
    open=_open,
    examine=_examine,
    traits=SinkTraits(
        durable="never: it is thrown away",
        order="of commits",
        repeats="none to recognise",
        headers="any",
        size="any",
    ),
)
