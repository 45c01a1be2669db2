"""What the settings of several sinks must agree on: rules name sinks that exist, and all sinks are named."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from fnmatch import fnmatchcase
from typing import Annotated

from pydantic import AfterValidator, BeforeValidator, WithJsonSchema

from walrelay.config.values import SinkSettings, checked, plain_name
from walrelay.model import address, sink_and_topic
from walrelay.publish import load
from walrelay.route.rules.rule import TopicFault

Path = tuple[str | int, ...]
Faults = Iterator[tuple[Path, str]]
Names = tuple[str, ...]

SinkName = Annotated[str, AfterValidator(checked(plain_name("a sink")))]


def _each_once(names: Names) -> Names:
    if not names:
        raise ValueError("is empty: write the name of a sink")
    if len({*names}) < len(names):
        raise ValueError("names a sink twice")
    return names


SinkNames = Annotated[
    tuple[SinkName, ...],
    BeforeValidator(lambda value: [value] if isinstance(value, str) else value),
    AfterValidator(_each_once),
    WithJsonSchema({"anyOf": [{"type": "string"}, {"type": "array", "items": {"type": "string"}}]}),
]


def some(sinks: dict[str, SinkSettings]) -> dict[str, SinkSettings]:
    """ValueError for none."""
    if not sinks:
        raise ValueError("is empty: name a sink, or write `sink`")
    return sinks


def topic_fault(sinks: Mapping[str, SinkSettings]) -> TopicFault:
    """Asks the sink of an address. `sinks`: by name; the only one has the name ""."""
    faults: dict[str, Callable[[str], str]] = {name: load(each.kind).topic_fault for name, each in sinks.items()}

    def fault(text: str) -> str:
        name, topic = ("", text) if "" in faults else sink_and_topic(text)
        return faults[name](topic) if name in faults else ""

    return fault


def reserved_topics(sinks: Mapping[str, SinkSettings]) -> frozenset[str]:
    """Addresses that no event may go to: a sink's topic for positions, if its kind has one."""
    topics = ((name, getattr(each.settings, "positions_topic", None)) for name, each in sinks.items())
    return frozenset(address(name, topic) for name, topic in topics if topic is not None)


def naming_faults(
    sinks: Mapping[str, SinkSettings] | None, default: Names, rules: Sequence[tuple[int, Names]]
) -> Faults:
    """`default`: those of `route.sink`; `rules`: those of each rule that publishes, with its number."""
    written = [(("route", "sink"), default), *((("routes", number, "sink"), names) for number, names in rules)]
    if sinks is None:
        yield from (
            (path, "names a sink, and the only one has no name: leave this out, or write `sinks`")
            for path, names in written
            if names
        )
        return
    listed = ", ".join(sinks)
    for path, names in written:
        yield from ((path, f"there is no sink {name!r}; there are {listed}") for name in names if name not in sinks)
    unnamed = [number for number, names in rules if not names]
    if not default and not rules:
        yield ("sinks",), f"route.sink is missing: which of {listed} do records go to?"
    elif not default:
        yield from ((("routes", number), f"names no sink: which of {listed}? Or set route.sink") for number in unnamed)
    used = {name for _, names in written for name in names}
    for name in sinks:
        if name not in used and used and used <= {*sinks}:
            yield ("sinks", name), "gets nothing: name it in route.sink or in a rule, or leave it out"


def sharing_faults(
    sinks: Mapping[str, SinkSettings],
    *,
    exactly_once: bool,
    position: str,
    letters: str | None,
    patterns: Iterable[str],
) -> Faults:
    """What several sinks cannot share. `letters`: the topic of dead letters, if they go to one; `patterns`: of topics
    that have a policy of their own.
    """
    places = {name: load(each.kind).writes_to(each.settings) for name, each in sinks.items()}
    taken = [*places.values()]
    for number, (name, place) in enumerate(places.items()):
        if place and place in taken[:number]:
            yield ("sinks", name, "kind"), f"another sink writes to {place} already"
    if exactly_once:
        why = "no transaction goes over several sinks: exactly once needs one sink, and a relay for each"
        yield ("delivery",), why
    elif position == "topic":
        yield ("position", "keep"), "of several sinks none has the relay's position: keep it in the slot, table or file"
    if letters is not None and sink_and_topic(letters)[0] not in sinks:
        path = ("refusals", "dead_letter_topic")
        yield (
            path,
            f"dead_letter_topic {letters!r} names no sink: write SINK:TOPIC, as in {next(iter(sinks))}:{letters}",
        )
    first = next(iter(sinks))
    for pattern in patterns:  # one that matches nothing would leave its topics to another policy, without a word
        name, colon, _ = pattern.partition(":")
        if not pattern.startswith("*") and not (colon and any(fnmatchcase(sink, name) for sink in sinks)):
            why = f"names no sink: write SINK:TOPIC, as in {first}:{pattern}, or *:{pattern} for all sinks"
            yield ("refusals", "topics", pattern), why
