"""What Kinesis gets, and what it says.

PutRecords goes on behind a record that fails, and numbers records as they come to their shards. So a key has one record
on its way at a time; and a record that is alone in its request is put behind the one before it of its key by number.
"""

import re
from collections import OrderedDict
from collections.abc import Hashable, Sequence
from hashlib import sha256
from threading import Lock
from typing import Any

from botocore.exceptions import ClientError

from walrelay.model import Message
from walrelay.sinks.address import AddressTemplate, NoAddress
from walrelay.sinks.aws.arns import region_of
from walrelay.sinks.aws.contract import AwsEntry, EntryFault, RequestLimits
from walrelay.sinks.aws.document import alone, document
from walrelay.sinks.aws.kinesis.settings import KinesisSettings
from walrelay.sinks.hosting import Misfit

_RECORDS, _REQUEST = 500, 5 * 2**20
_LONGEST_KEY = 256
_REMEMBERED = 10_000  # keys
_STREAM = re.compile(r"(?:arn:[a-z-]+:kinesis:[a-z0-9-]+:\d{12}:stream/)?[A-Za-z0-9_.-]{1,128}")


class KinesisApi:
    """See `walrelay.sinks.aws.contract.AwsApi`."""

    service, name = "kinesis", "Kinesis"

    def __init__(self, settings: KinesisSettings) -> None:
        self.limits = RequestLimits(
            1 if settings.ordering == "strict" else _RECORDS, _REQUEST, settings.max_record_bytes
        )
        self.region = region_of(settings.stream)
        self._stream = AddressTemplate(settings.stream)
        self._format = settings.format
        self._lock = Lock()
        self._numbers: OrderedDict[tuple[str, str], str] = OrderedDict()  # of the last record of a key

    def lane(self, message: Message) -> Hashable:
        """Topics may share a stream."""
        try:
            return self._stream(message), partition_key(message)
        except NoAddress:
            return message.topic, message.key

    def entry(self, message: Message) -> AwsEntry | Misfit:
        try:
            stream = self._stream(message)
        except NoAddress as why:
            return Misfit(str(why), "Correct sink.stream, or the event.", "unroutable")
        if fault := stream_fault(stream):
            return Misfit(f"{stream!r} is no stream: {fault}", "Correct sink.stream, or the topic.", "invalid_topic")
        key = partition_key(message)
        if self._format == "value" and message.key is not None and key.encode() != message.key:
            return Misfit("its key cannot be a partition key: it has 1 to 256 characters", "Set sink.format: document.")
        made = document(message) if self._format == "document" else alone(message)
        if isinstance(made, Misfit):
            return made
        data = made.encode() if isinstance(made, str) else made
        return AwsEntry(stream, {"Data": data, "PartitionKey": key}, len(data) + len(key.encode()))

    def put(self, client: Any, place: str, entries: Sequence[dict[str, Any]]) -> list[EntryFault | None]:
        if len(entries) == 1:
            answers = [self._put_one(client, place, entries[0])]
        else:
            answers = client.put_records(Records=entries, **named(place))["Records"]
        faults: list[EntryFault | None] = []
        for entry, answer in zip(entries, answers, strict=True):
            if code := answer.get("ErrorCode"):
                faults.append(EntryFault(code, answer.get("ErrorMessage", "")))
            else:
                self._remember((place, entry["PartitionKey"]), answer["SequenceNumber"])
                faults.append(None)
        return faults

    def _put_one(self, client: Any, place: str, entry: dict[str, Any]) -> dict[str, Any]:
        key = place, entry["PartitionKey"]
        before = self._numbers.get(key)
        following = {} if before is None else {"SequenceNumberForOrdering": before}
        try:
            answer: dict[str, Any] = client.put_record(**entry, **following, **named(place))
        except ClientError as why:
            if before is None or why.response["Error"].get("Code") != "InvalidArgumentException":
                raise
            self._numbers.pop(key, None)  # the stream may be another one of that name
            answer = client.put_record(**entry, **named(place))
        return answer

    def _remember(self, key: tuple[str, str], number: str) -> None:
        with self._lock:  # requests are threads
            self._numbers[key] = number
            self._numbers.move_to_end(key)
            if len(self._numbers) > _REMEMBERED:
                self._numbers.popitem(last=False)


def partition_key(message: Message) -> str:
    """The key, or its hash where Kinesis would not take it; messages without a key have that of their topic."""
    name = message.topic.encode(errors="surrogateescape") if message.key is None else message.key
    try:
        text = name.decode()
    except UnicodeDecodeError:
        text = ""
    return text if 0 < len(text) <= _LONGEST_KEY else sha256(name).hexdigest()


def stream_fault(text: str) -> str:
    """Why that is no stream; empty if it may be one."""
    return "" if _STREAM.fullmatch(text) else "a stream has 1 to 128 letters, digits, '_', '.' and '-'"


def named(stream: str) -> dict[str, str]:
    """How a request says which stream it is for."""
    return {"StreamARN": stream} if stream.startswith("arn:") else {"StreamName": stream}
