"""What follows from a relay's wiring alone."""

import pytest

from walrelay.decode.contract import Columns, OutboxLayout
from walrelay.errors import Unroutable
from walrelay.lsn import ZERO
from walrelay.model import OutboxRecord
from walrelay.publish import SinkHandle
from walrelay.route.rules import Rule, Rules
from walrelay.sinks import memory
from walrelay.wiring import SlotOptions, Wiring

SINK = SinkHandle("memory", memory.MemorySettings(keep=1), memory.plugin)
WIRING = Wiring("", "slot", "pgoutput", "outbox", OutboxLayout(table="out box"), Rules("event.{aggregate_type}"), SINK)


def columns(outbox: OutboxLayout) -> set[str]:
    """The roles that have a column."""
    return {role for role, column in outbox.columns._asdict().items() if column}


def test_a_column_that_routing_does_not_ask_for_is_not_needed_but_shown_where_it_is() -> None:
    assert columns(WIRING.needed) == {"id", "aggregate_type", "aggregate_id", "type", "payload", "headers", "topic"}
    assert columns(WIRING.shown) == set(Columns._fields)
    assert WIRING.shown.optional == {"tenant_id", "created_at"}
    by_tenant = WIRING._replace(rules=Rules("{tenant_id}"))
    assert columns(by_tenant.needed) == {"id", "tenant_id", "aggregate_id", "type", "payload", "headers", "topic"}


def test_the_table_is_quoted_and_writers_do_not_fill_the_time() -> None:
    assert WIRING.table == '"public"."out box"'
    assert WIRING.emit_columns.keys() == set(Columns._fields) - {"created_at"}


def test_wal2json_knows_neither_binary_values_nor_a_publication() -> None:
    wal2json = WIRING._replace(plugin="wal2json", publication=None, streaming=SlotOptions(wal2json_format=1))
    assert (WIRING.wants_binary, wal2json.wants_binary) == (True, False)
    assert dict(WIRING.options(binary=True))["publication_names"] == '"outbox"'
    assert "publication_names" not in dict(wal2json.options(binary=False))
    assert (WIRING.counting.plugin, wal2json.counting.plugin) == ("pgoutput", "wal2json, format 1")


@pytest.mark.parametrize(
    ("template", "named", "exact", "meant"),
    [
        ("event.{aggregate_type}", ["order", "event.order", "order"], False, ["event.order"]),
        ("event.{aggregate_type}", ["order"], True, ["order"]),
        ("events", ["order", "events"], False, ["order", "events"]),
        ("{tenant_id}.{type}", ["order"], False, ["order"]),
    ],
)
def test_a_name_is_a_whole_topic_or_what_fills_the_one_field_of_the_template(
    template: str, named: list[str], exact: bool, meant: list[str]
) -> None:
    assert Rules(template).named(named, exact=exact) == meant


def test_the_topics_known_beforehand_have_a_star_for_what_only_a_row_can_say() -> None:
    assert (Rules("event.{type}").topics, Rules("event.{type}").whole_topics) == (["event.*"], set())
    assert (Rules("events").topics, Rules("events").whole_topics) == (["events"], {"events"})


def test_topics_of_several_sinks_are_addresses() -> None:
    written = (Rule("a", topic="audit", sinks=("eu", "us")), Rule("b", drop=True), Rule("c", sinks=("us",)))
    rules = Rules("event.{type}", frozenset({"us:audit"}), tuple(rule for each in written for rule in each.by_sink))
    assert rules.topics == ["us:event.*", "eu:audit", "us:audit"]
    assert rules.named(["order", "eu:audit"], exact=False) == ["us:event.order", "eu:audit"]
    both = rules._replace(routes=tuple(Rule("all", sinks=("eu", "us")).by_sink))
    assert both.named(["order"], exact=False) == ["eu:event.order", "us:event.order"]
    assert both.named(["us:order", "eu:event.paid"], exact=False) == ["us:event.order", "eu:event.paid"]
    record = OutboxRecord(ZERO, 0, 0, "1", "o", "k", "T", b"{}", None, None, None, None)
    with pytest.raises(Unroutable, match="'us:audit'"):
        rules.router().route(record)
    messages = rules._replace(reserved=frozenset()).router().route(record)
    assert [message.topic for message in messages] == ["eu:audit", "us:audit"]
    assert rules._replace(routes=rules.routes[-1:]).topics_of()(record) == ["us:event.T"]
