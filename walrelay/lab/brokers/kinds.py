"""Which brokers there are, without importing what they need; and the one that was asked for."""

from collections.abc import Sequence
from typing import NamedTuple

from walrelay.errors import Fatal
from walrelay.lab.brokers.contract import LabBroker
from walrelay.lab.servers.backstage import Backstage
from walrelay.publish.kinds import is_installed


class BrokerKind(NamedTuple):
    """`consumer`: who gets the events. `into`: where a benchmark drains its backlog to."""

    title: str
    consumer: str
    into: str
    client: str = ""  # the package to import, which an extra of walrelay's of the kind's name installs
    has_url: bool = True  # whether a broker of the user's can be named


KINDS = {
    "kafka": BrokerKind("Kafka", "a Kafka consumer", "real Kafka, acks=all", "confluent_kafka", has_url=False),
    "rabbitmq": BrokerKind("RabbitMQ", "a RabbitMQ consumer", "a quorum queue of RabbitMQ", "pika"),
    "nats": BrokerKind("NATS", "a NATS consumer", "a stream of NATS JetStream", "nats"),
    "redis": BrokerKind("Redis", "a Redis consumer", "a Redis stream", "redis"),
    "postgres": BrokerKind("PostgreSQL", "another PostgreSQL", "a table of another PostgreSQL"),
    "file": BrokerKind("a file", "a reader of a file", "a file, on disk before it counts", has_url=False),
    "webhook": BrokerKind("a webhook", "a receiver of webhooks", "a receiver of webhooks", "aiohttp", has_url=False),
}


def missing_packages(names: Sequence[str]) -> list[str]:
    """Of those, and of the kinds among them, which are not installed."""
    wanted = dict.fromkeys(KINDS[name].client if name in KINDS else name for name in names)
    return [package for package in wanted if package and not is_installed(package)]


def own_or_users(kind: str, backstage: Backstage, url: str | None) -> LabBroker:
    """Begins to start one of that kind, not Kafka, or takes the one at that address."""
    match kind:
        case "rabbitmq":
            from walrelay.lab.brokers.rabbitmq import LabRabbitmq

            return LabRabbitmq(backstage, url)
        case "nats":
            from walrelay.lab.brokers.nats import LabNats

            return LabNats(backstage, url)
        case "redis":
            from walrelay.lab.brokers.redis import LabRedis

            return LabRedis(backstage, url)
        case "postgres":
            from walrelay.lab.brokers.postgres import LabPostgres

            return LabPostgres(backstage, url)
        case "file":
            from walrelay.lab.brokers.file import LabFile

            return LabFile(backstage)
        case "webhook":
            from walrelay.lab.brokers.webhook import LabWebhook

            return LabWebhook(backstage)
    raise Fatal(f"there is no broker of the kind {kind!r}")
