"""What demo and benchmarks refuse before they start anything: packages that are missing, an address for no broker."""

from collections.abc import Sequence

import click

from walrelay.errors import Fatal
from walrelay.lab.brokers.kinds import KINDS, missing_packages


def refuse_address(sinks: Sequence[str], url: str | None) -> None:
    """Usage error, unless the address can be that of the one sink."""
    if url is None:
        return
    if len(sinks) != 1:
        raise click.UsageError("--sink-url is the address of one --sink")
    if not KINDS[sinks[0]].has_url:
        instead = ": --bootstrap-servers names a Kafka" if sinks[0] == "kafka" else ""
        raise click.UsageError(f"--sink-url cannot be given with --sink {sinks[0]}{instead}")


def require_packages(what: str, extra: str, sinks: Sequence[str], *packages: str) -> None:
    """Fatal when one is missing, with the command that installs it. `what`: demo, benchmark."""
    missing = missing_packages([*packages, *sinks])
    if missing:
        extras = [extra, *(sink for sink in sinks if sink != "kafka" and KINDS[sink].client in missing)]
        raise Fatal(
            f"the {what} needs packages that are not installed: {', '.join(missing)}",
            hint=f"pip install 'walrelay[{','.join(extras)}]'",
        )
