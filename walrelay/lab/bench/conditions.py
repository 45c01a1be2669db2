"""How workload, machine and versions of a result read, the same in the terminal, in charts and on the page."""

from collections.abc import Callable, Mapping
from typing import Any

_NAMES = {"walrelay": "walrelay", "postgresql": "PostgreSQL", "kafka": "Kafka", "python": "Python"}  # these first


def machine(machine: Mapping[str, Any]) -> str:
    """ "2 cores, 7.8 GiB, Example CPU, Linux 6.1.0"."""
    system = " ".join(str(machine[name]) for name in ("system", "release") if machine.get(name))
    others = {name: value for name, value in machine.items() if name not in ("system", "release")}
    return ", ".join([*_said(others, _MACHINE), *filter(None, [system])])


def versions(versions: Mapping[str, str]) -> str:
    """ "walrelay 0.1.0, PostgreSQL 15.18, psycopg 3.3.9"."""
    order = [*(name for name in _NAMES if name in versions), *(name for name in versions if name not in _NAMES)]
    return ", ".join(_version(name, versions[name]) for name in order if versions[name] != "none")


def workload(workload: Mapping[str, Any]) -> str:
    """ "200 commits/s, steady, 3 rounds"."""
    return ", ".join(_said(workload, _WORKLOAD))


def _version(name: str, version: str) -> str:
    """A mock cluster is no version of Kafka."""
    colon = ":" if version.startswith("librdkafka") else ""
    return f"{_NAMES.get(name, name)}{colon} {version}"


def _said(values: Mapping[str, Any], phrases: Mapping[str, Callable[[Any], str]]) -> list[str]:
    known = [say(values[name]) for name, say in phrases.items() if name in values]
    return known + [f"{name.replace('_', ' ')} {value}" for name, value in values.items() if name not in phrases]


def _counted(count: Any, what: str) -> str:
    return f"{_plain(count)} {what}{'' if count == 1 else 's'}"


def _plain(value: Any) -> str:
    """Values come from anywhere: what is no number is shown as it is."""
    return f"{value:,.10g}" if isinstance(value, int | float) else str(value)


_MACHINE: Mapping[str, Callable[[Any], str]] = {
    "cores": lambda value: _counted(value, "core"),
    "memory_gib": lambda value: f"{_plain(value)} GiB",
    "processor": str,
}
_WORKLOAD: Mapping[str, Callable[[Any], str]] = {
    "rate": lambda value: f"{_plain(value)} commits/s",
    "mode": str,
    "events": lambda value: _counted(value, "event"),
    "polled_events": lambda value: f"{_plain(value)} of them for the polling worker",
    "keys": lambda value: f"over {_counted(value, 'key')}",
    "row_bytes": lambda value: f"{_plain(value)} bytes a row",
    "rows_per_transaction": lambda value: (
        "all in one transaction" if value == "all" else f"{_plain(value)} a transaction"
    ),
    "pgoutput": lambda value: f"pgoutput in {value} mode",
    "connection": lambda value: f"over {value}",
    "rounds": lambda value: _counted(value, "round"),
    "seconds": lambda value: f"{_plain(value)} s of writing in each",
    "idle_seconds": lambda value: f"{_plain(value)} s idle" if value else "no idle time",
    "quick": lambda value: "the quick form" if value else "the full form",
}
