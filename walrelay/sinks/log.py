"""The log sink: an entry of walrelay's own log for each message. Durable means: the log took the entry."""

from typing import Any

from pydantic import BaseModel, ConfigDict, Field

from walrelay.model import EVENT_ID, Message
from walrelay.publish import SinkPlugin, SinkTraits
from walrelay.publish.contract import Sink
from walrelay.sinks.immediate import ImmediateSink
from walrelay.sinks.own_log import insist_on_info, log_event
from walrelay.sinks.stdout import readable


class LogSinkSettings(BaseModel):
    """`kind: log`: what passes by, in walrelay's own log: an entry `message` for each, with topic, key, id and size."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    payload: bool = Field(False, description="Whether the entry has the payload too. Logs are read by many.")


class LogSink(ImmediateSink):
    """Writes while it takes: as slow as whoever reads stderr."""

    def __init__(self, *, payload: bool) -> None:
        super().__init__()
        self._payload = payload

    def take(self, message: Message) -> None:
        headers = dict(message.headers)
        log_event(
            "message",
            {
                "topic": message.topic,
                "key": readable(message.key),
                "id": readable(headers.get("id", headers.get(EVENT_ID))),
                "bytes": len(message.value or b""),
                **({"payload": readable(message.value)} if self._payload else {}),
            },
        )


def _open(settings: LogSinkSettings, memory: Any) -> Sink:
    insist_on_info("log")
    return LogSink(payload=settings.payload)


plugin = SinkPlugin(
    LogSinkSettings,
    open=_open,
    examine=lambda settings, topics: [],
    traits=SinkTraits(
        durable="written to walrelay's log (stderr)",
        order="of commits",
        repeats="recognised by the id",
        headers="any; only the id is logged",
        size="any",
    ),
)
