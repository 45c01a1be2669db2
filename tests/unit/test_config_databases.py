"""A settings file with a relay for each database: what `{database}` stands in, and errors that name the database."""

import pytest
from pydantic import SecretStr

from tests.unit.test_config_relays import problems, read
from walrelay.config import reading
from walrelay.config.document import read as document
from walrelay.errors import Retryable, SettingsError

FILE = """\
databases:
  acme: postgresql://acme-db/shop
  globex: postgresql://relay:secret@${HOST}/{database}
defaults:
  source: {publication: events}
  outbox: {columns: {tenant_id: null}}
  route: {topic: "{database}.{aggregate_type}"}
  sink: {kind: memory}
"""
QUERY = FILE.replace(
    FILE[FILE.index("  acme") : FILE.index("defaults")],
    "  dsn: postgresql://walrelay:secret@127.0.0.1:1/catalog\n  query: SELECT name, dsn FROM public.tenants\n",
)


def looking(text: str) -> reading.Databases:
    return reading.Databases(document(text), "walrelay.yaml", {})


def test_each_database_has_a_relay_of_the_defaults_with_its_own_slot() -> None:
    relays = read(FILE, HOST="eu")
    assert list(relays) == ["acme", "globex"]
    assert [each.source.slot for each in relays.values()] == ["walrelay_acme", "walrelay_globex"]
    assert [each.source.publication for each in relays.values()] == ["events", "events"]
    dsns = [each.source.dsn.get_secret_value() for each in relays.values()]
    assert dsns == ["postgresql://acme-db/shop", "postgresql://relay:secret@eu/globex"]
    assert [each.route.topic for each in relays.values()] == ["acme.{aggregate_type}", "globex.{aggregate_type}"]


def test_the_name_stands_wherever_a_text_of_the_defaults_has_it() -> None:
    text = FILE.replace("source: {", "source: {slot: 'outbox_{database}_1', ").replace(
        "sink: {kind: memory}",
        "sink: {kind: kafka, bootstrap_servers: '${K_{database}}', options: {client.id: '{{database}} {database}'}}",
    )
    acme = read(text, "acme", K_acme="k:9092")["acme"]
    assert acme.source.slot == "outbox_acme_1"
    sink = acme.named_sinks[""].settings.model_dump()
    client = sink["options"]["client.id"].get_secret_value()
    assert (sink["bootstrap_servers"], client) == ("k:9092", "{{database}} acme")


@pytest.mark.parametrize(
    ("was", "now", "problem"),
    [
        (
            "  acme:",
            "  Acme:",
            "2: databases.Acme: 'walrelay_Acme' is no slot name: 1 to 63 of the characters a-z, 0-9",
        ),
        ("  acme:", "  a b:", "2: databases.a b: is no name of a relay: up to 63 letters, digits and any of _ . -"),
        ("postgresql://acme-db/shop", "[]", "2: databases.acme: must be text: the database's DSN"),
        ("postgresql://acme-db/shop", "mysql://x", "2: databases.acme: is not a libpq connection string; write"),
        ("source: {", "source: {dsn: host=x, ", "5: defaults.source.dsn: each database has its own, under `databases`"),
        ("source: {", "source: {slot: mine, ", "5: defaults.source.slot: each database needs a slot of its own, as"),
        ("sink: {kind: memory}", "sink: {kind: stdout}", "8: defaults.sink.kind: relay 'acme' has standard output too"),
        ("publication:", "publcation:", "5: defaults.source: unknown key 'publcation'; did you mean 'publication'?"),
        (
            "defaults:",
            "relays: {}\ndefaults:",
            "4: 'relays' stands beside `databases`: each database has a relay of the",
        ),
    ],
)
def test_what_is_wrong_is_told_once_with_its_line_and_the_database(was: str, now: str, problem: str) -> None:
    (found,) = problems(FILE.replace(was, now), HOST="eu")
    assert found.startswith(problem)


def test_without_databases_or_defaults_there_is_no_relay() -> None:
    assert problems("databases: {}\ndefaults: {}\n") == [
        "1: `databases` must be a mapping: names with their DSNs, or dsn and query"
    ]
    assert problems("databases: {a: host=db}\n") == [
        "1: `defaults` must be a mapping: what the relay of each database has"
    ]


def test_what_is_wrong_with_the_query_itself_is_told_before_anything_is_asked() -> None:
    assert problems(QUERY.replace("dsn:", "dns:")) == [
        "1: databases: 'dsn' is missing: The database in which the query is asked. A secret.",
        "2: databases: unknown key 'dns'; did you mean 'dsn'?",
    ]
    (found,) = problems(QUERY.replace("postgresql://walrelay:secret@127.0.0.1:1/catalog", "secret"))
    assert found.startswith("2: databases.dsn: is not a libpq connection string")
    (found,) = problems(QUERY.replace("  query:", "  look_interval: 0\n  query:"))
    assert found == "3: databases.look_interval: 0 should be greater than 0 seconds"


def test_a_catalog_that_is_away_is_named_without_its_password() -> None:
    with pytest.raises(Retryable) as caught:
        read(QUERY)
    assert str(caught.value).startswith("the query of `databases` failed: no connection to PostgreSQL at 127.0.0.1:1/")
    assert "secret" not in f"{caught.value} {caught.value.hint}"


def test_a_dsn_that_was_found_is_taken_as_it_is() -> None:
    """It is data: what looks like a reference in it is part of a password."""
    dsn = SecretStr("host=db password=${HOME}{database}")
    assert looking(QUERY).settings("acme", dsn).source.dsn == dsn


def test_what_is_wrong_with_a_database_that_was_found_has_its_name_and_shows_no_password() -> None:
    with pytest.raises(SettingsError) as caught:
        looking(QUERY).settings("acme", SecretStr("mysql://secret"))
    assert str(caught.value).startswith("walrelay.yaml:1: databases.acme: is not a libpq connection string")
    assert "secret" not in str(caught.value)


def test_a_database_that_is_found_later_may_share_nothing_with_the_others() -> None:
    databases = looking(QUERY.replace("memory", "stdout"))
    databases.settings("acme", SecretStr("host=a"))
    databases.settings("acme", SecretStr("host=b"))  # its DSN is another now
    with pytest.raises(SettingsError, match="relay 'acme' has standard output too"):
        databases.settings("globex", SecretStr("host=a"))


def test_the_log_is_known_before_a_database_is_found() -> None:
    log = looking(f"{QUERY}  log: {{format: json, level: '${{LEVEL:-warning}}'}}\n").log
    assert (log.format, log.level) == ("json", "warning")
    assert looking(QUERY).log.level == "info"
    with pytest.raises(SettingsError) as caught:
        looking(f"{QUERY}  log: {{level: loud}}\n")
    assert str(caught.value) == "walrelay.yaml:9: defaults.log.level: 'loud' is not one of debug, info, warning, error"
