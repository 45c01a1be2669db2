"""`walrelay migrate debezium`: settings that work, what has no counterpart, and no secrets."""

import json
from pathlib import Path

import pytest
import yaml
from click.testing import CliRunner

from walrelay.cli import main
from walrelay.config import Settings, parse
from walrelay.errors import Fatal

ROUTER = "io.debezium.transforms.outbox.EventRouter"
PROPERTIES = r"""
# Debezium Server
debezium.source.plugin.name=pgoutput
debezium.source.database.hostname = db.internal
debezium.source.database.port:5433
debezium.source.database.user=dbz
debezium.source.database.password=hidden1
debezium.source.database.dbname=shop
debezium.source.topic.prefix=app
debezium.source.slot.name=dbz
debezium.source.publication.name=dbz_pub
debezium.source.table.include.list=sales\\.outbox
debezium.source.offset.storage.file.filename=data/offsets.dat
debezium.transforms=outbox
debezium.transforms.outbox.type=io.debezium.transforms.outbox.EventRouter
debezium.transforms.outbox.route.topic.replacement=events.${routedByValue}
debezium.transforms.outbox.table.fields.additional.placement=type:header:kind, shard:shelf
debezium.transforms.outbox.table.expand.json.payload=true
debezium.transforms.outbox.table.op.invalid.behavior=error
debezium.format.key=simplestring
debezium.format.schemas.enable=false
debezium.sink.type=kafka
debezium.sink.kafka.producer.bootstrap.servers=k1:9092,\
    k2:9092
debezium.sink.kafka.producer.linger.ms=3
debezium.sink.kafka.producer.sasl.jaas.config=a.b.C required username="u" password="hidden2";
debezium.sink.kafka.producer.ssl.truststore.password=hidden3
"""


def migrate(directory: Path, text: str) -> str:
    file = directory / "given"
    file.write_text(text, "utf-8")
    done = CliRunner().invoke(main, ["migrate", "debezium", str(file)], standalone_mode=False)
    if done.exception:
        raise done.exception
    return done.output


def read(printed: str) -> Settings:
    dsn = "postgresql://dbz@db.internal/shop"
    env = {"DATABASE_URL": dsn, "KAFKA_USERNAME": "u", "KAFKA_PASSWORD": "p", "KAFKA_BOOTSTRAP_SERVERS": "k:9092"}
    return parse(printed, "walrelay.yaml", env)


def test_properties_of_debezium_server_become_settings_that_work(tmp_path: Path) -> None:
    settings = read(migrate(tmp_path, PROPERTIES))
    assert (settings.source.slot, settings.source.publication) == ("dbz", "dbz_pub")
    assert settings.outbox.table == "sales.outbox"
    assert settings.debezium is not None
    options = settings.debezium.options
    assert options.replacement == "events.${routedByValue}"
    assert [each.alias for each in options.placements] == ["kind"]
    assert options.expands
    assert (options.key_converter, options.value_converter, options.header_converter) == ("string", "json", "json")
    sink = settings.named_sinks[""].settings.model_dump()
    assert sink["bootstrap_servers"] == "k1:9092,k2:9092"
    assert {"linger.ms", "sasl.username", "sasl.password"} == {*sink["options"]}


def test_what_has_no_counterpart_is_said_with_its_meaning(tmp_path: Path) -> None:
    comments = [line for line in migrate(tmp_path, PROPERTIES).splitlines() if line.startswith("#")]
    said = "\n".join(comments)
    assert "table.op.invalid.behavior: updates and deletes are not events" in said
    assert (
        "table.fields.additional.placement: 'shard:shelf' is not column:header, column:envelope, column:partition"
        in said
    )
    assert "offset.storage.file.filename: `walrelay migrate offset` takes over what is stored there" in said
    assert "DATABASE_URL: postgresql://dbz@db.internal:5433/shop, with the password" in said


def test_no_secret_is_printed(tmp_path: Path) -> None:
    assert "hidden" not in migrate(tmp_path, PROPERTIES)


def test_how_the_connector_reads_values_is_taken_over(tmp_path: Path) -> None:
    connector = {
        "decimal.handling.mode": "DOUBLE",
        "time.precision.mode": "isostring",
        "binary.handling.mode": "base64-url-safe",
        "interval.handling.mode": "string",
        "hstore.handling.mode": "map",
        "money.fraction.digits": "3",
    }
    lines = "".join(f"debezium.source.{key}={value}\n" for key, value in connector.items())
    printed = migrate(tmp_path, PROPERTIES + lines)
    settings = read(printed).debezium
    assert settings is not None
    assert settings.options.modes == ("double", "isostring", "base64-url-safe", "string", "map", 3)
    assert not [line for line in printed.splitlines() if line.startswith("#") and ".mode" in line]


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("time.precision.mode=structured", "time.precision.mode: structured is not known here: the default is assumed"),
        ("money.fraction.digits=many", "money.fraction.digits: many is not known here: the default is assumed"),
        ("include.unknown.datatypes=true", "a column whose type is unknown is refused at the start"),
        ("converters=mine", "custom converters are not applied: compare the values of their columns"),
        ("column.mask.with.5.chars=a.b", "columns are published as they are in the table: compare their values"),
        ("field.name.adjustment.mode=avro", "names are as with none, the default"),
    ],
)
def test_what_would_change_values_is_said(tmp_path: Path, line: str, said: str) -> None:
    printed = migrate(tmp_path, f"{PROPERTIES}debezium.source.{line}\n")
    assert said in printed
    read(printed)


@pytest.mark.parametrize("wrapped", [True, False])
def test_a_connector_of_kafka_connect_becomes_settings_that_work(tmp_path: Path, wrapped: bool) -> None:
    config = {
        "plugin.name": "pgoutput",
        "database.user": "u",
        "topic.prefix": "app",
        "table.include.list": "public.outbox",
        "transforms": "mask,router",
        "transforms.mask.type": "org.example.Mask",
        "transforms.router.type": ROUTER,
        "transforms.router.table.field.event.key": "owner",
        "value.converter": "org.apache.kafka.connect.json.JsonConverter",
        "extended.headers.enabled": False,
    }
    printed = migrate(tmp_path, json.dumps({"name": "shop", "config": config} if wrapped else config))
    settings = read(printed)
    assert (settings.source.slot, settings.source.publication) == ("debezium", "dbz_publication")  # the defaults there
    assert settings.debezium is not None
    options = settings.debezium.options
    assert (options.event_key, options.value_converter) == ("owner", "json_with_schemas")
    assert (options.key_converter, options.header_converter) == ("string", "simple")
    assert not options.context_headers
    assert "# " in printed
    assert "key.converter: (the worker's) cannot be imitated or is not known: string is assumed" in printed
    assert "transforms.mask: other transformations are not applied" in printed
    assert "KAFKA_BOOTSTRAP_SERVERS" in printed


def test_a_slot_of_another_plugin_and_several_tables_are_told(tmp_path: Path) -> None:
    config = {"transforms": "o", "transforms.o.type": ROUTER, "table.include.list": "public.a,public.b"}
    printed = migrate(tmp_path, json.dumps(config))
    assert "plugin.name: a slot of decoderbufs cannot be read" in printed
    assert "table.include.list: public.a,public.b is not one table" in printed
    assert yaml.safe_load(printed)["outbox"]["table"] == "public.a"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a=b", "given has no transformation of type"),
        ("{broken", "given is not JSON"),
        ('{"config": 1}', "given: `config` is not an object"),
        (
            json.dumps({"transforms": "o", "transforms.o.type": ROUTER, "transforms.o.route.topic.regex": "("}),
            "not a reg",
        ),
    ],
)
def test_what_cannot_be_migrated_is_an_error_with_its_reason(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(Fatal, match=message):
        migrate(tmp_path, text)


def test_a_file_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    for file, message in ((tmp_path / "none", "no such file"), (tmp_path, "cannot be read")):
        done = CliRunner().invoke(main, ["migrate", "debezium", str(file)], standalone_mode=False)
        assert message in str(done.exception)
