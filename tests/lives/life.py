"""A life, drawn from a seed: settings that change, and the steps of what happens. Nothing here acts."""

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from random import Random
from typing import Any, NamedTuple

from tests.lives.receiver import FAULTS

KEYS = ("k0", "k1", "k2")
TYPES = ("order", "copy", "noise")
SINKS = ("a", "b")


class Row(NamedTuple):
    """A row to be written. `poison`: the sinks that refuse it, until they are cured."""

    key: str
    type: str
    poison: str = ""


@dataclass(frozen=True)
class Rules:
    """Settings of a relay, in the words of the model."""

    sinks: int = 1
    policy: str = "dead_letter"  # or stop, skip
    block_key: bool = False
    attempts: int = 1
    drops_noise: bool = False
    copies: bool = False  # what is of the type "copy" goes to a second topic
    renamed: bool = False  # the first topic has another name
    both: bool = False  # the first topic goes to both sinks
    position: str = "slot"

    @property
    def has_two_sinks(self) -> bool:
        """A sink that gets nothing is refused as a mistake."""
        return self.sinks == 2 and (self.both or self.copies)

    def destinations(self, row: Row) -> frozenset[tuple[str, str]]:
        """Sink and topic of each message of the row."""
        if row.type == "noise" and self.drops_noise:
            return frozenset()
        topic = "second" if self.renamed else "first"
        found = {("a", topic)}
        if self.both and self.has_two_sinks:
            found.add(("b", topic))
        if row.type == "copy" and self.copies:
            found.add(("b" if self.has_two_sinks else "a", "copies"))
        return frozenset(found)

    def settings(self, dsn: str, slot: str, port: int, directory: str) -> dict[str, Any]:
        """Content of the settings file."""
        topic = "second" if self.renamed else "first"
        routes: list[dict[str, Any]] = []
        if self.drops_noise:
            routes.append({"name": "noise", "when": {"type": "noise"}, "drop": True})
        if self.copies:
            copied = "b" if self.has_two_sinks else "a"
            routes.append(
                {"name": "copies", "when": {"type": "copy"}, "topic": "copies", "sink": copied, "continue": True}
            )
        first = ["a", "b"] if self.both and self.has_two_sinks else "a"
        routes.append({"name": "all", "topic": topic, "sink": first})
        return {
            "source": {"dsn": dsn, "slot": slot, "confirm_interval": 0.05},
            "routes": routes,
            "sinks": {
                name: {
                    "kind": "webhook",
                    "url": f"http://127.0.0.1:{port}/{name}/{{topic}}",
                    "allow_private_addresses": True,
                    "request_timeout": 2,
                }
                for name in SINKS[: 1 + self.has_two_sinks]
            },
            "refusals": {"policy": self.policy, "block_key": self.block_key, "attempts": self.attempts},
            "position": {
                "keep": self.position,
                **({"path": f"{directory}/position"} if self.position == "file" else {}),
            },
            "retry": {"min_pause": 0.05, "max_pause": 0.2},
            "shutdown_timeout": 3,
            "log": {"format": "json"},
        }


class Step(NamedTuple):
    """`what` happens; `about`: to what, or how; `rows`: of a transaction; `after`: seconds until the next step."""

    what: str
    about: str = ""
    rows: tuple[Row, ...] = ()
    after: float = 0.0

    def __str__(self) -> str:
        rows = ", ".join(
            f"{key} {type_}{f' refused by {poison}' if poison else ''}" for key, type_, poison in self.rows
        )
        return " ".join(filter(None, [self.what, self.about, f"({rows})" if rows else ""]))


@dataclass(frozen=True)
class Life:
    """`versions`: the settings; a step names the one that is in force from then on by its place."""

    seed: int
    versions: tuple[Rules, ...]
    steps: tuple[Step, ...]
    left_out: frozenset[str] = field(default_factory=frozenset)

    def __str__(self) -> str:
        lines = [f"seed {self.seed}"]
        lines += [f"settings {number}: {version}" for number, version in enumerate(self.versions)]
        return "\n".join([*lines, *(f"{number:3} {step}" for number, step in enumerate(self.steps))])


_WEIGHTS = {
    "write": 12,
    "start": 5,
    "stop": 2,
    "kill": 3,
    "second": 1,
    "freeze": 1,
    "settings": 3,
    "fault": 4,
    "well": 4,
    "crash": 1,
    "restart server": 1,
    "cut": 2,
    "pause": 1,
    "resume": 2,
    "restart": 1,
    "drain": 1,
    "cure": 1,
    "dlq replay": 2,
    "dlq discard": 1,
    "cleanup": 2,
    "replay": 1,
    "settle": 3,
    "look": 2,
}
FEATURES = (*(set(_WEIGHTS) - {"write", "start"}), "poison", "copies", "drops_noise", "renamed", "both", "two sinks",
            "block_key", "policy", "position", "attempts", "shapes", "many")  # fmt: skip
_SHAPES = ("one", "each", "rolled back", "savepoint", "interleaved")


def life(seed: int) -> Life:
    """The life of that seed. Each leaves out a random half of the features, so that rare ones meet."""
    random = Random(seed)
    features = sorted(FEATURES)
    left_out = frozenset(random.sample(features, len(features) // 2))
    first = _rules(random, left_out, None)
    versions = [first]
    while "settings" not in left_out and len(versions) < 4:
        versions.append(_rules(random, left_out, versions[-1]))
    # Some things happen often in this life and others hardly, so that the same few meet again and again.
    weights = {
        what: weight * random.choice((0.3, 1, 1, 4)) for what, weight in _WEIGHTS.items() if what not in left_out
    }
    steps, running = [Step("start")], True
    for _ in range(random.randint(8, 24)):
        likely = weights if running else {**weights, "start": weights["start"] * 5}
        (what,) = random.choices([*likely], [*likely.values()])
        running = what in ("start", "settings", "second") or (running and what not in ("stop", "kill"))
        step = _step(random, what, left_out, len(versions))
        steps.append(step._replace(after=random.choice((0, 0, 0, 0.02, 0.05, 0.15))))
    return Life(seed, tuple(versions), tuple(steps), left_out)


def _rules(random: Random, left_out: frozenset[str], before: Rules | None) -> Rules:
    """Others than before: most of them stay, as when an operator changes a line."""

    def may(feature: str, value: bool) -> bool:
        return value and feature not in left_out

    drawn = Rules(
        sinks=1 + may("two sinks", random.random() < 0.6),
        policy=random.choice(("dead_letter", "dead_letter", "stop", "skip"))
        if "policy" not in left_out
        else "dead_letter",
        block_key=may("block_key", random.random() < 0.6),
        attempts=1 + may("attempts", random.random() < 0.5),
        drops_noise=may("drops_noise", random.random() < 0.5),
        copies=may("copies", random.random() < 0.6),
        renamed=may("renamed", random.random() < 0.3),
        both=may("both", random.random() < 0.5),
        position=random.choice(("slot", "table", "file")) if "position" not in left_out else "slot",
    )
    if before is None:
        return drawn
    names = random.sample([*Rules.__dataclass_fields__], random.randint(1, 2))
    return replace(before, **{name: getattr(drawn, name) for name in names if name != "position"})


def _step(random: Random, what: str, left_out: frozenset[str], versions: int) -> Step:
    match what:
        case "write":
            shape = random.choice(_SHAPES) if "shapes" not in left_out else "each"
            count = random.choice((1, 2, 3, 6)) if "many" in left_out or random.random() < 0.9 else 200
            return Step("write", shape, tuple(_rows(random, count, left_out)))
        case "settings":
            return Step(what, f"{random.randrange(versions)} after {random.choice(('stop', 'kill'))}")
        case "fault":
            return Step(what, f"{random.choice(SINKS)} {random.choice(FAULTS)}")
        case "well" | "cure":
            return Step(what, random.choice(SINKS))
    return Step(what)


def _rows(random: Random, count: int, left_out: frozenset[str]) -> Iterator[Row]:
    often = random.choice((0.1, 0.4))
    for _ in range(count):
        poison = random.choice(("a", "a", "b", "ab")) if "poison" not in left_out and random.random() < often else ""
        yield Row(random.choice(KEYS), random.choice(TYPES), poison)
