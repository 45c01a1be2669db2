"""What `walrelay init --adopt` proposes for a table, from its columns alone."""

import pytest

from walrelay.errors import Fatal
from walrelay.operations.adoption import Adoption, TableColumn, adoption

PRESETS = {"small": frozenset({"id", "body"}), "large": frozenset({"id", "body", "kind"})}


def proposed(*columns: str) -> Adoption:
    """Columns as `name type`; a star: it is the primary key."""
    parts = (each.partition(" ") for each in columns)
    found = [TableColumn(name, type_.removesuffix("*"), type_.endswith("*")) for name, _, type_ in parts]
    return adoption("public.events", found, PRESETS)


def test_the_preset_with_most_of_the_columns_is_named_and_what_it_does_not_read() -> None:
    found = proposed("id uuid*", "body jsonb", "kind text", "done boolean")
    assert (found.preset, found.unread) == ("large", ["done"])
    assert proposed("id uuid*", "body jsonb", "Kind text").preset == "small"


def test_each_role_has_its_column_by_name_and_type() -> None:
    found = proposed(
        "Seq bigint*",
        "EventId uuid",
        "StreamId uuid",
        "EventType character varying",
        "Data jsonb",
        "Metadata jsonb",
        "CorrelationId uuid",
        "OccurredAt timestamp without time zone",
        "CreatedAt timestamp with time zone",
        "Sent boolean",
    )
    assert found.preset is None
    assert {role: choice.column for role, choice in found.roles.items() if choice.column} == {
        "id": "EventId",
        "aggregate_id": "StreamId",
        "type": "EventType",
        "payload": "Data",
        "headers": "Metadata",
        "created_at": "CreatedAt",
    }
    assert found.headers == {"correlation-id": "{column.CorrelationId}", "occurred-at": "{column.OccurredAt|utc}"}
    assert found.unread == ["Seq", "Sent"]
    assert found.topic == "events"


@pytest.mark.parametrize(
    ("columns", "role", "choice"),
    [
        (["nr bigint*", "payload text"], "id", ("nr", "bigint, the primary key")),
        (["nr bigint*", "message_id uuid", "payload text"], "id", ("message_id", "uuid, by its name")),
        (["id uuid", "payload text"], "id", ("id", "uuid, by its name")),
        (["id uuid", "stuff json"], "payload", ("stuff", "the only column of type json")),
        (["id uuid", "payload bytea", "stuff json"], "payload", ("payload", "bytea, by its name")),
        (["id uuid", "payload json", "created_at date"], "created_at", (None, "no column looks like it")),
        (["id uuid", "payload json", "metadata text"], "headers", (None, "no column looks like it")),
    ],
)
def test_a_choice_says_why(columns: list[str], role: str, choice: tuple[str | None, str]) -> None:
    assert proposed(*columns).roles[role] == choice


def test_with_an_aggregates_type_the_topic_is_made_from_it() -> None:
    assert proposed("id uuid", "payload json", "aggregate_type text").topic == "outbox.event.{aggregate_type}"


@pytest.mark.parametrize(
    ("columns", "role"), [(["payload json"], "id"), (["id uuid", "a json", "b json"], "payload"), ([], "id")]
)
def test_without_an_id_or_a_payload_there_is_an_error(columns: list[str], role: str) -> None:
    with pytest.raises(Fatal, match=rf"no column of public\.events can be the {role} of an event") as caught:
        proposed(*columns)
    assert f"outbox.columns.{role}" in caught.value.hint
