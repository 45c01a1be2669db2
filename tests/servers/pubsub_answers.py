"""A fake of Pub/Sub in the test's process, which answers as the test says."""

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from threading import Event
from typing import Any, Self

import grpc
from google.pubsub_v1.types import PublishRequest, PublishResponse

from tests.servers.ports import LOOPBACK

_PUBLISH = "/google.pubsub.v1.Publisher/Publish"

Answer = tuple[grpc.StatusCode, str] | None
"""A status and what is said beside it; None: stored."""


class PubsubAnswers:
    """`answers`: what it says to a request, which has the messages' data. Keeps what it stored, in order."""

    def __init__(
        self, answers: Callable[[Sequence[bytes]], Answer] = lambda data: None, credentials: Any = None
    ) -> None:
        self.answers = answers
        self.requests: list[list[bytes]] = []
        self.stored: list[bytes] = []
        self.metadata: list[dict[str, str]] = []
        self.ids: int | None = None
        """How many ids it gives; None: one for each message."""
        self.over = Event()
        self._server = grpc.server(ThreadPoolExecutor(8), options=[("grpc.so_reuseport", 0)])
        request, response = PublishRequest.pb(), PublishResponse.pb()
        handler = grpc.unary_unary_rpc_method_handler(self._publish, request.FromString, response.SerializeToString)
        self._server.add_generic_rpc_handlers([_Only(handler)])
        if credentials is None:
            self.port: int = self._server.add_insecure_port(f"{LOOPBACK}:0")
        else:
            self.port = self._server.add_secure_port(f"{LOOPBACK}:0", credentials)
        self.address = f"{LOOPBACK}:{self.port}"

    def __enter__(self) -> Self:
        self._server.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.over.set()
        self._server.stop(None).wait(10)

    def _publish(self, request: Any, context: Any) -> Any:
        data = [each.data for each in request.messages]
        self.requests.append(data)
        self.metadata.append(dict(context.invocation_metadata()))
        answer = self.answers(data)
        if answer is not None:
            context.abort(*answer)
        self.stored += data
        count = len(data) if self.ids is None else self.ids
        return PublishResponse.pb()(message_ids=[f"{len(self.stored)}-{number}" for number in range(count)])


class _Only(grpc.GenericRpcHandler):  # type: ignore[misc]
    def __init__(self, handler: Any) -> None:
        self._handler = handler

    def service(self, details: Any) -> Any:
        return self._handler if details.method == _PUBLISH else None
