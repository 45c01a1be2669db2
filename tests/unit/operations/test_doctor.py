"""The doctor's pure parts: settings taken apart, refusals understood, fixes written."""

from typing import cast

import pytest

from walrelay.operations.doctor.expected import Expected
from walrelay.operations.doctor.replication import allowing
from walrelay.operations.doctor.server import Standbys, parse, upstream_fixes
from walrelay.postgres.catalog import Catalog
from walrelay.postgres.dsn import application_name, cure, refusal, without_password
from walrelay.postgres.sizes import size

DSN = "postgresql://relay:secret@db:5433/shop"


@pytest.mark.parametrize(
    ("libraries", "listed"),
    [
        ("pgoutput, test_decoding", "pgoutput, test_decoding, wal2json"),
        ('"pgoutput, test_decoding, wal2json"', "pgoutput, test_decoding, wal2json"),
        ('""', "wal2json"),
        ("", "wal2json"),
        ('pgoutput, "My Plugin"', 'pgoutput, "My Plugin", wal2json'),
    ],
)
def test_the_fix_adds_the_plugin_to_the_list_as_separate_names(libraries: str, listed: str) -> None:
    fix = f"ALTER SYSTEM SET output_plugin_libraries = {listed}; SELECT pg_reload_conf();"
    assert allowing(libraries, "wal2json") == fix


class Version:
    """A catalog of which only the version is asked."""

    def __init__(self, number: int) -> None:
        self.server_version = number


@pytest.mark.parametrize(
    ("number", "warned"),
    [(140018, True), (140019, False), (150013, True), (160009, True), (170005, True), (170006, False), (180000, False)],
)
def test_a_minor_version_that_may_lose_rows_around_alter_publication_is_warned_of(number: int, warned: bool) -> None:
    expected = Expected(DSN, "orders", "outbox", "pgoutput", "public", "outbox", {})
    found = list(upstream_fixes(cast(Catalog, Version(number)), expected))
    assert [finding.verdict for finding in found] == ["warning"] * warned


@pytest.mark.parametrize("libraries", ["wal2json", "pgoutput,wal2json", 'pgoutput, "wal2json"'])
def test_a_plugin_in_the_list_needs_no_fix(libraries: str) -> None:
    assert allowing(libraries, "wal2json") == ""


@pytest.mark.parametrize(
    ("setting", "standbys"),
    [
        ("", Standbys(False, 1, [])),
        ("*", Standbys(False, 1, ["*"])),
        ("s1, s2", Standbys(False, 1, ["s1", "s2"])),
        ("2 (s1, s2, s3)", Standbys(False, 2, ["s1", "s2", "s3"])),
        ('FIRST 1 (s1, "My ""Standby""")', Standbys(False, 1, ["s1", 'My "Standby"'])),
        ("any 2 (s1, *)", Standbys(True, 2, ["s1", "*"])),
    ],
)
def test_synchronous_standby_names_in_all_its_forms(setting: str, standbys: Standbys) -> None:
    assert parse(setting) == standbys


@pytest.mark.parametrize(
    ("setting", "place"),
    [("", None), ("s1, s2", None), ("*", 0), ("s1, WalRelay", 1), ("ANY 1 (s1, s2, *)", 2)],
)
def test_where_walrelay_stands_among_the_standbys(setting: str, place: int | None) -> None:
    assert parse(setting).place("walrelay") == place


def test_the_walsender_is_called_as_the_dsn_says() -> None:
    assert application_name(DSN) == "walrelay"
    assert application_name(DSN + "?application_name=outbox") == "outbox"


@pytest.mark.parametrize(
    ("text", "fix"),
    [
        (
            'FATAL:  no pg_hba.conf entry for host "fe80::1", user "relay", database "shop", no encryption',
            'host "shop" "relay" fe80::1/128 scram-sha-256   # into pg_hba.conf; then SELECT pg_reload_conf();',
        ),
        (
            'FATAL:  no pg_hba.conf entry for host "[local]", user "relay", database "shop", no encryption',
            'local "shop" "relay" scram-sha-256   # into pg_hba.conf; then SELECT pg_reload_conf();',
        ),
        ('FATAL:  role "relay" is not permitted to log in', 'ALTER ROLE "relay" LOGIN;'),
        ('FATAL:  permission denied for database "shop"', 'GRANT CONNECT ON DATABASE "shop" TO "relay";'),
        (
            "FATAL:  number of requested standby connections exceeds max_wal_senders (currently 10)",
            "ALTER SYSTEM SET max_wal_senders = 20;  -- then restart PostgreSQL",
        ),
        (
            'FATAL:  number of requested standby connections exceeds "max_wal_senders" (currently 10)',
            "ALTER SYSTEM SET max_wal_senders = 20;  -- then restart PostgreSQL",
        ),
        (
            "FATAL:  sorry, too many clients already",
            "SHOW max_connections;  -- ALTER SYSTEM SET it to more, then restart PostgreSQL",
        ),
        (
            "channel binding required, but server authenticated client without channel binding",
            "source.dsn: user=relay dbname=shop host=db port=5433 channel_binding=prefer"
            "   # or TLS, and scram-sha-256 in pg_hba.conf",
        ),
        (
            'authentication method requirement "scram-sha-256" failed: server did not complete authentication',
            "source.dsn: user=relay dbname=shop host=db port=5433   # or that method in pg_hba.conf",
        ),
        (
            "session is not read-only",
            "source.dsn: user=relay dbname=shop host=db port=5433 target_session_attrs=primary"
            "   # a relay reads the primary",
        ),
        (
            "session is read-only",
            "source.dsn: user=relay dbname=shop host=db port=5433 target_session_attrs=primary",
        ),
        (
            "server is in hot standby mode",
            "source.dsn: user=relay dbname=shop host=the.primary port=5433   # this server is a standby",
        ),
        (
            "could not translate host name",
            'pg_isready --dbname="host=db port=5433"  # no answer: start PostgreSQL, or correct source.dsn',
        ),
    ],
)
def test_each_refusal_of_a_connection_has_its_fix(text: str, fix: str) -> None:
    assert cure(text, DSN).fix == fix


def test_a_refusal_does_not_say_twice_where() -> None:
    text = 'no connection to PostgreSQL at db:5433/shop: connection to server at "db", port 5433 failed: FATAL:  no'
    assert refusal(text) == "no connection to PostgreSQL at db:5433/shop: no"


def test_a_dsn_in_a_fix_has_no_password() -> None:
    assert without_password(DSN, host="10.0.0.5") == "user=relay dbname=shop host=10.0.0.5 port=5433"


def test_commands_name_the_settings_file_unless_it_is_the_default_one() -> None:
    expected = Expected(DSN, "walrelay", "walrelay", "pgoutput", "public", "outbox", {})
    assert expected.walrelay("init") == "walrelay init"
    assert expected._replace(arguments=" -c 'my relay.yaml'").walrelay("init") == "walrelay init -c 'my relay.yaml'"


@pytest.mark.parametrize(
    ("count", "text"), [(0, "0 bytes"), (1023, "1023 bytes"), (1536, "1.5 kB"), (10 * 2**30, "10.0 GB")]
)
def test_sizes_are_told_in_the_units_of_postgresql(count: int, text: str) -> None:
    assert size(count) == text


def test_a_dsn_without_tls_asks_for_nothing_that_needs_it() -> None:
    fix = cure("server does not support SSL, but SSL was required", f"{DSN}?sslmode=verify-full&sslrootcert=system").fix
    assert fix.endswith("or source.dsn: user=relay dbname=shop host=db port=5433 sslmode=disable")
