"""The settings file is read as a whole: defaults, references, secrets, and every problem at once with its line."""

import traceback
from importlib.metadata import EntryPoint
from pathlib import Path
from typing import Literal

import pytest
from pydantic import BaseModel, ConfigDict, Field, SecretStr, ValidationError

from walrelay.config import Settings, load, parse
from walrelay.errors import SettingsError
from walrelay.publish import SinkPlugin, plugins
from walrelay.sinks.memory import MemorySink

SOURCE = "source:\n  dsn: postgresql://localhost/shop\n"
SINK = "sink:\n  kind: broker\n  address: localhost:1\n"


class Login(BaseModel):
    model_config = ConfigDict(extra="forbid")
    password: SecretStr
    secure: bool = True


class BrokerSettings(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")
    address: str
    window: int = Field(10, ge=1, json_schema_extra={"unit": "messages"})
    mode: Literal["fast", "safe"] = "safe"
    login: Login | None = None
    logins: list[Login] = []
    options: dict[str, bool | int | str | SecretStr] = {}


class Installed(EntryPoint):
    """An entry point that needs no installed package."""

    def load(self) -> object:
        if self.name == "broken":
            raise ModuleNotFoundError("No module named 'broken_client'")
        return SinkPlugin(
            BrokerSettings, open=lambda settings, memory: MemorySink(), examine=lambda settings, topics: []
        )


@pytest.fixture(autouse=True)
def sinks(monkeypatch: pytest.MonkeyPatch) -> None:
    """`broker` and `broken` are the sinks that are installed."""
    points = {kind: Installed(kind, "tests:none", plugins.GROUP) for kind in ("broker", "broken")}
    monkeypatch.setattr(plugins, "entry_points_by_kind", lambda: points)


def read(text: str, **env: str) -> Settings:
    return parse(text, "walrelay.yaml", env)


def problems(text: str, **env: str) -> list[str]:
    with pytest.raises(SettingsError) as caught:
        read(text, **env)
    return str(caught.value).splitlines()


def broker(settings: Settings) -> BrokerSettings:
    assert isinstance(settings.named_sinks[""].settings, BrokerSettings)
    return settings.named_sinks[""].settings


def test_a_dsn_and_a_sink_are_all_that_must_be_said() -> None:
    settings = read(SOURCE + SINK)
    assert settings.source.dsn.get_secret_value() == "postgresql://localhost/shop"
    assert settings.source.model_dump(exclude={"dsn"}) == {
        "slot": "walrelay",
        "publication": "walrelay",
        "plugin": "pgoutput",
        "binary": True,
        "wal2json_format": 2,
        "failover": False,
        "confirm_interval": 0.1,
        "pause_limit": 30,
        "receive_timeout": 60,
        "publication_check_interval": 2,
    }
    assert settings.route.topic == "outbox.event.{aggregate_type}"
    assert settings.retry.model_dump() == {"min_pause": 0.2, "max_pause": 30}
    assert settings.shutdown_timeout == 25
    assert settings.log.model_dump() == {"format": "auto", "level": "info"}
    assert settings.events.model_dump() == {"keep": 1_000, "payloads": False, "redact": {}}


def test_settings_cannot_be_changed() -> None:
    settings = read(SOURCE + SINK)
    with pytest.raises(ValidationError, match="frozen"):
        settings.source.slot = "other"


def test_every_problem_is_reported_at_once_with_its_line() -> None:
    text = """\
source:
  slot: My Slot
  slt: walrelay
  plugin: pgoutptu
  binary: maybe
  wal2json_format: 3
  confirm_interval: 100ms
  pause_limit: -1

outbox:
  columns: {id: null, payload: 3}
  messages: all
sink:
  kind: broker
  window: 1.5
retry:
  min_pause: 50
log:
  level: off
colour: red
"""
    assert problems(text) == [
        "walrelay.yaml:1: source: 'dsn' is missing: The database, as a libpq URL or keyword string. The role needs"
        " REPLICATION. A secret: take it from `${DATABASE_URL}` or `file:/run/secrets/dsn`.",
        "walrelay.yaml:2: source.slot: 'My Slot' is no slot name: 1 to 63 of the characters a-z, 0-9 and _",
        "walrelay.yaml:3: source: unknown key 'slt'; did you mean 'slot'?",
        "walrelay.yaml:4: source.plugin: 'pgoutptu' is not one of pgoutput, wal2json",
        "walrelay.yaml:5: source.binary: 'maybe' is not true or false",
        "walrelay.yaml:6: source.wal2json_format: 3 is not one of 1, 2",
        "walrelay.yaml:7: source.confirm_interval: '100ms' is not a number of seconds",
        "walrelay.yaml:8: source.pause_limit: -1 should be greater than 0 seconds",
        "walrelay.yaml:11: outbox.columns.id: has no value",
        "walrelay.yaml:11: outbox.columns.payload: must be text; put it in quotes",
        "walrelay.yaml:12: outbox.messages: must be a mapping: `key: value` lines, indented below it;"
        " to have the defaults, leave it out",
        "walrelay.yaml:13: sink: 'address' is missing",
        "walrelay.yaml:15: sink.window: 1.5 is not a whole number of messages",
        "walrelay.yaml:17: retry.min_pause: 50 is above max_pause (30)",
        "walrelay.yaml:19: log.level: false is not one of debug, info, warning, error",
        "walrelay.yaml:20: unknown key 'colour'; known are source, outbox, route, routes, schema_registry, debezium,"
        " sink, sinks, refusals, delivery, position, retention, retry, shutdown_timeout, events, log, http,"
        " metrics, health, otlp, admin",
    ]


def test_an_empty_file_lacks_a_source_and_a_sink() -> None:
    assert problems("# nothing yet\n") == [
        "walrelay.yaml:1: 'source' is missing:"
        " Where the write-ahead log is read: one replication slot of one database.",
        "walrelay.yaml:1: 'sink' is missing: The broker: `kind`, and beside it the settings of that kind of sink.",
    ]


def test_a_repeated_key_is_a_problem_and_hides_no_other() -> None:
    assert problems(SOURCE + "  slot: a\n  slot: b\n  failover: 7\n" + SINK) == [
        "walrelay.yaml:4: source.slot: is already on line 3; keep one of the two",
        "walrelay.yaml:5: source.failover: 7 is not true or false",
    ]


def test_a_repeated_section_is_a_problem() -> None:
    assert problems(SOURCE + SINK + "source: {}\n") == [
        "walrelay.yaml:6: source: is already on line 1; keep one of the two"
    ]


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("a: 1\n\tb: 2\n", "2: YAML: while scanning for the next token: found character '\\t' that cannot start"),
        ("a: 1\n---\nb: 2\n", "2: YAML: expected a single document in the stream (from line 1): but found another"),
        ("a: &x 1\nb: *x\n", "2: YAML: aliases are not allowed, write it out"),
        ("\n\na: \x01\n", "3: YAML: special characters are not allowed"),
        ("source:\n  {dsn: ${URL}}\n", "2: YAML: while parsing a flow mapping (from line 2): expected"),
    ],
)
def test_what_is_not_yaml_is_the_only_problem(text: str, problem: str) -> None:
    found = problems(text)
    assert len(found) == 1
    assert found[0].startswith(f"walrelay.yaml:{problem}")


def test_a_reference_within_braces_is_told_to_go_in_quotes() -> None:
    assert problems("source: {dsn: ${URL}}")[0].endswith("within {} and [] a ${NAME} goes in quotes")
    assert read('source: {dsn: "${URL}"}\n' + SINK, URL="host=db").source.dsn.get_secret_value() == "host=db"


def test_a_yaml_tag_is_refused_rather_than_ignored() -> None:
    assert problems(SOURCE + "  slot: !include slot.txt\n" + SINK) == [
        "walrelay.yaml:3: source.slot: the YAML tag !include is not supported; remove it"
    ]


def test_what_yaml_would_read_as_a_date_stays_text() -> None:
    assert read(SOURCE + "  publication: 2026-01-31\n" + SINK).source.publication == "2026-01-31"


def test_a_section_that_is_no_mapping_says_what_it_should_be() -> None:
    mapping = "must be a mapping: `key: value` lines, indented below it; to have the defaults, leave it out"
    assert problems(SOURCE + SINK + "retry:\n") == [f"walrelay.yaml:6: retry: {mapping}"]
    assert problems(SOURCE + "sink: broker\n") == [f"walrelay.yaml:3: sink: {mapping}"]
    assert problems("- source\n") == ["walrelay.yaml:1: must be a mapping: `key: value` lines"]


def test_references_are_replaced_from_the_environment_whatever_the_type() -> None:
    text = SOURCE + "  slot: relay_${N}_x\n  wal2json_format: ${N}\n  failover: ${ON}\n  pause_limit: ${WAIT:-7.5}\n"
    source = read(text + SINK, N="1", ON="true").source
    assert (source.slot, source.wal2json_format, source.failover, source.pause_limit) == ("relay_1_x", 1, True, 7.5)


@pytest.mark.parametrize(("env", "slot"), [({}, "spare"), ({"SLOT": ""}, "spare"), ({"SLOT": "mine"}, "mine")])
def test_a_default_stands_in_for_a_variable_that_is_unset_or_empty(env: dict[str, str], slot: str) -> None:
    assert read(SOURCE + "  slot: ${SLOT:-spare}\n" + SINK, **env).source.slot == slot


def test_a_variable_that_looks_like_a_number_stays_the_text_it_is() -> None:
    assert read(SOURCE + "  slot: ${SLOT}\n" + SINK, SLOT="0123").source.slot == "0123"


def test_an_unset_variable_is_one_problem_and_its_place_no_second_one() -> None:
    assert problems("source:\n  dsn: ${DATABASE_URL}\n  binary: 7\n" + SINK) == [
        "walrelay.yaml:2: source.dsn: the environment variable DATABASE_URL is not set: set it,"
        " or write ${DATABASE_URL:-default}",
        "walrelay.yaml:3: source.binary: 7 is not true or false",
    ]


@pytest.mark.parametrize("text", ["${", "${A", "${}", "${a-b}", "${A:-${B}}", "${A:?no}"])
def test_a_malformed_reference_is_a_problem_rather_than_text(text: str) -> None:
    assert problems(SOURCE + f"  publication: '{text}'\n" + SINK, A="x", B="y") == [
        "walrelay.yaml:3: source.publication: '${' must be followed by NAME} or NAME:-default};"
        " a literal '${' is written '$${'"
    ]


def test_a_doubled_dollar_makes_a_literal_reference() -> None:
    assert read(SOURCE + "  publication: $${A}$$B$\n" + SINK, A="x").source.publication == "${A}$$B$"


def test_a_reference_in_a_comment_is_nobodys_business() -> None:
    assert read(SOURCE + "  # slot: ${NOT_SET}\n" + SINK).source.slot == "walrelay"


def test_a_secret_is_read_from_the_file_that_it_names(tmp_path: Path) -> None:
    secret = tmp_path / "dsn"
    secret.write_text("host=db password=' x '\n")
    settings = read("source:\n  dsn: file:${DIRECTORY}/dsn\n" + SINK, DIRECTORY=str(tmp_path))
    assert settings.source.dsn.get_secret_value() == "host=db password=' x '"


def test_a_variable_may_name_the_file_of_a_secret(tmp_path: Path) -> None:
    secret = tmp_path / "dsn"
    secret.write_text("host=db")
    settings = read("source:\n  dsn: ${DSN}\n" + SINK, DSN=f"file:{secret}")
    assert settings.source.dsn == SecretStr("host=db")


def test_secrets_of_a_sink_are_read_wherever_its_model_has_them(tmp_path: Path) -> None:
    secret = tmp_path / "password"
    secret.write_text("hunter2\n")
    text = (
        f"  login: {{password: 'file:{secret}'}}\n"
        f"  logins: [{{password: 'file:{secret}'}}]\n"
        f"  options: {{sasl.password: 'file:{secret}', retries: 3}}\n"
    )
    settings = broker(read(SOURCE + SINK + text))
    assert settings.login is not None
    assert settings.login.password == settings.logins[0].password == SecretStr("hunter2")
    assert settings.options == {"sasl.password": SecretStr("hunter2"), "retries": 3}


def test_only_secrets_are_read_from_files(tmp_path: Path) -> None:
    (tmp_path / "topic").write_text("read")
    text = f"route: {{topic: 'file:{tmp_path}/topic'}}\n"
    assert read(SOURCE + SINK + text).route.topic == f"file:{tmp_path}/topic"


def test_a_secret_file_that_cannot_be_used_says_why(tmp_path: Path) -> None:
    (tmp_path / "empty").write_text("\n")
    (tmp_path / "binary").write_bytes(b"\xff\xfe")

    def problem(path: object) -> str:
        return problems(f"source:\n  dsn: file:{path}\n" + SINK)[0].removeprefix("walrelay.yaml:2: source.dsn: ")

    assert problem(tmp_path / "none") == f"cannot read {tmp_path}/none: No such file or directory"
    assert problem(tmp_path / "empty") == f"{tmp_path}/empty is empty"
    assert problem(tmp_path / "binary") == f"{tmp_path}/binary is not UTF-8 text"
    assert problem("dsn") == "'file:dsn' needs an absolute path, as in file:/run/secrets/name"


def test_secrets_are_not_shown_by_settings() -> None:
    text = "source:\n  dsn: host=db password=hunter2\n" + SINK + "  options: {sasl.password: hunter2}\n"
    settings = read(text + "  login: {password: hunter2}\n")
    assert "hunter2" not in f"{settings} {settings!r} {settings.model_dump()} {settings.model_dump_json()}"


def test_secrets_are_not_shown_by_errors_even_with_their_tracebacks() -> None:
    text = (
        "source:\n  dsn: mysql://u:hunter2@db/shop\n  dns: host=db password=hunter2\n"
        + SINK
        + "  login: {password: hunter2, pasword: hunter2, secure: [hunter2]}\n"
        + "  options: {sasl.password: [hunter2]}\n"
    )
    with pytest.raises(SettingsError) as caught:
        read(text)
    shown = "".join(traceback.format_exception(caught.value))
    assert "walrelay.yaml:2: source.dsn: is not a libpq connection string" in shown
    assert "hunter2" not in shown + repr(caught.value) + caught.value.hint
    assert caught.value.__context__ is None


def test_a_sink_is_validated_by_its_plugin_and_keeps_the_plugins_model() -> None:
    settings = read(SOURCE + SINK + "  window: ${WINDOW}\n", WINDOW="3")
    assert settings.named_sinks[""].kind == "broker"
    assert settings.named_sinks[""].settings == BrokerSettings(address="localhost:1", window=3)


def test_a_sink_can_be_chosen_by_the_environment() -> None:
    text = SOURCE + "sink:\n  kind: ${SINK}\n  address: a\n  login: {password: x}\n"
    assert broker(read(text, SINK="broker")).login == Login(password=SecretStr("x"))


def test_an_unknown_kind_of_sink_lists_the_installed_ones() -> None:
    assert problems(SOURCE + "sink:\n  adress: a\n  kind: brokr\n") == [
        "walrelay.yaml:5: sink.kind: there is no sink of kind 'brokr'; installed are broken, broker"
    ]


def test_an_empty_kind_is_not_the_sink_that_throws_everything_away() -> None:
    assert problems(SOURCE + "sink:\n  kind: null\n  address: a\n") == [
        'walrelay.yaml:4: sink.kind: is empty; the sink that keeps nothing is written "null", in quotes'
    ]


def test_a_sink_without_a_kind_is_told_what_a_kind_is() -> None:
    assert problems(SOURCE + "sink:\n  address: a\n") == [
        "walrelay.yaml:3: sink: 'kind' is missing: Which sink: the name of an installed plug-in."
    ]


def test_a_sink_that_cannot_be_imported_is_a_problem_with_a_line() -> None:
    assert problems(SOURCE + "sink:\n  kind: broken\n") == [
        "walrelay.yaml:4: sink.kind: the sink 'broken' cannot be imported: No module named 'broken_client'"
    ]


def test_problems_of_a_sink_have_their_lines_however_deep() -> None:
    text = SOURCE + SINK + "  windw: 3\n  mode: slow\n  logins:\n    - {password: a}\n    - {secure: perhaps}\n"
    assert problems(text) == [
        "walrelay.yaml:6: sink: unknown key 'windw'; did you mean 'window'?",
        "walrelay.yaml:7: sink.mode: 'slow' is not one of fast, safe",
        "walrelay.yaml:10: sink.logins[1]: 'password' is missing",
        "walrelay.yaml:10: sink.logins[1].secure: 'perhaps' is not true or false",
    ]


def test_a_settings_key_of_its_own_is_no_back_door_to_a_sinks_settings() -> None:
    assert problems(SOURCE + SINK + "  settings: {window: 3}\n") == [
        "walrelay.yaml:6: sink: unknown key 'settings'; known are kind, address, window, mode, login, logins, options"
    ]


def test_load_reads_the_file_and_the_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "walrelay.yaml"
    path.write_text("\ufeffsource: {dsn: host=db}\n" + SINK + "log: {level: '${LEVEL}'}\n", encoding="utf-8")
    monkeypatch.setenv("LEVEL", "debug")
    assert load(path).log.level == "debug"


def test_a_missing_file_comes_with_the_command_that_makes_one() -> None:
    with pytest.raises(SettingsError, match=r"^walrelay\.yaml: no such file$") as caught:
        load(Path("walrelay.yaml"))
    assert caught.value.hint == "walrelay config example > walrelay.yaml"


def test_a_file_that_cannot_be_read_says_why(tmp_path: Path) -> None:
    (tmp_path / "latin.yaml").write_bytes("# Größe\n".encode("latin-1"))
    with pytest.raises(SettingsError, match="not UTF-8 text, from byte 4 on"):
        load(tmp_path / "latin.yaml")
    with pytest.raises(SettingsError, match="cannot be read: Is a directory"):
        load(tmp_path)


def test_nesting_without_end_is_one_problem_with_its_line() -> None:
    for opening in ("[", "{a: "):
        assert problems(SOURCE + SINK + "retry:\n  " + opening * 3000) == [
            "walrelay.yaml:7: YAML: lists and mappings are nested deeper than 32"
        ]


@pytest.mark.parametrize("setting", ["publication", "slot"])
def test_a_zero_byte_is_in_no_name(setting: str) -> None:
    assert problems(SOURCE + f'  {setting}: "a\\0b"\n' + SINK) == [
        f"walrelay.yaml:3: source.{setting}: contains a zero byte, which PostgreSQL allows in no name or text;"
        " remove it"
    ]


def test_no_text_and_no_key_has_what_is_not_utf_8(tmp_path: Path) -> None:
    halved = "has bytes in it that are not UTF-8, or half of a surrogate pair; write it in UTF-8"
    assert problems(SOURCE + SINK + "outbox: {table: ${NAME}}\n".replace("${NAME}", '"${NAME}"'), NAME="\udcff") == [
        f"walrelay.yaml:6: outbox.table: {halved}"
    ]
    assert problems(SOURCE + SINK + '  options: {"\\ud83d": 1}\n') == [f"walrelay.yaml:6: sink.options: a key {halved}"]
    secret = tmp_path / "dsn"
    secret.write_text("host=db password=s3cret\0")
    told = problems(f"source: {{dsn: 'file:{secret}'}}\n" + SINK)
    assert told[0].startswith("walrelay.yaml:1: source.dsn: contains a zero byte")
    assert "s3cret" not in told[0]


def test_an_emoji_as_json_writes_it_is_one_character() -> None:
    settings = read(SOURCE + SINK + 'outbox: {table: "\\"\\ud83d\\ude00\\""}\n')
    assert settings.outbox.decoding.table == "\N{GRINNING FACE}"


def test_a_list_or_mapping_in_place_of_a_value_is_one_problem() -> None:
    text = SOURCE + "  publication: [a]\n" + SINK + "  options: {a: [1], b: {c: 1}}\n"
    assert problems(text) == [
        "walrelay.yaml:3: source.publication: a list does not belong here: write one value",
        "walrelay.yaml:7: sink.options.a: a list does not belong here: write one value",
        "walrelay.yaml:7: sink.options.b: a mapping does not belong here: write one value",
    ]


def test_words_for_what_is_empty_endless_or_too_long() -> None:
    text = SOURCE + "  confirm_interval: .nan\n  wal2json_format: true\n" + SINK
    text += "retention: 100000000000d\noutbox: {messages: {prefix: ''}}\n"
    assert problems(text) == [
        "walrelay.yaml:3: source.confirm_interval: nan is not a finite number of seconds",
        "walrelay.yaml:4: source.wal2json_format: 'true' is not one of 1, 2",
        "walrelay.yaml:8: retention: '100000000000d' is longer than a century",
        "walrelay.yaml:9: outbox.messages.prefix: is empty",
    ]


def test_settings_that_do_not_fit_together_are_reported_where_one_of_them_stands() -> None:
    assert problems(SOURCE + SINK + "delivery: exactly_once\nposition:\n  keep: topic\n")[0] == (
        "walrelay.yaml:6: delivery: a sink of kind 'broker' cannot publish exactly once: leave it out, and let"
        " consumers know what comes again by the header id"
    )
    assert problems(SOURCE + SINK + "position:\n  keep: topic\n") == [
        "walrelay.yaml:7: position.keep: a sink of kind 'broker' has no topic for a position"
    ]


@pytest.mark.parametrize(
    ("dsn", "fault"),
    [
        ("hots=db password=s3cret", "is a keyword misspelled (host)?"),
        ("postgresql://me:s3cret%zz@db/shop", "special characters of a URL are written as %40"),
        ("host=db port=70000 password=s3cret", "a port is a number from 1 to 65535"),
        ("postgresql://me:s3cret@db:70000/shop", "a port is a number from 1 to 65535"),
    ],
)
def test_a_connection_string_that_libpq_cannot_read_is_found_without_connecting(dsn: str, fault: str) -> None:
    (told,) = problems(f"source: {{dsn: '{dsn}'}}\n" + SINK)
    assert told.startswith("walrelay.yaml:1: source.dsn: is not a connection string that libpq understands: " + fault)
    assert "s3cret" not in told


def test_a_topic_is_not_made_from_a_column_that_the_table_has_not() -> None:
    without = f"{SOURCE}{SINK}outbox:\n  columns:\n    aggregate_type: null\n"
    for settings in (without, without + "route:\n  topic: events.{aggregate_type}\n"):
        (problem,) = problems(settings)
        assert problem.startswith("walrelay.yaml:8: outbox.columns.aggregate_type: is null, but route.topic ('")
        assert "give route.topic a topic without it" in problem
    assert read(without + "route:\n  topic: events.{type}\n").route.topic == "events.{type}"
