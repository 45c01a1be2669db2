"""What SQS gets, and what it says."""

from collections.abc import Hashable, Sequence
from typing import Any

from walrelay.model import Message
from walrelay.sinks.address import AddressTemplate, NoAddress
from walrelay.sinks.aws.arns import region_of
from walrelay.sinks.aws.contract import AwsEntry, EntryFault, RequestLimits
from walrelay.sinks.aws.sqs.queues import is_url, lookup, queue_fault
from walrelay.sinks.aws.sqs.settings import SqsSettings
from walrelay.sinks.aws.texts import FifoIds, TextForm, batch_faults, group_of, ordering_fault
from walrelay.sinks.hosting import Misfit

_URLS = 1_000  # queues whose URLs are kept
_MOST = 1_048_576  # bytes of an entry, and of a request; a queue may have less


class SqsApi:
    """See `walrelay.sinks.aws.connection.AwsApi`."""

    service, name = "sqs", "SQS"
    limits = RequestLimits(10, _MOST, _MOST)

    def __init__(self, settings: SqsSettings) -> None:
        self._queue = AddressTemplate(settings.queue)
        self._form = TextForm(settings.format, settings.key_header)
        self._fifo = settings.ordering == "per_key"
        self._ids = FifoIds()
        self.region = region_of(settings.queue)
        self._urls: dict[str, str] = {}

    def lane(self, message: Message) -> Hashable:
        """The group: topics may share a queue."""
        try:
            return self._queue(message), group_of(message)
        except NoAddress:
            return message.topic, message.key

    def entry(self, message: Message) -> AwsEntry | Misfit:
        try:
            queue = self._queue(message)
        except NoAddress as why:
            return Misfit(str(why), "Correct sink.queue, or the event.", "unroutable")
        if fault := queue_fault(queue) or ordering_fault(queue, fifo=self._fifo):
            return Misfit(
                f"{queue!r} is no queue for it: {fault}", "Correct sink.queue, or the topic.", "invalid_topic"
            )
        made = self._form(message)
        if isinstance(made, Misfit):
            return made
        fields: dict[str, Any] = {"MessageBody": made.text}
        if made.attributes:
            fields["MessageAttributes"] = made.attributes
        if self._fifo:
            fields.update(self._ids(message, queue, made))
        return AwsEntry(queue, fields, made.size)

    def put(self, client: Any, place: str, entries: Sequence[dict[str, Any]]) -> list[EntryFault | None]:
        url = place if is_url(place) else self._urls.get(place)
        if url is None:
            if len(self._urls) >= _URLS:
                self._urls.clear()
            url = self._urls[place] = client.get_queue_url(**lookup(place))["QueueUrl"]
        numbered = [{"Id": str(number), **entry} for number, entry in enumerate(entries)]
        return batch_faults(client.send_message_batch(QueueUrl=url, Entries=numbered), len(entries))
