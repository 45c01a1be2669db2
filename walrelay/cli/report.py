"""`walrelay report`: a file to send to somebody who helps."""

import io
import json
import os
import platform
import sys
import tarfile
import urllib.error
import urllib.request
from collections import deque
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from importlib.metadata import distributions
from pathlib import Path
from typing import Any

import click

from walrelay import __version__, compose
from walrelay.cli.chosen import several_option
from walrelay.cli.options import config_option
from walrelay.config import Settings, load_relays
from walrelay.config.redaction import redacted, scrubbed, secrets
from walrelay.errors import WalrelayError
from walrelay.operations import doctor
from walrelay.operations.report import database_facts
from walrelay.operations.status import status
from walrelay.postgres.catalog import Catalog
from walrelay.wiring import Wiring

_EVENTS = 1_000  # of the log
_PATIENCE = 10.0  # seconds for a process to answer
_LIBRARIES = {
    *("aiohttp", "azure-servicebus", "boto3", "click", "confluent-kafka", "google-cloud-pubsub", "nats-py", "pika"),
    *("prometheus-client", "psycopg", "psycopg-binary", "pulsar-client", "pydantic", "redis", "structlog"),
}
_OF_EVENTS = {"payload", "key", "value", "headers"}  # fields of the log that sinks without a broker fill


@click.command()
@config_option
@several_option
@click.option(
    "--log",
    "log_path",
    type=click.Path(path_type=Path, exists=True, dir_okay=False),
    help="A log of the relay, of which the last events are taken.",
)
@click.option("-o", "--output", "output", type=click.Path(path_type=Path), help="Where to write it.")
def report(config_path: Path, relay_names: tuple[str, ...], log_path: Path | None, output: Path | None) -> None:
    """Write what somebody needs who helps: no payload, no secret.

    The archive has what doctor and status say, the settings without secrets, versions, facts about slot, publication
    and table, counts of walrelay's own tables, metrics if `http.listen` answers, and the last events of a log in JSON.
    Look through it before you send it: it names hosts, roles, tables, topics and slots.

    \b
    Example:
      walrelay report --log relay.log
      walrelay report -o report.tar.gz && tar -xzOf report.tar.gz walrelay-report/doctor.json
    """
    relays = load_relays(config_path, relay_names)
    known = set().union(*(secrets(each) for each in relays.values()))
    now = datetime.now(UTC)
    path = output or Path(f"walrelay-report-{now:%Y%m%dT%H%M%SZ}.tar.gz")
    files = {name: scrubbed(text, known) for name, text in _files(relays, log_path)}
    for_the_owner = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(for_the_owner, "wb") as file, tarfile.open(fileobj=file, mode="w:gz") as archive:
        for name, text in files.items():
            member = tarfile.TarInfo(f"walrelay-report/{name}")
            content = text.encode("utf-8", "backslashreplace")
            member.size, member.mtime, member.mode = len(content), int(now.timestamp()), 0o600
            archive.addfile(member, io.BytesIO(content))
    click.echo(f"{path}: {', '.join(files)}")
    click.echo("It has no payloads and no secrets, but names of hosts, roles and topics: look through it.")


def _files(relays: dict[str, Settings], log_path: Path | None) -> Iterator[tuple[str, str]]:
    yield "versions.json", _json(_versions())
    if log_path is not None:
        yield "events.jsonl", _log(log_path)
    asked = set[tuple[str, int]]()
    for name, settings in relays.items():
        within = f"{name}/" if name else ""
        yield f"{within}settings.json", _json(redacted(settings))
        wiring = compose.wiring(settings)
        for file, find in (("doctor", _doctor), ("status", _status), ("database", database_facts)):
            yield f"{within}{file}.json", _json(_found(find, wiring))
        address = settings.http.address
        if address is not None and address not in asked:
            asked.add(address)
            for path in ("metrics", "readyz"):
                yield f"{within}{path}.txt", _asked(*address, path)


def _found(find: Callable[[Wiring], Any], wiring: Wiring) -> Any:
    """What cannot be found out is said in its place."""
    try:
        return find(wiring)
    except WalrelayError as error:
        return {"error": str(error), "hint": error.hint}


def _doctor(wiring: Wiring) -> Any:
    return [each._asdict() for each in doctor.examine(wiring, "")]


def _status(wiring: Wiring) -> Any:
    messages = wiring.outbox.prefix is not None
    with Catalog(wiring.dsn) as catalog:
        return json.loads(status(catalog, wiring.slot, wiring.publication, messages=messages).as_json())


def _versions() -> dict[str, object]:
    libraries = {str(each.name): each.version for each in distributions() if each.name in _LIBRARIES}
    return {
        "walrelay": __version__,
        "python": sys.version,
        "platform": platform.platform(),
        "time": datetime.now(UTC).isoformat(),
        "libraries": dict(sorted(libraries.items())),
    }


def _log(path: Path) -> str:
    """The last events. Other lines are left out: nothing says what is in them."""
    events, others = deque[str](maxlen=_EVENTS), 0
    with path.open(errors="replace") as lines:
        for line in lines:
            try:
                event = json.loads(line)
            except ValueError:
                event = None
            if isinstance(event, dict):
                events.append(json.dumps({name: each for name, each in event.items() if name not in _OF_EVENTS}))
            else:
                others += 1
    if others:
        events.append(json.dumps({"event": "left out", "lines": others, "why": "they are no events in JSON"}))
    return "".join(f"{each}\n" for each in events)


def _asked(host: str, port: int, path: str) -> str:
    where = "127.0.0.1" if host == "0.0.0.0" else f"[{host}]" if ":" in host else host
    try:
        with urllib.request.urlopen(f"http://{where}:{port}/{path}", timeout=_PATIENCE) as answer:
            return str(answer.read(), "utf-8", "replace")
    except urllib.error.HTTPError as error:
        return str(error.read(), "utf-8", "replace")
    except OSError as error:
        return f"no answer: {error}\n"


def _json(value: object) -> str:
    return json.dumps(value, indent=1, ensure_ascii=False, default=str) + "\n"
