"""What a single setting may say: names as PostgreSQL takes them, topic templates, connection strings."""

import pytest
from pydantic import ValidationError

from walrelay.config import values
from walrelay.config.models import RetrySettings, Settings
from walrelay.config.outbox import ColumnsSettings, MessagesSettings, OutboxSettings
from walrelay.config.source import SourceSettings
from walrelay.decode import contract
from walrelay.identifiers import qualified_name
from walrelay.route import TopicTemplate


@pytest.mark.parametrize("dsn", ["postgresql://h/d", "postgres://h", "host=h dbname=d", "password=a://b host=h"])
def test_what_libpq_takes_is_a_connection_string(dsn: str) -> None:
    assert values.connection_string(dsn) == dsn


@pytest.mark.parametrize(
    ("dsn", "advice"),
    [
        ("", "is empty"),
        (" ", "is empty"),
        ("shop", "is not a libpq connection string"),
        ("mysql://h/d?a=b", "is not a libpq connection string"),
        ("postgresql+psycopg2://h/d", "takes no driver in the scheme"),
    ],
)
def test_what_libpq_does_not_take_is_refused_with_advice(dsn: str, advice: str) -> None:
    with pytest.raises(ValueError, match=advice):
        values.connection_string(dsn)


@pytest.mark.parametrize("slot", ["", "Walrelay", "a-b", "a b", "a" * 64, "ä", "a\n"])
def test_a_slot_name_follows_postgresqls_rule(slot: str) -> None:
    assert values.slot_name("a_1" + "x" * 60)
    with pytest.raises(ValueError, match="is no slot name"):
        values.slot_name(slot)


@pytest.mark.parametrize(
    ("text", "schema", "table"),
    [
        ("outbox", "public", "outbox"),
        ("sales.outbox", "sales", "outbox"),
        ('"My Schema"."Out box"', "My Schema", "Out box"),
        ('sales."Out.box"', "sales", "Out.box"),
        ('"a""b"', "public", 'a"b'),
        ("größe._x$1", "größe", "_x$1"),
    ],
)
def test_a_table_is_named_as_in_sql(text: str, schema: str, table: str) -> None:
    assert qualified_name(text) == (schema, table)


@pytest.mark.parametrize("text", ["", "a.b.c", ".a", "a.", "a b", "a-b", "1a", '"a', '""', "a; drop table b", "a\n"])
def test_what_is_no_table_in_sql_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="is not a table"):
        qualified_name(text)


def test_capitals_without_quotes_are_refused_because_sql_and_orms_disagree_about_them() -> None:
    with pytest.raises(ValueError, match="""'Outbox' has capitals: write outbox, or '"Outbox"' if"""):
        qualified_name("public.Outbox")
    assert qualified_name('public."Outbox"') == ("public", "Outbox")


def test_a_name_that_postgresql_would_cut_off_is_refused() -> None:
    assert qualified_name("a" * 63)
    with pytest.raises(ValueError, match="is not a name"):
        qualified_name("ä" * 32)
    with pytest.raises(ValidationError, match="is not a name"):
        ColumnsSettings(id="")


@pytest.mark.parametrize("template", ["plain", "a.{type}", "{tenant_id}.{aggregate_type}.{aggregate_id}", "{{x}}"])
def test_a_template_that_is_accepted_can_be_routed_by(template: str) -> None:
    assert TopicTemplate(values.topic_template(template)).template == template


@pytest.mark.parametrize(
    ("template", "advice"),
    [
        ("", "is empty"),
        ("a.{colour}", "{colour} is not a field of the template; known are {aggregate_type}, {aggregate_id}, {type}"),
        ("{}", "{} is not a field"),
        ("{0}", "{0} is not a field"),
        ("{type.__class__}", "{type.__class__} is not a field"),
        ("{type[0]}", "{type[0]} is not a field"),
        ("{payload}", "{payload} is not a field"),
        ("{type:>9}", "write {type} alone in the braces"),
        ("{type:{type}}", "write {type} alone in the braces"),
        ("{type!r}", "write {type} alone in the braces"),
        ("a.{type", "a literal brace is doubled: {{ or }}"),
        ("a}", "a literal brace is doubled: {{ or }}"),
    ],
)
def test_a_template_reaches_the_four_fields_and_nothing_else(template: str, advice: str) -> None:
    with pytest.raises(ValueError) as caught:
        values.topic_template(template)
    assert advice in str(caught.value)


def test_the_decoders_defaults_are_those_of_the_settings() -> None:
    assert OutboxSettings().decoding == contract.OutboxLayout()


def test_the_outbox_section_becomes_what_the_decoders_take() -> None:
    outbox = OutboxSettings(
        table='"My Schema".events',
        columns=ColumnsSettings(id="event_id", tenant_id=None),
        messages=MessagesSettings(prefix=None, non_transactional="skip"),
    )
    assert outbox.decoding == contract.OutboxLayout(
        schema="My Schema",
        table="events",
        columns=contract.Columns(id="event_id", tenant_id=None),
        prefix=None,
        skip_non_transactional=True,
    )


def test_every_role_but_the_required_ones_may_lack_a_column() -> None:
    for role in contract.Columns._fields:
        if role in contract.REQUIRED:
            with pytest.raises(ValidationError):
                ColumnsSettings.model_validate({role: None})
        else:
            assert getattr(ColumnsSettings.model_validate({role: None}), role) is None


def test_pauses_out_of_order_are_refused() -> None:
    assert RetrySettings(min_pause=3, max_pause=3).max_pause == 3
    with pytest.raises(ValidationError, match=r"40 is above max_pause \(30\)"):
        RetrySettings(min_pause=40)


@pytest.mark.parametrize("value", [0, -1, float("inf"), float("nan")])
def test_an_interval_is_a_time_that_passes(value: float) -> None:
    with pytest.raises(ValidationError):
        SourceSettings.model_validate({"dsn": "host=h", "confirm_interval": value})


def test_a_column_of_bytes_has_no_second_role_as_text() -> None:
    with pytest.raises(ValidationError, match="'body' cannot be the payload and the type both"):
        ColumnsSettings(payload="body", type="body")
    assert ColumnsSettings(aggregate_id="id").aggregate_id == "id"


def test_a_duration_is_a_number_and_a_unit() -> None:
    assert [values.duration(text) for text in ("7d", "1.5 h", "90min", "30S", "2w")] == [
        604_800,
        5400,
        5400,
        30,
        1_209_600,
    ]


@pytest.mark.parametrize("text", ["", "7", "d", "0d", "-1d", "7 fortnights", "1h30m", "infd"])
def test_a_duration_without_a_unit_or_without_length_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="is not a duration: write a number and s, m, h, d or w"):
        values.duration(text)


def test_retention_is_text_with_a_unit_and_seconds_inside() -> None:
    source = {"dsn": "host=h"}
    settings = Settings.model_validate({"source": source, "sink": {"kind": "stdout"}, "retention": "7d"})
    assert settings.retention == 604_800
    assert Settings.model_validate({"source": source, "sink": {"kind": "stdout"}}).retention is None
    with pytest.raises(ValidationError, match="write a number and s, m, h, d or w"):
        Settings.model_validate({"source": source, "sink": {"kind": "stdout"}, "retention": 7})
