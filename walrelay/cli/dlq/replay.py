"""`walrelay dlq replay`: letters on their way again, by the settings of today."""

from collections import Counter
from pathlib import Path
from typing import Any

import click

from walrelay import compose
from walrelay.cli.dlq.filters import filters, wanted
from walrelay.cli.options import config_option, operator
from walrelay.cli.progress import progress
from walrelay.cli.wording import count
from walrelay.config import load
from walrelay.dead_letters import DeadLetterTable, StoredDeadLetter
from walrelay.dead_letters.replay import DeadLetterReplay, ReplayOutcome
from walrelay.errors import Fatal
from walrelay.postgres.catalog import Catalog
from walrelay.telemetry import logs

_TOLD = 20  # letters that are named one by one


@click.command()
@config_option
@filters
@click.option("--dry-run", is_flag=True, help="List what would be published, and publish nothing.")
def replay(config_path: Path, dry_run: bool, **given: Any) -> None:
    """Publish dead letters, and what is blocked behind them.

    Those that wait, unless --status says otherwise.

    The record is routed by the settings of today, so corrected ones apply; id, position and key are those it had, and
    a header `replayed` is added. A letter is closed when the broker has acknowledged it; what is refused again waits
    on, with everything behind it of the same key. The relay may be running.

    \b
    Example:
      walrelay dlq replay --topic outbox.event.order --dry-run
      walrelay dlq replay --error not_authorized
    """
    settings = load(config_path)
    logs.configure(settings.log.format, settings.log.level)
    wiring = compose.wiring(settings)
    with Catalog(wiring.dsn) as catalog:
        table = DeadLetterTable(catalog, wiring.slot)
        ids, statuses = table.find_to_replay(wanted(**given))
        if dry_run:
            for stored in table.letters(ids):
                click.echo(_line(stored))
            click.echo(f"{len(ids)} would be replayed", err=True)
            return
        replaying = DeadLetterReplay(table, wiring.rules.router().route, wiring.sink.open, operator())
        outcomes = list(progress(replaying.replay(ids, statuses), len(ids), "replaying"))
    _tell(outcomes)


def _tell(outcomes: list[ReplayOutcome]) -> None:
    counts = Counter(each.outcome for each in outcomes)
    click.echo(f"{counts['replayed']} replayed, {counts['refused']} refused again, {counts['left']} left as they are")
    stored = [each for each in outcomes if each.outcome != "replayed"]
    for each in stored[:_TOLD]:
        click.echo(f"letter {each.id} {each.outcome}: {each.why}", err=True)
    if counts["refused"]:
        raise Fatal(
            f"{count(counts['refused'], 'dead letter was', 'dead letters were')} refused again, and still waiting",
            hint="`walrelay dlq list --status waiting` has the reasons.",
        )


def _line(stored: StoredDeadLetter) -> str:
    letter, origin = stored.letter, stored.letter.origin
    return f"{stored.id:>7}  {origin.position:<20} {letter.status:<9}  {letter.topic or '':<28} {origin.record_id}"
