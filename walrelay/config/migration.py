"""Settings from Debezium's: application.properties of Debezium Server, or a connector's JSON for Kafka Connect."""

import json
import re
from collections.abc import Iterator
from typing import Any, NamedTuple, get_args

import yaml

from walrelay.config.debezium import DebeziumSettings
from walrelay.errors import Fatal
from walrelay.route.debezium import Placement

_ROUTER = "io.debezium.transforms.outbox.EventRouter"
_OPTIONS = {field.alias: field.annotation for field in DebeziumSettings.model_fields.values() if field.alias}
_MODES = ("decimal", "binary", "interval", "hstore")
_OF_CONNECTOR = (*(f"{each}.handling.mode" for each in _MODES), "time.precision.mode", "money.fraction.digits")
_SECRET = re.compile(r"password|secret|jaas|token|credential|\.key$", re.IGNORECASE)
_SERVER_FORMATS = {"simplestring": "string", "binary": "bytes"}
_CONVERTERS = {"StringConverter": "string", "SimpleHeaderConverter": "simple", "ByteArrayConverter": "bytes"}
_SAME_IN_LIBRDKAFKA = {
    "linger.ms",
    "batch.size",
    "compression.type",
    "client.id",
    "security.protocol",
    "sasl.mechanism",
}
_USED = {
    "connector.class",
    "database.hostname",
    "database.port",
    "database.user",
    "database.password",
    "database.dbname",
    "slot.name",
    "publication.name",
    "table.include.list",
    "topic.prefix",
    "extended.headers.enabled",
    "transforms",
    "name",
}
_WHY = {
    "table.op.invalid.behavior": "updates and deletes are not events, and nothing is said of them",
    "table.field.additional.missing": "a column that is missing is refused at the start",
    "table.fields.additional.error.on.missing": "a column that is missing is refused at the start",
    "tracing.": "there is no tracing; a column with the trace can be placed as a header",
    "offset.": "`walrelay migrate offset` takes over what is stored there (see below)",
    "snapshot.": "what is committed from the slot's position on is published; `walrelay init --backfill` adds rows",
    "heartbeat.": "not needed: an idle relay confirms what other tables write",
    "poll.interval.ms": "not needed: events are read as they come",
    "max.": "the sink's own limits count: sink.max_queued_messages",
    "tombstones.on.delete": "deletes are not events",
    "skipped.operations": "only inserts are events",
    "publication.autocreate.mode": "`walrelay init` makes what is missing",
    "slot.drop.on.stop": "the slot stays until `walrelay drop`",
    "include.unknown.datatypes": "a column whose type is unknown is refused at the start",
    "converters": "custom converters are not applied: compare the values of their columns",
    "datatype.propagate.source.type": "schemas do not name the table's types",
    "column.propagate.source.type": "schemas do not name the table's types",
    "column.": "columns are published as they are in the table: compare their values",
    "message.key.columns": "the key is that of table.field.event.key",
    "schema.name.adjustment.mode": "names are as with none, the default",
    "field.name.adjustment.mode": "names are as with none, the default",
    "unavailable.value.placeholder": "an inserted row has all its values",
    "provide.transaction.metadata": "there is no topic of transactions",
    "signal.": "there are no signals; `walrelay replay` publishes rows again",
    "notification.": "there are none; logs and metrics say it",
    "table.json.payload.empty.array.behavior": "empty lists are left out, as with ignore, the default",
    "tasks.max": "a relay reads one slot",
    "quarkus.": "of Debezium Server itself",
    "sink.type": "walrelay's sink here is Kafka",
    "producer.acks": "acks=all is what makes a message durable",
    "producer.enable.idempotence": "it is always on",
    "producer.key.serializer": "not needed",
    "producer.value.serializer": "not needed",
}


class Migration(NamedTuple):
    """Settings as a file has them. `left`: each key that has no counterpart, and why. `unset`: environment variables
    that the settings name, and what belongs into each, without secrets.
    """

    settings: dict[str, Any]
    left: list[tuple[str, str]]
    unset: list[tuple[str, str]]


def migrated(text: str, name: str) -> Migration:
    """The settings that publish the same. Fatal for what is no such file, or has no Outbox Event Router."""
    given = _read(text, name)
    is_server = any(key.startswith("debezium.") for key in given)
    flat = {key.removeprefix("debezium.").removeprefix("source."): value for key, value in given.items()}
    chain = [each.strip() for each in flat.get("transforms", "").split(",") if each.strip()]
    router = next((each for each in chain if flat.get(f"transforms.{each}.type") == _ROUTER), None)
    if router is None:
        raise Fatal(
            f"{name} has no transformation of type {_ROUTER}",
            hint="Give the application.properties of Debezium Server, or the JSON of the connector.",
        )
    found = Migration({}, [], [])
    before = f"transforms.{router}."
    options = {key.removeprefix(before): value for key, value in flat.items() if key.startswith(before)}
    rest = {key: value for key, value in flat.items() if not key.startswith(before)}
    found.settings["source"] = {"dsn": "${DATABASE_URL}", **_slot(rest, found)}
    found.settings["outbox"] = {"table": _table(rest, found)}
    found.settings["debezium"] = {**_router(options, rest, found), **_converters(rest, found, is_server=is_server)}
    found.settings["sink"] = _sink(rest, found, is_server=is_server)
    user, host = rest.get("database.user", "postgres"), rest.get("database.hostname", "localhost")
    where = f"postgresql://{user}@{host}:{rest.get('database.port', '5432')}/{rest.get('database.dbname', user)}"
    found.unset.insert(0, ("DATABASE_URL", f"{where}, with the password"))
    found.left.extend(_others(rest, chain, router))
    return found


def printed(found: Migration, name: str) -> str:
    """As a settings file, with what has no counterpart in comments."""
    lines = [f"# Made from {name} by walrelay migrate debezium."]
    lines += ["#", "# Set these environment variables:"]
    lines += [f"#   {variable}: {what}" for variable, what in found.unset]
    if found.left:
        lines += ["#", "# Has no counterpart here:"]
        lines += [f"#   {key}: {why}" for key, why in found.left]
    lines += ["#", *(f"# {line}" for line in _SWITCH)]
    return "\n".join(lines) + "\n\n" + yaml.safe_dump(found.settings, sort_keys=False, width=1000)


_SWITCH = (
    "The switch: stop Debezium in good order (SIGTERM, or stop the connector), wait until it has ended, then run",
    "walrelay init, walrelay doctor, walrelay migrate offset FILE (with the offset that Debezium stored) and walrelay",
    "run. Nothing is lost; what Debezium published after it stored its offset is repeated, with the same id.",
    "`walrelay docs from-debezium` says how to avoid that too.",
)


def _read(text: str, name: str) -> dict[str, str]:
    if text.lstrip().startswith("{"):
        try:
            members = json.loads(text)
        except (ValueError, RecursionError) as error:
            raise Fatal(f"{name} is not JSON: {error}") from None
        config = members.get("config", members)
        outer = {"name": members["name"]} if "config" in members and "name" in members else {}
        if not isinstance(config, dict):
            raise Fatal(f"{name}: `config` is not an object")
        texts = {key: value if isinstance(value, str) else json.dumps(value) for key, value in config.items()}
        return outer | texts
    return dict(_properties(text))


def _properties(text: str) -> Iterator[tuple[str, str]]:
    """Java's format, as people write it: comments, `=` or `:`, lines that go on after a backslash, escapes."""
    joined = re.sub(r"(?<!\\)((?:\\\\)*)\\\r?\n[ \t]*", r"\1", text)
    for line in map(str.strip, joined.splitlines()):
        if line and line[0] not in "#!":
            key, value = [*re.split(r"(?<!\\)\s*[=:]\s*", line, maxsplit=1), ""][:2]
            yield _unescaped(key), _unescaped(value)


def _unescaped(text: str) -> str:
    return re.sub(r"\\(u[0-9a-fA-F]{4}|.)", lambda match: _character(match[1]), text)


def _character(escaped: str) -> str:
    return chr(int(escaped[1:], 16)) if len(escaped) > 1 else {"t": "\t", "n": "\n", "r": "\r"}.get(escaped, escaped)


def _slot(rest: dict[str, str], found: Migration) -> dict[str, str]:
    plugin = rest.get("plugin.name", "decoderbufs")
    if plugin != "pgoutput":
        found.left.append(
            (
                "plugin.name",
                f"a slot of {plugin} cannot be read: let `walrelay init` make another, with a name of its own",
            )
        )
    return {"slot": rest.get("slot.name", "debezium"), "publication": rest.get("publication.name", "dbz_publication")}


def _table(rest: dict[str, str], found: Migration) -> str:
    """A list of regular expressions, of which mostly one is the name of a table."""
    tables = [
        each.strip().replace("\\.", ".") for each in rest.get("table.include.list", "").split(",") if each.strip()
    ]
    if len(tables) != 1 or not re.fullmatch(r"[\w.\" ]+", tables[0]):
        said = rest.get("table.include.list", "(not set)")
        found.left.append(("table.include.list", f"{said} is not one table: correct outbox.table below"))
    return tables[0] if tables and re.fullmatch(r"[\w.\" ]+", tables[0]) else "public.outbox"


def _router(options: dict[str, str], rest: dict[str, str], found: Migration) -> dict[str, Any]:
    made: dict[str, Any] = {"topic.prefix": _literal(rest["topic.prefix"])} if rest.get("topic.prefix") else {}
    if rest.get("extended.headers.enabled") == "false":
        made["extended.headers.enabled"] = False
    made.update(_modes(rest, found))
    for key, value in options.items():
        if key == "table.fields.additional.placement":
            made[key] = ", ".join(_placements(value, found))
        elif key in _OPTIONS:
            made[key] = value == "true" if _OPTIONS[key] is bool else _literal(value)
        elif key != "type":
            found.left.append((key, _why(key) or "walrelay does not know this option of the router"))
    return made


def _modes(rest: dict[str, str], found: Migration) -> Iterator[tuple[str, Any]]:
    """How the connector reads values; case does not matter to it."""
    for key in _OF_CONNECTOR:
        value, allowed = rest.get(key, "").strip().lower(), get_args(_OPTIONS[key])
        if value in allowed:
            yield key, value
        elif not allowed and value.isdecimal():
            yield key, int(value)
        elif key in rest:
            found.left.append((key, f"{rest[key]} is not known here: the default is assumed, compare the values"))


def _placements(text: str, found: Migration) -> Iterator[str]:
    for each in filter(None, map(str.strip, text.split(","))):
        try:
            Placement.parse(each)
            yield each
        except ValueError as error:
            found.left.append(("table.fields.additional.placement", str(error)))


def _converters(rest: dict[str, str], found: Migration, *, is_server: bool) -> dict[str, str]:
    made = dict[str, str]()
    for part in ("key", "value", "header"):
        if is_server:
            written = rest.get(f"format.{part}", "json")
            schemas = rest.get(f"format.{part}.schemas.enable", rest.get("format.schemas.enable", "true"))
            name = _SERVER_FORMATS.get(written) or ("json" if written == "json" else None)
        else:
            default = "SimpleHeaderConverter" if part == "header" else "(the worker's)"
            written = rest.get(f"{part}.converter", default).rpartition(".")[2]
            schemas = rest.get(f"{part}.converter.schemas.enable", "true")
            name = _CONVERTERS.get(written) or ("json" if written == "JsonConverter" else None)
        if name == "json" and schemas == "true":
            name = "json_with_schemas"
        if name is None:
            why = f"{written} cannot be imitated or is not known: string is assumed, correct it below"
            found.left.append((f"{part}.converter", why))
        made[f"{part}.converter"] = name or ("simple" if part == "header" else "string")
    return made


def _sink(rest: dict[str, str], found: Migration, *, is_server: bool) -> dict[str, Any]:
    before = "sink.kafka.producer." if is_server else "producer.override."
    producer = {key.removeprefix(before): value for key, value in rest.items() if key.startswith(before)}
    servers = producer.pop("bootstrap.servers", None)
    if servers is None:
        found.unset.append(("KAFKA_BOOTSTRAP_SERVERS", "the brokers of the Connect worker, as host:port,host:port"))
    made: dict[str, Any] = {"kind": "kafka", "bootstrap_servers": servers or "${KAFKA_BOOTSTRAP_SERVERS}"}
    options = {key: _literal(value) for key, value in producer.items() if key in _SAME_IN_LIBRDKAFKA}
    if "sasl.jaas.config" in producer:
        options |= {"sasl.username": "${KAFKA_USERNAME}", "sasl.password": "${KAFKA_PASSWORD}"}
        found.unset.extend([("KAFKA_USERNAME", "of sasl.jaas.config"), ("KAFKA_PASSWORD", "of sasl.jaas.config")])
    for key in producer.keys() - _SAME_IN_LIBRDKAFKA - {"sasl.jaas.config"}:
        why = _why(f"producer.{key}") or "librdkafka's options may be called otherwise: see sink.options"
        found.left.append((f"producer.{key}", why))
    return made | ({"options": options} if options else {})


def _others(rest: dict[str, str], chain: list[str], router: str) -> Iterator[tuple[str, str]]:
    for key in sorted(rest):
        if key.startswith(("sink.kafka.producer.", "producer.override.", "format.", "transforms.")) or key in (
            *_USED,
            *_OF_CONNECTOR,
        ):
            continue
        if key != "plugin.name" and not re.match(r"(key|value|header)\.converter", key):
            yield key, _why(key) or "no counterpart; is it of importance to you?"
    for each in chain:
        if each != router:
            yield (
                f"transforms.{each}",
                "other transformations are not applied: routing rules cannot stand beside `debezium`",
            )


def _why(key: str) -> str:
    return next((why for beginning, why in _WHY.items() if key.startswith(beginning)), "")


def _literal(text: str) -> str:
    """`${` begins a reference in walrelay's settings."""
    return text.replace("${", "$${")
