"""The product, broken in one place: whether lives notice is what they are worth (`python -m tests.lives.mutants`)."""

import argparse
import os
import shutil
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from time import monotonic
from typing import NamedTuple

from tests.lives.life import life
from tests.lives.running import world
from tests.servers.process import temporary_directory

ROOT = Path(__file__).parents[2]


class Mutant(NamedTuple):
    """`what` is broken; in `path` the `text`, which is there once, becomes `other`. `seed`: of a life that notices;
    None: none is known.
    """

    what: str
    path: str
    text: str
    other: str
    seed: int | None = None


MUTANTS = (
    Mutant(
        "what was read is confirmed before the broker has it",
        "confirm/ledger.py",
        "        if owed[ticket] == 0:\n            self._advance()\n\n    def idle",
        "        self._advance()\n\n    def idle",
    ),
    Mutant(
        "a transaction that is settled is confirmed before an earlier one",
        "confirm/ledger.py",
        "        while self._ends and self._owed[self._ends[0][0]] == 0:",
        "        while self._ends and any(self._owed[each] == 0 for each, _ in self._ends):",
    ),
    Mutant(
        "messages of a key are on their way side by side",
        "sinks/hosting/lanes.py",
        "        waiting.append(item)\n        self.held += 1\n        return False",
        "        return True",
    ),
    Mutant(
        "a dead letter settles all messages of its record",
        "dead_letters/decisions.py",
        "letters_of_messages(letters, messages), strict=True",
        "[letters[0]] * len(messages), strict=True",
    ),
    Mutant(
        "a dead letter of an earlier run is offered again",
        "dead_letters/decisions.py",
        "        return self._unless_settled(numbered, letters) if letters else numbered",
        "        return numbered",
    ),
    Mutant(
        "nothing waits behind a dead letter of its key",
        "dead_letters/decisions.py",
        '        if self._policy.block_key and letter.status == "waiting" and message.key is not None:',
        "        if False:",
    ),
    Mutant(
        "the keys that an earlier run blocked are free",
        "dead_letters/decisions.py",
        "        self._blocked = dict(blocked)",
        "        self._blocked = {}",
    ),
    Mutant(
        "a dead letter counts as settled and is written nowhere",
        "dead_letters/decisions.py",
        "        if self._policy.table:\n            self._writer.write(letter)\n",
        "",
    ),
    Mutant(
        "a replay closes dead letters that it did not publish",
        "dead_letters/replay.py",
        "            if acknowledged:\n                closed.append(id_)\n",
        "            closed.append(id_)\n            if acknowledged:\n",
    ),
    Mutant(
        "the clean-up does not wait for the slots",
        "table/published.py",
        "    return [slot for slot in slots if (slot.confirmed_flush_lsn or ZERO) < horizon.lsn]",
        "    return []",
    ),
    Mutant(
        "the clean-up deletes what later transactions wrote",
        "table/published.py",
        '        self._ended = f"{_XID8} < {horizon.xmin}"',
        '        self._ended = "true"',
    ),
    Mutant(
        "a paused relay publishes",
        "control/pausing.py",
        "        return self._control.pause is not None\n",
        "        return False\n",
    ),
    Mutant(
        "a second instance does not wait for the lead",
        "relay/run.py",
        "        return self._factories.lead(stream, stop)",
        "        return True",
    ),
)


@contextmanager
def broken(mutant: Mutant) -> Iterator[Path]:
    """A directory with the package, broken."""
    directory = temporary_directory("mutant")
    try:
        shutil.copytree(ROOT / "walrelay", directory / "walrelay", ignore=shutil.ignore_patterns("__pycache__"))
        shutil.copytree(ROOT / "sql", directory / "sql")
        path = directory / "walrelay" / mutant.path
        source = path.read_text()
        assert source.count(mutant.text) == 1, f"{mutant.what}: its text is not in {mutant.path} once"
        path.write_text(source.replace(mutant.text, mutant.other))
        yield directory
    finally:
        shutil.rmtree(directory)


def caught(mutant: Mutant, seeds: Iterator[int], seconds: float) -> tuple[int | None, list[str], int]:
    """The first seed whose life notices, what it says, and how many were lived."""
    end, lived = monotonic() + seconds, 0
    with broken(mutant) as directory, world(directory) as shared:
        for seed in seeds:
            if monotonic() > end:
                break
            lived += 1
            if wrong := shared.live(life(seed)):
                return seed, wrong, lived
    return None, [], lived


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.lives.mutants")
    parser.add_argument("--seconds", type=float, default=60, help="for each")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("words", nargs="*", help="of what is broken")
    asked = parser.parse_args()
    survived = 0
    for mutant in MUTANTS:
        if not mutant.text or not all(word in mutant.what for word in asked.words):
            continue
        seed, wrong, lived = caught(mutant, iter(range(asked.seed, 10**9)), asked.seconds)
        survived += seed is None
        said = f"seed {seed} after {lived}: {wrong[0][:200]}" if seed is not None else f"SURVIVED {lived} lives"
        sys.stdout.write(f"{mutant.what}: {said}\n")
        sys.stdout.flush()
    return 1 if survived else 0


if __name__ == "__main__":
    os.environ.setdefault("PYTHONDONTWRITEBYTECODE", "1")
    sys.exit(main())
