"""Topics: what the doctor asks about them and their subscriptions, and what `walrelay init --topics` makes."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing, contextmanager
from typing import Any, NamedTuple

from google.api_core.exceptions import GoogleAPICallError
from google.pubsub_v1 import PublisherClient, SubscriberClient
from google.pubsub_v1.services.publisher.transports import PublisherGrpcTransport
from google.pubsub_v1.services.subscriber.transports import SubscriberGrpcTransport

from walrelay.errors import Retryable, SinkError, WalrelayError
from walrelay.model import Finding
from walrelay.sinks.address import AddressTemplate
from walrelay.sinks.hosting.threads import in_time
from walrelay.sinks.making import making
from walrelay.sinks.pubsub.client import channel, place_of
from walrelay.sinks.pubsub.credentials import AccessToken, Metadata, no_token
from walrelay.sinks.pubsub.names import full_name
from walrelay.sinks.pubsub.settings import GLOBAL, PubsubSettings

_PATIENCE = 10.0  # seconds for an answer
_SUBSCRIPTIONS = 20  # of a topic that are looked at
_PUBLISH = "pubsub.topics.publish"
_NEVER = "projects/{}/topics/walrelay-doctor"
"""Asked for where no topic is known beforehand: any answer says that Pub/Sub can be reached."""


class _Asking(NamedTuple):
    """What goes with every question."""

    publisher: Any
    subscriber: Any
    options: dict[str, Any]


def examine(settings: PubsubSettings, topics: Sequence[str]) -> Iterator[Finding]:
    """Connects, and asks for topics, their subscriptions and the right to publish."""
    try:
        with _asking(settings) as asking:
            found = _findings(settings, asking, topics)
    except WalrelayError as why:
        found = [Finding("sink", "problem", str(why), getattr(why, "hint", "") or "Correct sink.credentials_file.")]
    yield from found


def make_topics(settings: PubsubSettings, topics: Sequence[str]) -> Iterator[tuple[str, bool]]:
    """Each topic that is missing, without subscriptions."""
    with _asking(settings) as asking:
        made = _made(asking, _names(settings, topics))
    yield from made


@contextmanager
def _asking(settings: PubsubSettings) -> Iterator[_Asking]:
    with closing(channel(settings)) as opened:
        metadata: Metadata = ()
        if place_of(settings).tls:
            token = AccessToken(settings.credentials_file)
            try:
                in_time(settings.request_timeout, token.renew)
            except TimeoutError:
                raise Retryable(no_token(settings.request_timeout)) from None
            metadata = token.metadata
        yield _Asking(
            PublisherClient(transport=PublisherGrpcTransport(channel=opened)),
            SubscriberClient(transport=SubscriberGrpcTransport(channel=opened)),
            {"timeout": min(settings.request_timeout, _PATIENCE), "retry": None, "metadata": metadata},
        )


def _findings(settings: PubsubSettings, asking: _Asking, topics: Sequence[str]) -> list[Finding]:
    address, tls = place_of(settings)
    names = _names(settings, topics)
    found: list[Finding] = []
    regional = address.split(":")[0] != GLOBAL or not tls
    for name, made_by in names.items() or [(_NEVER.format(settings.project), "")]:
        topic, status, text = _asked(asking, asking.publisher.get_topic, topic=name)
        if fault := _no_answer(address, status, text):
            return [fault]
        if not found:
            how = "with TLS" if tls else "without TLS and credentials, as an emulator is"
            found.append(Finding("sink", "ok", f"connected to Pub/Sub at {address} {how}"))
        if names:
            found += _about(asking, name, made_by, topic, status, text)
            if (
                topic is not None
                and not regional
                and len(topic.message_storage_policy.allowed_persistence_regions) != 1
            ):
                found.append(
                    Finding(
                        "sink",
                        "warning",
                        f"{name} is published to through {GLOBAL}, and a key is in order only while all of it is stored"
                        " in one region",
                        "Set sink.endpoint to a region's, as europe-west1-pubsub.googleapis.com:443.",
                    )
                )
    return found


def _no_answer(address: str, status: str, text: str) -> Finding | None:
    if status in ("UNAVAILABLE", "DEADLINE_EXCEEDED"):
        fix = "Correct sink.endpoint or sink.ca_file, or start it."
        return Finding("sink", "problem", f"Pub/Sub at {address} cannot be reached: {text or status}", fix)
    if status == "UNAUTHENTICATED":
        fix = "Correct sink.credentials_file, or what GOOGLE_APPLICATION_CREDENTIALS names."
        return Finding("sink", "problem", f"Pub/Sub at {address} does not accept the credentials: {text}", fix)
    return None


def _about(asking: _Asking, name: str, made_by: str, topic: Any, status: str, text: str) -> list[Finding]:
    if status == "NOT_FOUND":
        fix = making(made_by, f"gcloud pubsub topics create {name}")
        return [Finding("sink", "problem", f"{name} does not exist", fix)]
    allowed, refused, _ = _asked(asking, asking.publisher.test_iam_permissions, resource=name, permissions=[_PUBLISH])
    if not refused and _PUBLISH not in allowed.permissions:
        fix = f"gcloud pubsub topics add-iam-policy-binding {name} --member=... --role=roles/pubsub.publisher"
        what = "does not exist, or these credentials may not publish to it"
        return [Finding("sink", "problem", f"{name} {what}", fix)]
    if topic is None:
        seen = "may be published to" if not refused else "cannot be asked about"
        verdict = Finding("sink", "ok", f"{name} {seen}; nothing else may be asked about it ({text or status})")
        return [verdict if not refused else verdict._replace(verdict="warning")]
    return [Finding("sink", "ok", f"{name} is there"), *_subscriptions(asking, name, topic)]


def _subscriptions(asking: _Asking, name: str, topic: Any) -> list[Finding]:
    listed, status, _ = _asked(asking, asking.publisher.list_topic_subscriptions, topic=name, page_size=_SUBSCRIPTIONS)
    if status:
        return []
    subscriptions = [*listed.subscriptions]
    if not subscriptions and not topic.message_retention_duration:
        what = f"{name} has no subscription and retains nothing: what is published before there is one is lost"
        return [Finding("sink", "warning", what, "gcloud pubsub subscriptions create --enable-message-ordering")]
    found = []
    for each in subscriptions:
        subscription, status, _ = _asked(asking, asking.subscriber.get_subscription, subscription=each)
        if not status and not subscription.enable_message_ordering:
            what = f"{each} has no message ordering: it gets the messages of a key in any order"
            fix = "Make it again with --enable-message-ordering, which cannot be changed later."
            found.append(Finding("sink", "warning", what, fix))
    return found


def _made(asking: _Asking, names: Iterable[str]) -> list[tuple[str, bool]]:
    made = []
    for name in names:
        _, status, text = _asked(asking, asking.publisher.create_topic, name=name)
        if status not in ("", "ALREADY_EXISTS"):
            raise SinkError(
                f"{name} was not made: {status}: {text}", hint="Make it yourself: gcloud pubsub topics create"
            )
        made.append((name, not status))
    return made


def _asked(asking: _Asking, method: Callable[..., Any], **request: Any) -> tuple[Any, str, str]:
    """The answer, or a status and what was said."""
    try:
        return method(request=request, **asking.options), "", ""
    except GoogleAPICallError as why:
        code = why.grpc_status_code
        return None, code.name if code is not None else "UNKNOWN", " ".join(str(why.message).split())[:300]


def _names(settings: PubsubSettings, topics: Sequence[str]) -> dict[str, str]:
    """Those that are known beforehand, each with a topic of the relay's that goes there."""
    template = AddressTemplate(settings.topic)
    names: dict[str, str] = {}
    for address, topic in template.of_topics(topics).items():
        try:
            names.setdefault(full_name(template.text, settings.project, address), topic)
        except ValueError as why:
            raise SinkError(
                f"{address!r} is no topic of Pub/Sub: {why}", hint="Correct sink.topic, or the route."
            ) from why
    return names
