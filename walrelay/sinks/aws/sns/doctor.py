"""Topics of SNS: what the doctor asks about them, and what `walrelay init --topics` makes."""

from collections.abc import Iterator, Sequence
from typing import Any

from botocore.exceptions import ClientError

from walrelay.errors import SinkError
from walrelay.model import Finding
from walrelay.sinks.aws.arns import name_of
from walrelay.sinks.aws.asking import findings, is_missing, known_places, made
from walrelay.sinks.aws.sns.api import SnsApi, sns_fault
from walrelay.sinks.aws.sns.settings import SnsSettings
from walrelay.sinks.aws.texts import FIFO, ordering_fault


def examine(settings: SnsSettings, topics: Sequence[str]) -> Iterator[Finding]:
    """Asks for the attributes of each topic."""
    fifo = settings.ordering == "per_key"

    def ask(client: Any, topic: str) -> Iterator[Finding]:
        attributes = client.get_topic_attributes(TopicArn=topic)["Attributes"]
        yield Finding("sink", "ok", f"topic {name_of(topic)!r} is there")
        if int(attributes.get("SubscriptionsConfirmed", 1)) == 0:
            what = f"topic {name_of(topic)!r} has no subscription: what it gets is gone"
            yield Finding("sink", "warning", what, f"aws sns subscribe --topic-arn {topic} ...")
        most = int(attributes.get("MaximumMessageSize", settings.max_message_bytes))
        if most < settings.max_message_bytes:
            what = f"topic {name_of(topic)!r} takes {most:,} bytes, and sink.max_message_bytes is more"
            yield Finding("sink", "warning", what, f"Set sink.max_message_bytes to {most}.")

    yield from findings(
        SnsApi(settings),
        settings,
        known_places(settings.topic_arn, topics),
        ask,
        lambda topic: sns_fault(topic) or ordering_fault(topic, fifo=fifo),
        "correct sink.topic_arn",
        lambda client: client.list_topics(),
    )
    if not fifo:
        yield Finding("sink", "warning", "sink.ordering is none: standard topics have no order, and repeat messages")


def make_sns_topics(settings: SnsSettings, topics: Sequence[str]) -> Iterator[tuple[str, bool]]:
    """FIFO where their names say so; without subscriptions."""
    arns = known_places(settings.topic_arn, topics)
    for arn in arns:
        if fault := sns_fault(arn) or ordering_fault(arn, fifo=settings.ordering == "per_key"):
            raise SinkError(f"{arn!r} cannot be made: {fault}", hint="Correct sink.topic_arn.")
    yield from made(SnsApi(settings), settings, arns, _make)


def _make(client: Any, arn: str) -> bool:
    try:
        client.get_topic_attributes(TopicArn=arn)
    except ClientError as why:
        if not is_missing(why):
            raise
        name = name_of(arn)
        client.create_topic(Name=name, Attributes={"FifoTopic": "true"} if name.endswith(FIFO) else {})
        return True
    return False
