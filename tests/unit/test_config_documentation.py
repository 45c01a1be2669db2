"""What is told about the settings is true: the example works, the reference is current, editors are not misled."""

import json
import re
from pathlib import Path

import yaml

from walrelay.config import parse
from walrelay.config.documentation import described, example, json_schema, reference
from walrelay.publish import installed

ENV = {"DATABASE_URL": "postgresql://localhost/shop"}
REGENERATE = (
    "python -c \"from walrelay.config.documentation import reference; print(reference(), end='')\" > docs/settings.md"
)


def test_the_example_works_once_database_url_is_set() -> None:
    settings = parse(example(), "example", ENV)
    assert settings.source.dsn.get_secret_value() == ENV["DATABASE_URL"]
    assert settings.named_sinks[""].kind == "kafka"


def test_what_the_example_comments_out_are_settings_with_their_defaults() -> None:
    commented_in = re.sub(r"(?m)^( *)#(?=[a-z_.]+:)", r"\1", example())
    assert commented_in.count("#") < example().count("#")
    full = parse(commented_in.replace("file:/run/secrets/kafka", "secret"), "example", ENV)
    plain = parse(example(), "example", ENV)
    for section in ("source", "outbox", "route", "retry", "shutdown_timeout", "log"):
        assert getattr(full, section) == getattr(plain, section)


def test_the_example_keeps_the_order_of_the_flow() -> None:
    named = re.findall(r"(?m)^#?([a-z_]+):", example())
    assert named == list(described()["properties"])


def test_the_reference_in_the_docs_is_current() -> None:
    page = Path(__file__).parents[2] / "docs" / "settings.md"
    assert page.read_text(encoding="utf-8") == reference(), f"run: {REGENERATE}"


def test_the_reference_names_every_setting_with_default_and_unit() -> None:
    page = reference()
    assert "| `source.slot` | text | `walrelay` |  | The logical replication slot." in page
    assert "| `source.confirm_interval` | number | `0.1` | seconds | How often, at most, progress" in page
    assert "| `source.dsn` | secret | required |  |" in page
    assert "| `outbox.columns.headers` | text or null | `headers` |" in page
    assert all(f"### kind: {kind}" in page for kind in installed())


def test_every_setting_says_what_it_does() -> None:
    rows = [line for line in reference().splitlines() if line.startswith("| `")]
    assert len(rows) > 30
    assert [row for row in rows if row.endswith("|  |")] == []


def test_the_schema_has_a_branch_for_each_installed_sink() -> None:
    branches = json_schema()["properties"]["sink"]["oneOf"]
    assert [branch["properties"]["kind"]["const"] for branch in branches] == installed()
    assert all("kind" in branch["required"] for branch in branches)


def test_the_schema_knows_no_other_keys() -> None:
    schema = json_schema()
    assert schema["additionalProperties"] is False
    assert schema["$defs"]["SourceSettings"]["additionalProperties"] is False
    forms = [["source", "sink"], ["source", "sinks"], ["relays"], ["databases", "defaults"]]
    assert [each["required"] for each in schema["anyOf"]] == forms
    assert schema["properties"]["sinks"]["additionalProperties"] == schema["properties"]["sink"]


def test_the_schema_lets_a_relay_leave_to_the_defaults_what_is_required() -> None:
    schema = json_schema()
    definitions = schema["$defs"]
    assert schema["properties"]["relays"]["additionalProperties"] == {"$ref": "#/$defs/RelayPart"}
    assert definitions["RelayPart"]["properties"]["source"]["$ref"] == "#/$defs/SourceSettingsPart"
    assert "required" not in definitions["SourceSettingsPart"]
    assert definitions["SourceSettings"]["required"] == ["dsn"]
    for name in re.findall(r"#/\$defs/(\w+)", json.dumps(schema)):
        assert name in definitions


def test_the_schema_accepts_references_where_numbers_and_choices_stand() -> None:
    source = json_schema()["$defs"]["SourceSettings"]["properties"]
    for name in ("confirm_interval", "binary", "plugin", "wal2json_format"):
        pattern = source[name]["anyOf"][-1]["pattern"]
        assert re.search(pattern, "${VALUE}")
        assert re.search(pattern, "${VALUE:-1}")
        assert not re.search(pattern, "soon")
    assert source["plugin"]["anyOf"][0]["enum"] == ["pgoutput", "wal2json"]


def test_the_schema_tells_units_in_words_that_editors_show() -> None:
    interval = json_schema()["$defs"]["SourceSettings"]["properties"]["confirm_interval"]
    assert interval["description"].endswith("(seconds)")
    assert interval["default"] == 0.1


def test_a_column_role_called_type_is_not_taken_for_a_keyword_of_the_schema() -> None:
    assert json_schema()["$defs"]["ColumnsSettings"]["properties"]["type"]["default"] == "type"


def test_the_schema_knows_every_key_that_the_example_uses() -> None:
    schema = json_schema()
    document = yaml.safe_load(example())
    for section in ("source", "outbox", "route"):
        definition = schema["$defs"][schema["properties"][section]["$ref"].rpartition("/")[2]]
        assert set(document[section]) <= set(definition["properties"])
    kafka = next(each for each in schema["properties"]["sink"]["oneOf"] if each["title"] == "KafkaSettings")
    assert set(document["sink"]) <= set(kafka["properties"])
