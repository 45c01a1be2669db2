"""What SNS gets, and what it says."""

import re
from collections.abc import Hashable, Sequence
from typing import Any

from walrelay.model import Message
from walrelay.sinks.address import AddressTemplate, NoAddress
from walrelay.sinks.aws.arns import region_of
from walrelay.sinks.aws.contract import AwsEntry, EntryFault, RequestLimits
from walrelay.sinks.aws.sns.settings import SnsSettings
from walrelay.sinks.aws.texts import FifoIds, TextForm, batch_faults, group_of, ordering_fault
from walrelay.sinks.hosting import Misfit

_ARN = re.compile(r"arn:[a-z-]+:sns:[a-z0-9-]+:\d{12}:([A-Za-z0-9_-]{1,251}\.fifo|[A-Za-z0-9_-]{1,256})")


class SnsApi:
    """See `walrelay.sinks.aws.contract.AwsApi`."""

    service, name = "sns", "SNS"

    def __init__(self, settings: SnsSettings) -> None:
        self.limits = RequestLimits(10, settings.max_message_bytes, settings.max_message_bytes)
        self.region = region_of(settings.topic_arn)
        self._topic = AddressTemplate(settings.topic_arn)
        self._form = TextForm(settings.format, settings.key_header)
        self._fifo = settings.ordering == "per_key"
        self._ids = FifoIds()

    def lane(self, message: Message) -> Hashable:
        """The group: topics of the outbox may share one of SNS."""
        try:
            return self._topic(message), group_of(message)
        except NoAddress:
            return message.topic, message.key

    def entry(self, message: Message) -> AwsEntry | Misfit:
        try:
            topic = self._topic(message)
        except NoAddress as why:
            return Misfit(str(why), "Correct sink.topic_arn, or the event.", "unroutable")
        if fault := sns_fault(topic) or ordering_fault(topic, fifo=self._fifo):
            reason = f"{topic!r} is no topic for it: {fault}"
            return Misfit(reason, "Correct sink.topic_arn, or the topic.", "invalid_topic")
        made = self._form(message)
        if isinstance(made, Misfit):
            return made
        fields: dict[str, Any] = {"Message": made.text}
        if made.attributes:
            fields["MessageAttributes"] = made.attributes
        if self._fifo:
            fields.update(self._ids(message, topic, made))
        return AwsEntry(topic, fields, made.size)

    def put(self, client: Any, place: str, entries: Sequence[dict[str, Any]]) -> list[EntryFault | None]:
        numbered = [{"Id": str(number), **entry} for number, entry in enumerate(entries)]
        return batch_faults(client.publish_batch(TopicArn=place, PublishBatchRequestEntries=numbered), len(entries))


def sns_fault(text: str) -> str:
    """Why that is no topic; empty if it may be one."""
    if _ARN.fullmatch(text):
        return ""
    return "it is an ARN whose last part has letters, digits, hyphens and underscores, and may end with .fifo"
