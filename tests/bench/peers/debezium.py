"""Debezium Server: the Outbox Event Router on walrelay's own table, pgoutput in, Kafka out."""

from pathlib import Path

from confluent_kafka.admin import AdminClient, NewTopic

from tests.bench.peers import debezium_distribution as distribution
from tests.bench.peers import debezium_settings as settings
from tests.bench.peers.contract import Command, Outbox, Site, Variant
from tests.bench.peers.pgoutput import publish
from tests.bench.peers.walrelay_peer import OUTBOX


class DebeziumServer:
    """Started by its own run.sh, in a directory that looks like the distribution and holds its own config and data."""

    name = "debezium-server"

    def __init__(self) -> None:
        self._home = Path()
        self._jdk = Path()

    def install(self, cache: Path) -> str:
        self._jdk = distribution.find_jdk()
        self._home = distribution.install(cache)
        return f"{distribution.VERSION}, Java {distribution.java_version(self._jdk)}"

    def outbox(self, variant: Variant) -> Outbox:
        return OUTBOX

    def prepare(self, site: Site, variant: Variant) -> None:
        distribution.lay_out(self._home, site.directory)
        written = settings.properties(site, variant)
        file = site.directory / "config" / "application.properties"
        file.write_text("".join(f"{name}={value}\n" for name, value in written.items()))
        # With a slot and without an offset it begins where the slot stands; snapshot.mode=no_data reads no rows before.
        publish(site, f"CREATE PUBLICATION {settings.PUBLICATION} FOR TABLE outbox", settings.SLOT)
        if variant == "tuned":
            _make_heartbeat_topic(site)

    def command(self, site: Site, variant: Variant) -> Command:
        environment = {"JAVA_HOME": str(self._jdk), "JAVA_OPTS": settings.JAVA_OPTIONS[variant]}
        return Command(["./run.sh"], environment, site.directory)


def _make_heartbeat_topic(site: Site) -> None:
    """It would not start without it at a broker that makes no topics. It stays for the next measurement."""
    admin = AdminClient({"bootstrap.servers": site.bootstrap_servers, "log_level": 0})
    if settings.HEARTBEAT_TOPIC not in admin.list_topics(timeout=15).topics:
        topic = NewTopic(settings.HEARTBEAT_TOPIC, num_partitions=1, replication_factor=1)
        admin.create_topics([topic], operation_timeout=15)[settings.HEARTBEAT_TOPIC].result(30)
