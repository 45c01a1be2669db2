"""Topics: what the doctor asks about them and their subscriptions, and what `walrelay init --topics` makes."""

from collections.abc import Coroutine, Iterator, Sequence
from typing import Any, NamedTuple

from google.api_core.exceptions import GoogleAPICallError
from google.pubsub_v1 import PublisherAsyncClient, SubscriberAsyncClient
from google.pubsub_v1.services.publisher.transports import PublisherGrpcAsyncIOTransport
from google.pubsub_v1.services.subscriber.transports import SubscriberGrpcAsyncIOTransport

from walrelay.errors import Fatal, WalrelayError
from walrelay.model import Finding
from walrelay.sinks.address import AddressTemplate
from walrelay.sinks.hosting import PumpedLoop
from walrelay.sinks.pubsub.client import channel, place_of
from walrelay.sinks.pubsub.credentials import AccessToken, Metadata
from walrelay.sinks.pubsub.names import full_name
from walrelay.sinks.pubsub.settings import GLOBAL, PubsubSettings

_PATIENCE = 10.0  # seconds for an answer
_SOME = "*"  # in a topic or template: what only a row can say
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
        yield from _run(settings, lambda asking: _findings(settings, asking, topics))
    except WalrelayError as why:
        yield Finding("sink", "problem", str(why), getattr(why, "hint", "") or "Correct sink.credentials_file.")


def make_topics(settings: PubsubSettings, topics: Sequence[str]) -> Iterator[tuple[str, bool]]:
    """Each topic that is missing, without subscriptions."""
    yield from _run(settings, lambda asking: _made(settings, asking, _names(settings, topics)))


def _run(settings: PubsubSettings, work: Any) -> Any:
    loop = PumpedLoop()
    try:
        return loop.run_until_complete(_with_client(settings, work))
    finally:
        loop.let_go()


async def _with_client(settings: PubsubSettings, work: Any) -> Any:
    opened = channel(settings)
    try:
        metadata: Metadata = await AccessToken(settings.credentials_file).metadata() if place_of(settings).tls else ()
        asking = _Asking(
            PublisherAsyncClient(transport=PublisherGrpcAsyncIOTransport(channel=opened)),
            SubscriberAsyncClient(transport=SubscriberGrpcAsyncIOTransport(channel=opened)),
            {"timeout": min(settings.request_timeout, _PATIENCE), "retry": None, "metadata": metadata},
        )
        return await work(asking)
    finally:
        await opened.close(None)


async def _findings(settings: PubsubSettings, asking: _Asking, topics: Sequence[str]) -> list[Finding]:
    address, tls = place_of(settings)
    names = _names(settings, topics)
    found: list[Finding] = []
    regional = address.split(":")[0] != GLOBAL or not tls
    for name in names or [_NEVER.format(settings.project)]:
        topic, status, text = await _asked(asking.publisher.get_topic(request={"topic": name}, **asking.options))
        if fault := _no_answer(address, status, text):
            return [fault]
        if not found:
            how = "with TLS" if tls else "without TLS and credentials, as an emulator is"
            found.append(Finding("sink", "ok", f"connected to Pub/Sub at {address} {how}"))
        if names:
            found += await _about(asking, name, topic, status, text)
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


async def _about(asking: _Asking, name: str, topic: Any, status: str, text: str) -> list[Finding]:
    if status == "NOT_FOUND":
        fix = "walrelay init --topics, or gcloud pubsub topics create."
        return [Finding("sink", "problem", f"{name} does not exist", fix)]
    allowed, refused, _ = await _asked(
        asking.publisher.test_iam_permissions(request={"resource": name, "permissions": [_PUBLISH]}, **asking.options)
    )
    if not refused and _PUBLISH not in allowed.permissions:
        fix = f"gcloud pubsub topics add-iam-policy-binding {name} --member=... --role=roles/pubsub.publisher"
        what = "does not exist, or these credentials may not publish to it"
        return [Finding("sink", "problem", f"{name} {what}", fix)]
    if topic is None:
        seen = "may be published to" if not refused else "cannot be asked about"
        verdict = Finding("sink", "ok", f"{name} {seen}; nothing else may be asked about it ({text or status})")
        return [verdict if not refused else verdict._replace(verdict="warning")]
    return [Finding("sink", "ok", f"{name} is there"), *await _subscriptions(asking, name, topic)]


async def _subscriptions(asking: _Asking, name: str, topic: Any) -> list[Finding]:
    listed, status, _ = await _asked(
        asking.publisher.list_topic_subscriptions(
            request={"topic": name, "page_size": _SUBSCRIPTIONS}, **asking.options
        )
    )
    if status:
        return []
    subscriptions = [*listed.subscriptions]
    if not subscriptions and not topic.message_retention_duration:
        what = f"{name} has no subscription and retains nothing: what is published before there is one is lost"
        return [Finding("sink", "warning", what, "gcloud pubsub subscriptions create --enable-message-ordering")]
    found = []
    for each in subscriptions:
        subscription, status, _ = await _asked(
            asking.subscriber.get_subscription(request={"subscription": each}, **asking.options)
        )
        if not status and not subscription.enable_message_ordering:
            what = f"{each} has no message ordering: it gets the messages of a key in any order"
            fix = "Make it again with --enable-message-ordering, which cannot be changed later."
            found.append(Finding("sink", "warning", what, fix))
    return found


async def _made(settings: PubsubSettings, asking: _Asking, names: Sequence[str]) -> list[tuple[str, bool]]:
    made = []
    for name in names:
        _, status, text = await _asked(asking.publisher.create_topic(request={"name": name}, **asking.options))
        if status not in ("", "ALREADY_EXISTS"):
            raise Fatal(f"{name} was not made: {status}: {text}", hint="Make it yourself: gcloud pubsub topics create")
        made.append((name, not status))
    return made


async def _asked(question: Coroutine[Any, Any, Any]) -> tuple[Any, str, str]:
    """The answer, or a status and what was said."""
    try:
        return await question, "", ""
    except GoogleAPICallError as why:
        code = why.grpc_status_code
        return None, code.name if code is not None else "UNKNOWN", " ".join(str(why.message).split())[:300]


def _names(settings: PubsubSettings, topics: Sequence[str]) -> list[str]:
    """Those that are known beforehand."""
    template = AddressTemplate(settings.topic)
    if template.by_row:
        return []
    names: dict[str, None] = {}
    for address in (template.of_topic(topic) for topic in topics):
        if _SOME not in address:
            try:
                names[full_name(template.text, settings.project, address)] = None
            except ValueError as why:
                raise Fatal(
                    f"{address!r} is no topic of Pub/Sub: {why}", hint="Correct sink.topic, or the route."
                ) from why
    return [*names]
