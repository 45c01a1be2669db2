"""What the doctor asks Pulsar: whether it lets the relay in and, of the administrator, what becomes of messages."""

from collections.abc import Iterator, Sequence

from walrelay.errors import Fatal
from walrelay.model import Finding
from walrelay.sinks.making import making
from walrelay.sinks.pulsar.admin import AdminError, PulsarAdmin, known_topics
from walrelay.sinks.pulsar.client import OK, let_go, made_client, said
from walrelay.sinks.pulsar.mailbox import Mailbox
from walrelay.sinks.pulsar.reach import NOWHERE, is_answer
from walrelay.sinks.pulsar.settings import PulsarSettings

_PATIENCE = 5.0  # seconds
_GRANT = "Correct sink.admin_url, or let the relay's role look (pulsar-admin tenants update --admin-roles ...)."


def examine(settings: PulsarSettings, topics: Sequence[str]) -> Iterator[Finding]:
    """Connects, and changes nothing."""
    trouble = _refused(settings)
    if trouble is not None:
        yield trouble
        return
    yield Finding("sink", "ok", f"connected to Pulsar at {settings.url}")
    if settings.admin_url is None:
        yield Finding("sink", "warning", "what becomes of messages cannot be asked for", "Set sink.admin_url.")
        return
    admin = PulsarAdmin(settings)
    namespaces: dict[str, None] = {}
    for topic, made_by in known_topics(settings, topics).items():
        namespace = topic.partition("://")[2].rpartition("/")[0]
        try:
            if namespace not in namespaces:
                namespaces[namespace] = None
                yield from _namespace(admin, topic, namespace)
            yield from _topic(admin, topic, made_by)
        except AdminError as why:
            yield Finding("sink", "warning", f"{topic!r} cannot be looked at: {why}", _GRANT)


def _refused(settings: PulsarSettings) -> Finding | None:
    """Why nothing can be published."""
    patient = settings.model_copy(update={"request_timeout": min(settings.request_timeout, _PATIENCE)})
    try:
        client = made_client(patient)
    except Fatal as why:
        return Finding("sink", "problem", str(why), why.hint)
    mailbox = Mailbox(OK)
    try:
        client.get_topic_partitions_async(NOWHERE, mailbox.callback(""))
        mailbox.wait(patient.request_timeout + 1)
        answers = mailbox.take()
        result = answers[0][1] if answers else None
    finally:
        let_go(client)
    if is_answer(result):
        return None
    told = "nothing answers" if result is None else said(result)
    return Finding("sink", "problem", f"Pulsar cannot be reached at {settings.url}: {told}", "Correct it, or start it.")


def _namespace(admin: PulsarAdmin, topic: str, namespace: str) -> Iterator[Finding]:
    try:
        policies = admin.policies(topic)
    except AdminError as why:
        if why.status == 404:
            fix = f"pulsar-admin namespaces create {namespace}"
            yield Finding("sink", "problem", f"namespace {namespace!r} does not exist", fix)
            return
        yield Finding("sink", "warning", f"namespace {namespace!r} cannot be looked at: {why}", _GRANT)
        return
    if not policies.get("deduplicationEnabled"):
        what = f"namespace {namespace!r} does not say that it deduplicates: a connection that breaks may leave repeats"
        fix = f"pulsar-admin namespaces set-deduplication --enable {namespace}"
        yield Finding("sink", "warning", what, fix)
    persistence = policies.get("persistence") or {}
    if persistence and persistence.get("bookkeeperAckQuorum", 2) < 2:
        what = f"namespace {namespace!r} acknowledges what one bookie has"
        fix = f"pulsar-admin namespaces set-persistence --bookkeeper-ack-quorum 2 ... {namespace}"
        yield Finding("sink", "warning", what, fix)


def _topic(admin: PulsarAdmin, topic: str, made_by: str) -> Iterator[Finding]:
    partitions = admin.partitions(topic)
    if partitions is None:
        fix = making(made_by, f"pulsar-admin topics create-partitioned-topic -p 4 {topic}")
        yield Finding("sink", "warning", f"{topic!r} does not exist: it is made if the namespace allows it", fix)
        return
    retention = admin.policies(topic).get("retention_policies") or {}
    if not admin.subscriptions(topic) and not retention.get("retentionTimeInMinutes"):
        what = f"{topic!r} has no subscription, and its namespace may keep nothing: what is published is then deleted"
        fix = f"pulsar-admin topics create-subscription -s SUBSCRIPTION {topic}"
        yield Finding("sink", "warning", what, fix)
    else:
        count = f"{partitions} partitions" if partitions else "one topic without partitions"
        yield Finding("sink", "ok", f"{topic!r} is there: {count}")
