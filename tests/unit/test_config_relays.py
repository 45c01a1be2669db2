"""A settings file with several relays: what the defaults give, what a relay changes, and errors that name both."""

from pathlib import Path

import pytest

from tests.unit.refused_settings import problems_of
from walrelay.config import Settings
from walrelay.config.reading import parse, parse_relays

FILE = """\
defaults:
  source:
    dsn: postgresql://localhost/${DATABASE}
    confirm_interval: 0.5
  sink: {kind: kafka, bootstrap_servers: "k:9092", options: {linger.ms: 5, batch.size: 9}}
  refusals: {topics: {audit: skip}}
relays:
  orders:
    source: {slot: orders}
  invoices:
    source:
      slot: invoices
      confirm_interval: 1
    sink: {options: {linger.ms: 0}}
    outbox: {messages: {writers: [billing]}}
"""


def read(text: str, *wanted: str, **env: str) -> dict[str, Settings]:
    return parse_relays(text, "walrelay.yaml", env, wanted)


def problems(text: str, *wanted: str, **env: str) -> list[str]:
    return problems_of(lambda: read(text, *wanted, **env))


def file_of(*relays: str, defaults: str = "") -> str:
    return f"defaults: {{{defaults}}}\nrelays:\n" + "".join(f"  {relay}\n" for relay in relays)


def relay(name: str, slot: str, more: str = "", host: str = "localhost") -> str:
    return f"{name}: {{source: {{dsn: 'postgresql://{host}/shop', slot: {slot}}}, sink: {{kind: memory}}{more}}}"


def test_each_relay_has_the_defaults_and_what_it_says_itself() -> None:
    relays = read(FILE, DATABASE="shop")
    assert list(relays) == ["orders", "invoices"]
    orders, invoices = relays.values()
    assert {each.source.dsn.get_secret_value() for each in relays.values()} == {"postgresql://localhost/shop"}
    assert [each.source.slot for each in relays.values()] == ["orders", "invoices"]
    assert [each.source.confirm_interval for each in relays.values()] == [0.5, 1]
    assert orders.named_sinks[""].settings.model_dump()["options"] == {"linger.ms": 5, "batch.size": 9}
    assert invoices.named_sinks[""].settings.model_dump()["options"] == {"linger.ms": 0, "batch.size": 9}
    assert invoices.outbox.messages.writers == ("billing",)
    assert invoices.refusals.topics == {"audit": "skip"}


def test_a_list_and_a_null_replace_what_the_defaults_have() -> None:
    defaults = "outbox: {columns: {headers: h}, messages: {prefix: p, writers: [a, b]}}"
    more = ", outbox: {columns: {headers: null}, messages: {writers: [c]}}"
    relays = read(file_of(relay("a", "a", more), relay("b", "b"), defaults=defaults))
    assert [each.outbox.columns.headers for each in relays.values()] == [None, "h"]
    assert [each.outbox.messages.writers for each in relays.values()] == [("c",), ("a", "b")]
    assert relays["a"].outbox.messages.prefix == "p"


def test_a_sink_of_another_kind_takes_nothing_from_the_defaults() -> None:
    assert read(FILE + "  third: {source: {slot: third}, sink: {kind: memory}}\n", DATABASE="x")["third"].named_sinks[
        ""
    ].kind == ("memory")


def test_the_form_with_one_relay_is_a_relay_without_a_name() -> None:
    text = "source: {dsn: host=db}\nsink: {kind: memory}\n"
    assert read(text) == {"": parse(text, "walrelay.yaml", {})}
    assert problems(text, "orders") == [" has one relay, without a name"]


def test_a_problem_in_the_defaults_is_told_once_and_one_of_a_relay_with_its_name() -> None:
    text = FILE.replace("0.5", "often").replace("slot: invoices", "slto: invoices")
    assert problems(text) == [
        "3: defaults.source.dsn: the environment variable DATABASE is not set: set it, or write ${DATABASE:-default}",
        "4: defaults.source.confirm_interval: 'often' is not a number of seconds",
        "12: relays.invoices.source: unknown key 'slto'; did you mean 'slot'?",
    ]


def test_what_is_missing_is_missed_where_it_could_stand() -> None:
    assert problems("relays:\n  a:\n    source: {slot: a}\n    sink: {kind: memory}\n") == [
        "3: relays.a.source: 'dsn' is missing: The database, as a libpq URL or keyword string. The role needs"
        " REPLICATION. A secret: take it from `${DATABASE_URL}` or `file:/run/secrets/dsn`."
    ]
    assert problems("relays:\n  a:\n    sink: {kind: memory}\n")[0].startswith("2: relays.a: 'source' is missing")


@pytest.mark.parametrize(
    ("more", "problem"),
    [
        ("source: {slot: x}", "16: 'source' stands beside `relays`: write it under `defaults` or under a relay"),
        ("  a b: {}", "16: relays.a b: is no name of a relay: up to 63 letters, digits and any of _ . -, the first a"),
        ("  third:", "16: relays.third: must be a mapping: the settings of this relay; {} if the defaults have all"),
        ("  third: {log: {level: info}}", "16: relays.third: `log` is the process's: write it under `defaults`"),
        ("  orders: {}", "16: relays.orders: is already on line 8; keep one of the two"),
    ],
)
def test_what_is_wrong_around_the_relays_is_told_with_its_line(more: str, problem: str) -> None:
    (found,) = problems(f"{FILE}{more}\n", DATABASE="shop")
    assert found.startswith(problem)


@pytest.mark.parametrize("text", ["relays:\n", "relays: []\n", "relays: {}\n", "defaults: {}\n"])
def test_a_file_without_a_relay_is_refused(text: str) -> None:
    assert problems(text) == ["1: `relays` must be a mapping: a name, and below it a relay"]


def test_two_relays_on_one_slot_are_refused_on_the_line_of_the_second() -> None:
    (found,) = problems(file_of(relay("a", "s"), relay("b", "s")))
    assert found == "4: relays.b.source.slot: relay 'a' has the slot 's' too; each relay needs its own"


def test_the_default_slot_is_a_slot_too() -> None:
    both = "source: {dsn: host=db}, sink: {kind: memory}"
    (found,) = problems(file_of("a: {}", "b: {}", defaults=both))
    assert found == "1: defaults.source.slot: relay 'a' has the slot 'walrelay' too; each relay needs its own"


def test_slots_of_one_name_on_two_servers_are_two() -> None:
    assert len(read(file_of(relay("a", "s"), relay("b", "s", host="other")))) == 2


def test_a_file_for_positions_and_standard_output_are_for_one_relay() -> None:
    keep = ", position: {keep: file, path: /p}"
    (found,) = problems(file_of(relay("a", "a", keep), relay("b", "b", keep)))
    assert found == "4: relays.b.position.path: relay 'a' has the file '/p' too; each relay needs its own"
    stdout = [relay(name, name).replace("memory", "stdout") for name in "ab"]
    (found,) = problems(file_of(*stdout))
    assert found == "4: relays.b.sink.kind: relay 'a' has standard output too; each relay needs its own"


def test_two_relays_write_to_no_file_together(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(tmp_path)
    places = f"kind: file, path: {tmp_path}/events", f"kind: file, path: {tmp_path}/link/events"
    relays = [relay(name, name).replace("kind: memory", place) for name, place in zip("ab", places, strict=True)]
    (found,) = problems(file_of(*relays))
    assert f"relays.b.sink.kind: relay 'a' has the file '{tmp_path}/events' too; each relay needs its own" in found


def test_the_faults_of_other_relays_do_not_matter_to_one_that_is_named() -> None:
    text = FILE.replace("slot: invoices", "slot: '!'")
    assert list(read(text, "orders", DATABASE="shop")) == ["orders"]
    assert problems(text, "invoices", DATABASE="shop")[0].startswith("12: relays.invoices.source.slot: '!' is no slot")


def test_an_unknown_name_is_answered_with_those_that_there_are() -> None:
    assert problems(FILE, "order", DATABASE="shop") == [" there is no relay 'order'; there are orders, invoices"]


def test_each_relay_may_have_a_preset_and_changes_it_line_by_line() -> None:
    found = read(
        FILE.replace("  orders:\n", "  orders:\n    outbox: {preset: event-log, columns: {payload: body}}\n").replace(
            "outbox: {messages", "outbox: {preset: ef-core, messages"
        ),
        DATABASE="shop",
    )
    orders, invoices = found["orders"].outbox, found["invoices"].outbox
    assert (orders.table, orders.columns.type, orders.columns.payload) == ("public.outbox", "event_type", "body")
    assert (invoices.table, invoices.columns.payload) == ("messaging.outbox_messages", "content")
    assert invoices.messages.writers == ("billing",)


def test_a_preset_of_the_defaults_holds_for_the_relays_that_name_no_other() -> None:
    defaults = "source: {dsn: host=db}, sink: {kind: memory}, outbox: {preset: ef-core}"
    relays = ("a: {source: {slot: a}}", "b: {source: {slot: b}, outbox: {preset: event-log}}")
    found = read(file_of(*relays, defaults=defaults))
    assert [found[name].outbox.preset for name in "ab"] == ["ef-core", "event-log"]
    assert [found[name].outbox.columns.payload for name in "ab"] == ["content", "event_data"]
