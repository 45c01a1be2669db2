"""`walrelay events`: the last events of a relay, by the process that leads it."""

import json
from collections.abc import Iterable
from datetime import datetime
from typing import Any

import click

from walrelay import compose
from walrelay.cli.chosen import Chosen, one_relay
from walrelay.cli.ending import signalled
from walrelay.cli.remote import RemoteApi, api_option
from walrelay.cli.streams import printable
from walrelay.control.asking import EventFilter, RecentEvent, RecentEvents, recent_events
from walrelay.errors import Fatal
from walrelay.postgres.catalog import Catalog
from walrelay.supervise import Stop

_FEW = 20
_INTERVAL = 1.0  # seconds between two questions
_SOON = 3.0  # seconds for which an event that is not durable yet is held back


@click.command()
@one_relay
@api_option
@click.option("-f", "--follow", is_flag=True, help="Go on with those that come, until Ctrl-C.")
@click.option("--topic", default="", metavar="PATTERN", help="Of these topics; * matches any characters.")
@click.option("--id", "id_", default="", help="With this id.")
@click.option("--key", default="", help="With this key.")
@click.option(
    "-n", "--limit", type=click.IntRange(min=1), default=_FEW, show_default=True, help="At most so many of the last."
)
@click.option("--json", "as_json", is_flag=True, help="One JSON object on stdout for each event.")
def events(relay: Chosen, api: str, follow: bool, topic: str, id_: str, key: str, limit: int, as_json: bool) -> None:
    """Show the last events that a relay published.

    The process that leads the relay keeps the last 1,000 (`events.keep`), and is asked for them through PostgreSQL.
    The latest is at the end. A line says when the event was handed to the sink, its id, type, topic and key, and how
    long after its commit it was durable; with --json each step has its time. Payloads are kept, and shown with --json,
    only by `events.payloads`.

    \b
    Example:
      walrelay events
      walrelay events --follow --topic 'payments.*'
      walrelay events --id 6a6dafb0-54b5-4e3c-9a5e-0c9f3f1f2d11 --json
    """
    wanted = EventFilter(topic, id_, key)
    if api:
        _remotely(RemoteApi(api), relay.name, wanted, follow, limit, as_json)
        return
    wiring = compose.wiring(relay.settings())
    stop = signalled() if follow else None
    with Catalog(wiring.dsn) as catalog:
        found = recent_events(catalog, wiring.slot, 0, wanted)
        _print(reversed(found.events[:limit]), as_json)
        if not found.events and not follow:
            kept = found.activity.kept
            click.echo(
                f"note: none of the {kept} events that are kept is meant" if kept else "note: none yet", err=True
            )
        if stop is not None:
            _follow(catalog, wiring.slot, wanted, found, stop, as_json)


def _remotely(api: RemoteApi, name: str, wanted: EventFilter, follow: bool, limit: int, as_json: bool) -> None:
    """Each answer has all that are kept; what was printed before is left out."""
    relay, stop, last = api.relay(name), signalled() if follow else None, ("", "", 0)
    while True:
        told = api.get(f"{relay.path}/events", limit=10_000 if stop else limit, **wanted._asdict())
        process = told["instance"], told["since"]
        after = last[2] if last[:2] == process else 0
        found = [_of_json(each) for each in told["events"] if each["number"] > after]
        _print(reversed(found[:limit] if after == 0 else found), as_json)
        last = (*process, max([after, *(each.number for each in found)]))
        if stop is None or stop.wait(_INTERVAL):
            return


def _of_json(told: dict[str, Any]) -> RecentEvent:
    times = {name: _unix(value) for name, value in told.items() if name == "at" or name.endswith("_at")}
    return RecentEvent(**{**told, **times})


def _unix(text: str | None) -> float | None:
    return None if text is None else datetime.fromisoformat(text).timestamp()


def _follow(catalog: Catalog, slot: str, wanted: EventFilter, last: RecentEvents, stop: Stop, as_json: bool) -> None:
    process, after, told = _process(last), last.activity.last_event, ""
    while not stop.wait(_INTERVAL):
        try:
            found = recent_events(catalog, slot, after)
            if _process(found) != process:  # its events are counted anew
                process, after = _process(found), 0
                found = recent_events(catalog, slot, after)
        except Fatal as error:
            if str(error) != told:
                told = str(error)
                click.echo(f"note: {error}; waiting for it", err=True)
            continue
        told = ""
        ready = list[RecentEvent]()
        for each in reversed(found.events):
            if each.acknowledged_at is None and found.activity.at - each.at < _SOON:
                break  # the next answer has more of it
            ready.append(each)
        if ready and after and (missed := ready[-1].number - after - len(ready)):
            click.echo(f"note: {missed} more were published than are kept", err=True)
        after = ready[-1].number if ready else after
        _print(filter(wanted.matches, ready), as_json)


def _process(found: RecentEvents) -> tuple[str, float]:
    return found.activity.instance, found.activity.since


def _print(found: Iterable[RecentEvent], as_json: bool) -> None:
    for each in found:
        click.echo(json.dumps(each.as_json(), ensure_ascii=False) if as_json else _line(each))


def _line(event: RecentEvent) -> str:
    at = datetime.fromtimestamp(event.at).strftime("%H:%M:%S.%f")[:-3]
    if event.acknowledged_at is None:
        durable = click.style("not durable yet", fg="yellow")
    else:
        durable = click.style(_after(event.acknowledged_at - event.committed_at), fg="green")
    topic = printable(f"{event.sink}:{event.topic}" if event.sink else event.topic)
    of_key = "" if event.key is None else f" [{printable(event.key)}]"
    what = f"{printable(event.id or '-')}  {printable(event.type or '-')}"
    return (
        f"{click.style(at, dim=True)}  {what} → {topic}{of_key}  {event.bytes} bytes  {event.position or ''}  {durable}"
    )


def _after(seconds: float) -> str:
    milliseconds = max(0.0, seconds * 1000)
    return f"durable after {milliseconds:.1f} ms" if milliseconds < 10_000 else f"durable after {seconds:.1f} s"
