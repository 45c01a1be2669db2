"""`walrelay doctor`: everything that must be true before a start, each finding with its fix."""

import json
import os
import sys
from collections import Counter
from collections.abc import Iterable

import click

from walrelay import compose
from walrelay.cli.chosen import Chosen, each_relay
from walrelay.model import Finding
from walrelay.operations import doctor as operation
from walrelay.postgres.catalog import Catalog
from walrelay.wiring import Wiring

_MARKS = {"ok": ("✓", "green"), "warning": ("!", "yellow"), "problem": ("✗", "red")}
_PLAIN_MARKS = {"ok": "+", "warning": "!", "problem": "x"}  # for a terminal that cannot print those
_SUBJECT_WIDTH = 25


@click.command()
@each_relay
@click.option("--json", "as_json", is_flag=True, help="One JSON object on stdout for each relay.")
@click.pass_context
def doctor(ctx: click.Context, relay: Chosen, as_json: bool) -> None:
    """List what keeps a relay from starting, each with its fix.

    It asks the database and the broker for everything that must be true, changes nothing, and may run beside the relay.
    Each finding comes with its fix as a command to paste. The exit code is 1 when something blocks a start.

    \b
    Example:
      walrelay doctor
      walrelay doctor --json | jq -r '.findings[] | select(.verdict == "problem") | .fix'
    """
    findings = operation.examine(compose.wiring(relay.settings()), relay.arguments)
    counts = _print_json(findings, relay.name) if as_json else _print(findings)
    if counts["problem"]:
        ctx.exit(1)


def note_no_events(catalog: Catalog, wiring: Wiring) -> None:
    """Says on stderr which rows are no events, for another command."""
    for text in operation.no_events(catalog, wiring):
        click.echo(f"note: {text}", err=True)


def _print_json(findings: Iterable[Finding], relay: str) -> Counter[str]:
    listed = list(findings)
    counts = Counter[str](finding.verdict for finding in listed)
    of = {"relay": relay} if relay else {}
    report = of | {"findings": [finding._asdict() for finding in listed], "ready": not counts["problem"]}
    click.echo(json.dumps(report, indent=2, ensure_ascii=False))
    return counts


def _print(findings: Iterable[Finding]) -> Counter[str]:
    """Prints each finding as soon as it is known: a broker that is away takes its time."""
    color = False if os.environ.get("NO_COLOR") else None
    counts: Counter[str] = Counter()
    for finding in findings:
        counts[finding.verdict] += 1
        click.echo(_lines(finding), color=color)
    click.echo(summary(counts))
    return counts


def _lines(finding: Finding) -> str:
    mark, colour = _MARKS[finding.verdict]
    if not _can_write(mark):
        mark = _PLAIN_MARKS[finding.verdict]
    lines = [f"{click.style(mark, fg=colour)} {finding.subject:{_SUBJECT_WIDTH}} {finding.detail}"]
    if finding.fix:
        lines.append(click.style("    fix: ", dim=True) + finding.fix.replace("\n", "\n         "))
    return "\n".join(lines)


def _can_write(mark: str) -> bool:
    try:
        mark.encode(sys.stdout.encoding or "ascii")
    except UnicodeEncodeError:
        return False
    return True


def summary(counts: Counter[str]) -> str:
    """The last line: how many findings, and whether the relay can start."""
    counted = [
        f"{counts[verdict]} {verdict}{'' if counts[verdict] == 1 else 's'}"
        for verdict in ("problem", "warning")
        if counts[verdict]
    ]
    verdict = "not ready" if counts["problem"] else "ready"
    return f"{', '.join(counted)}: {verdict}" if counted else verdict
