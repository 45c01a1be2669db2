"""JetStream's API, as JSON: what a newer server says that the client's classes do not know stays as it is."""

import json
from typing import Any

from nats.aio.client import Client
from nats.errors import Error, NoRespondersError

_PATIENCE = 5.0  # seconds for an answer
_PREFIX = "$JS.API"


class ApiError(Exception):
    """JetStream refused a request, or did not answer it: the text says which and why."""

    def __init__(self, text: str, code: int = 0) -> None:
        super().__init__(text)
        self.code = code


STREAM_NOT_FOUND, NO_MESSAGE, OTHER_LAST_SEQUENCE, NO_JETSTREAM = 10059, 10037, 10071, 10039


async def ask(client: Client, request: str, **members: Any) -> dict[str, Any]:
    """The answer to a request such as `STREAM.INFO.orders`."""
    try:
        reply = await client.request(f"{_PREFIX}.{request}", json.dumps(members).encode(), timeout=_PATIENCE)
        answer: dict[str, Any] = json.loads(reply.data)
    except NoRespondersError as why:
        text = "JetStream is off, or off for this user's account, or without a leader"
        raise ApiError(text, NO_JETSTREAM) from why
    except TimeoutError as why:
        raise ApiError(f"no answer to {_PREFIX}.{request}, which this user may not be allowed to ask") from why
    except (Error, ValueError) as why:
        raise ApiError(f"{_PREFIX}.{request}: {why}") from why
    if error := answer.get("error"):
        raise ApiError(str(error.get("description", error)), error.get("err_code", 0))
    return answer


async def stream_of(client: Client, subject: str) -> str | None:
    """The name of the stream that has the subject, whether it has a leader just now or not."""
    names = (await ask(client, "STREAM.NAMES", subject=subject)).get("streams")
    return names[0] if names else None


async def unacknowledged(client: Client, subject: str) -> str:
    """Why no stream acknowledges a message for the subject; empty if one should."""
    stream = await stream_of(client, subject)
    if stream is None:
        return "no stream has the subject, and whoever listens to it stores nothing: nats stream add"
    config = (await ask(client, f"STREAM.INFO.{stream}")).get("config", {})
    return f"stream {stream!r} acknowledges nothing (no_ack): nats stream edit" if config.get("no_ack") else ""
