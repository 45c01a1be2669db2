"""A fake of Pub/Sub in a process of its own: Google's pstest, which keeps what was published in a file."""

from base64 import b64decode
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import grpc
from google.api_core.exceptions import GoogleAPICallError, NotFound
from google.pubsub_v1 import PublisherClient, SubscriberClient
from google.pubsub_v1.services.publisher.transports import PublisherGrpcTransport
from google.pubsub_v1.services.subscriber.transports import SubscriberGrpcTransport
from google.pubsub_v1.types import PublishRequest

from tests.servers.ports import LOOPBACK
from tests.servers.single import SingleServer


class PubsubServer(SingleServer):
    """What it has answered is there again after it was killed; subscriptions are not."""

    NAME = "pstest"
    PATIENT_WITH = GoogleAPICallError

    @property
    def address(self) -> str:
        return f"{LOOPBACK}:{self.port}"

    @contextmanager
    def publisher(self) -> Iterator[Any]:
        """Google's client for topics."""
        with grpc.insecure_channel(self.address) as channel:
            yield PublisherClient(transport=PublisherGrpcTransport(channel=channel))

    @contextmanager
    def subscriber(self) -> Iterator[Any]:
        """Google's client for subscriptions."""
        with grpc.insecure_channel(self.address) as channel:
            yield SubscriberClient(transport=SubscriberGrpcTransport(channel=channel))

    def published(self, topic: str) -> list[Any]:
        """The messages of that topic's full name, in the order in which they were stored."""
        found: list[Any] = []
        for line in self._journal.read_bytes().splitlines(keepends=True):
            method, _, encoded = line.partition(b" ")
            if method == b"Publish" and line.endswith(b"\n"):
                request = PublishRequest.pb().FromString(b64decode(encoded))
                found += request.messages if request.topic == topic else []
        return found

    def requests(self, topic: str) -> list[int]:
        """How many messages each request for it had."""
        return [
            len(request.messages)
            for method, _, encoded in (line.partition(b" ") for line in self._journal.read_bytes().splitlines())
            if method == b"Publish" and (request := PublishRequest.pb().FromString(b64decode(encoded))).topic == topic
        ]

    @property
    def _journal(self) -> Path:
        return self._home / "journal"

    def _arguments(self) -> Sequence[str | Path]:
        return [self.address, self._journal]

    def _answers(self) -> bool:
        """It listens before it has what it kept."""
        with self.publisher() as publisher:
            try:
                publisher.get_topic(topic="projects/none/topics/none", timeout=5, retry=None)
            except NotFound:
                return True
        return False
