"""AWS, as moto has it: places of its services."""

import json
import os
import signal
from base64 import b64decode
from collections.abc import Callable
from typing import Any
from uuid import uuid4

from tests.servers.aws import ACCOUNT, CREDENTIALS, REGION, MotoServer
from tests.servers.ports import LOOPBACK
from tests.servers.topics import Received
from walrelay.model import Message
from walrelay.publish import Sink, SinkPlugin
from walrelay.sinks.aws.eventbridge.plugin import plugin as eventbridge
from walrelay.sinks.aws.kinesis.plugin import plugin as kinesis
from walrelay.sinks.aws.sns.plugin import plugin as sns
from walrelay.sinks.aws.sqs.plugin import plugin as sqs
from walrelay.testing import Arrived


class AwsCase:
    """A place of its own at a service; the server is stopped to hold it."""

    plugin: SinkPlugin
    operation = ""
    """Of its requests, as AWS has it."""

    settings: dict[str, Any] = {}  # noqa: RUF012
    suffix = ""

    def __init__(self, server: MotoServer) -> None:
        self.server, self.topic = server, f"test-{uuid4().hex[:12]}{self.suffix}"
        self.memory = self.plugin.memory()
        self.kill, self.start = server.kill, server.start
        self.make()

    def make(self) -> None:
        """The place."""
        raise NotImplementedError

    def open(self, *, room: int = 10_000, **settings: Any) -> Sink:
        settings = {**access(self.server), **self.settings, "max_in_flight": room, **settings}
        return self.plugin.open(self.plugin.settings.model_validate(settings), self.memory)

    def at(self, port: int) -> dict[str, Any]:
        return {**access(self.server), "endpoint_url": f"http://{LOOPBACK}:{port}", **self.settings}

    def refused(self, message: Message) -> Message:
        """The sink itself refuses a name that is no text."""
        return message._replace(headers=[*message.headers, ("\udcff", b"1")])

    def hold(self) -> None:
        os.kill(self.server.pid, signal.SIGSTOP)

    def release(self) -> None:
        os.kill(self.server.pid, signal.SIGCONT)

    def arrived(self) -> list[Arrived]:
        return [of_queue(each) for each in self.server.arrived(self.topic)]

    def close(self) -> None:
        """The server keeps what it got until it ends."""


class SqsCase(AwsCase):
    """A FIFO queue."""

    plugin, suffix, operation = sqs, ".fifo", "SendMessageBatch"

    def make(self) -> None:
        self.server.sqs.create_queue(QueueName=self.topic, Attributes={"FifoQueue": "true"})


class SnsCase(AwsCase):
    """A FIFO topic, and a FIFO queue of the same name that subscribes to it."""

    plugin, suffix, operation = sns, ".fifo", "PublishBatch"
    settings = {"topic_arn": f"arn:aws:sns:{REGION}:{ACCOUNT}:{{topic}}"}  # noqa: RUF012

    def make(self) -> None:
        fifo = {"FifoQueue": "true"}
        self.server.sqs.create_queue(QueueName=self.topic, Attributes=fifo)
        client = self.server.client("sns")
        arn = client.create_topic(Name=self.topic, Attributes={"FifoTopic": "true"})["TopicArn"]
        queue = f"arn:aws:sqs:{REGION}:{ACCOUNT}:{self.topic}"
        client.subscribe(TopicArn=arn, Protocol="sqs", Endpoint=queue, Attributes={"RawMessageDelivery": "true"})


class KinesisCase(AwsCase):
    """A stream with two shards."""

    plugin, operation = kinesis, "PutRecords"

    def make(self) -> None:
        self.server.client("kinesis").create_stream(StreamName=self.topic, ShardCount=2)

    def arrived(self) -> list[Arrived]:
        return [of_document(json.loads(b64decode(each["data"]))) for each in self.server.arrived(self.topic)]


class EventbridgeCase(AwsCase):
    """A bus, and a queue of the same name that a rule sends everything to."""

    plugin, operation = eventbridge, "PutEvents"
    settings = {"bus": "{topic}", "detail_type": "tested", "source": "walrelay"}  # noqa: RUF012

    def make(self) -> None:
        self.server.sqs.create_queue(QueueName=self.topic)
        client = self.server.client("events")
        client.create_event_bus(Name=self.topic)
        client.put_rule(Name="all", EventBusName=self.topic, EventPattern=json.dumps({"source": ["walrelay"]}))
        target = {"Id": "1", "Arn": f"arn:aws:sqs:{REGION}:{ACCOUNT}:{self.topic}"}
        client.put_targets(Rule="all", EventBusName=self.topic, Targets=[target])

    def arrived(self) -> list[Arrived]:
        return [of_document(json.loads(each["body"])["detail"]) for each in self.server.arrived(self.topic)]


class AwsPlace:
    """A case as relays of the acceptance tests see it."""

    def __init__(self, case: AwsCase, kind: str) -> None:
        self._case, self._kind, self.topic = case, kind, case.topic
        self.kill, self.start = case.server.kill, case.server.start

    @property
    def sink(self) -> dict[str, Any]:
        return {"kind": self._kind, **access(self._case.server), **self._case.settings}

    def read_all(self, *topics: str) -> list[Received]:
        keys: dict[bytes | None, int] = {}
        return [
            Received(self.topic, keys.setdefault(each.key, len(keys)), number, each.key, each.value, each.headers, 0)
            for number, each in enumerate(self._case.arrived())
        ]


def place(kind: str, make: Callable[[MotoServer], AwsCase]) -> Callable[[MotoServer], AwsPlace]:
    """Makes places of that kind of sink."""
    return lambda server: AwsPlace(make(server), kind)


def access(server: MotoServer) -> dict[str, Any]:
    """The settings by which a relay finds it."""
    return {"endpoint_url": server.url, "region": REGION, **CREDENTIALS}


def of_queue(read: dict[str, Any]) -> Arrived:
    """A line of the journal. moto has the values of binary attributes in base64."""
    headers: dict[str, bytes | None] = {}
    for name, each in read["attributes"].items():
        binary = each.get("binary_value", each.get("BinaryValue"))
        text = each.get("string_value", each.get("StringValue"))
        headers[name] = text.encode() if text else b64decode(binary)
    key = headers.pop("key", None)
    return Arrived(key, read["body"].encode(), [*headers.items()])


def of_document(read: dict[str, Any]) -> Arrived:
    """The message that the document was made of; its payload as Python writes JSON."""
    headers = [(name, _header(value)) for name, value in read["headers"].items()]
    key = b64decode(read["key_base64"]) if "key_base64" in read else read["key"].encode() if "key" in read else None
    if "value_base64" in read:
        return Arrived(key, b64decode(read["value_base64"]), headers)
    return Arrived(key, json.dumps(read["value"]).encode() if "value" in read else None, headers)


def _header(value: Any) -> bytes | None:
    if isinstance(value, dict):
        return b64decode(value["base64"])
    return None if value is None else value.encode()
