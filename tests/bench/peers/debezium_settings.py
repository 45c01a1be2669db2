"""Debezium Server's settings: as its documentation sets it up, and tuned."""

from tests.bench.peers.contract import Site, Variant

SLOT = "debezium"
PUBLICATION = "dbz_publication"
HEARTBEAT_TOPIC = "__debezium-heartbeat.outbox"

JAVA_OPTIONS: dict[Variant, str] = {"documented": "", "tuned": "-Xmx256m -XX:+UseSerialGC"}

_STRING_SERIALIZER = "org.apache.kafka.common.serialization.StringSerializer"


def properties(site: Site, variant: Variant) -> dict[str, str]:
    """What goes into config/application.properties."""
    return {**_documented(site), **(_TUNED if variant == "tuned" else {})}


def _documented(site: Site) -> dict[str, str]:
    """The example of its documentation, with what PostgreSQL, this table and Kafka need."""
    return {
        "debezium.source.connector.class": "io.debezium.connector.postgresql.PostgresConnector",
        "debezium.source.offset.storage.file.filename": "data/offsets.dat",
        "debezium.source.offset.flush.interval.ms": "0",
        "debezium.source.database.hostname": site.host,
        "debezium.source.database.port": str(site.port),
        "debezium.source.database.user": site.user,
        "debezium.source.database.password": site.password,
        "debezium.source.database.dbname": site.database,
        "debezium.source.topic.prefix": "outbox",
        "debezium.source.table.include.list": "public.outbox",
        "debezium.source.plugin.name": "pgoutput",
        "debezium.source.snapshot.mode": "no_data",  # it streams from the slot that is there, and copies no rows
        "debezium.transforms": "outbox",
        "debezium.transforms.outbox.type": "io.debezium.transforms.outbox.EventRouter",
        "debezium.transforms.outbox.route.by.field": "aggregate_type",
        "debezium.transforms.outbox.table.field.event.key": "aggregate_id",
        **_route(site.topic),
        "debezium.sink.type": "kafka",
        "debezium.sink.kafka.producer.bootstrap.servers": site.bootstrap_servers,
        "debezium.sink.kafka.producer.key.serializer": _STRING_SERIALIZER,
        "debezium.sink.kafka.producer.value.serializer": _STRING_SERIALIZER,
        "quarkus.http.host": "127.0.0.1",
        "quarkus.http.port": str(site.http_port),
        "quarkus.log.console.json.enabled": "false",
    }


def _route(topic: str) -> dict[str, str]:
    # outbox.event.<aggregate_type> is the router's own default.
    if topic == "outbox.event.order":
        return {}
    return {"debezium.transforms.outbox.route.topic.replacement": topic}


_TUNED = {
    # The wait for a batch to fill, and the pause when there is nothing to read: two in a row, 500 ms each by default.
    "debezium.source.poll.interval.ms": "1",
    # A bare payload, key and id, as walrelay sends them, instead of JSON that describes itself; the type as a header.
    "debezium.format.key": "simplestring",
    "debezium.format.value": "simplestring",
    "debezium.format.header.schemas.enable": "false",
    "debezium.source.extended.headers.enabled": "false",
    "debezium.transforms.outbox.table.fields.additional.placement": "type:header",
    # Durable, with at most 5 ms of batching: a poll's batch is sent as a whole, there is nothing to linger for.
    "debezium.sink.kafka.producer.acks": "all",
    "debezium.sink.kafka.producer.enable.idempotence": "true",
    "debezium.sink.kafka.producer.linger.ms": "0",
    "debezium.sink.kafka.producer.batch.size": "131072",
    "debezium.sink.kafka.producer.compression.type": "lz4",
    # A broker that is away is waited for. By default the server ends after 30 s.
    "debezium.sink.kafka.wait.message.delivery.timeout.ms": "0",
    "debezium.sink.kafka.producer.delivery.timeout.ms": "2147483647",
    # A connection that was lost is made again soon. By default it waits for 10 s, then for 10 s between attempts.
    "debezium.source.retriable.restart.connector.wait.ms": "500",
    "debezium.source.slot.retry.delay.ms": "500",
    "debezium.source.slot.max.retries": "120",
    "debezium.source.errors.retry.delay.max.ms": "1000",
    # An idle outbox frees WAL: a message of its own every 5 s moves its position, and a heartbeat stores it.
    "debezium.source.heartbeat.interval.ms": "5000",
    "debezium.source.heartbeat.action.query": "SELECT pg_logical_emit_message(false, 'heartbeat', '')",
    "debezium.source.message.prefix.exclude.list": "heartbeat",
    'quarkus.log.category."io.debezium.metrics.stats".level': "ERROR",  # a line an event while it catches up
}
