"""Settings and what somebody calls a topic to the topics that `walrelay init --topics` makes."""

import re
from collections.abc import Iterator, Sequence

from walrelay.compose.commands import topics
from walrelay.config import Settings
from walrelay.publish import load_makes_topics
from walrelay.route import TopicTemplate


def named_topics(settings: Settings, names: Sequence[str], *, exact: bool) -> list[str]:
    """The topics for these names, each once: one that `route.topic` can give stands for itself, as all of them do where
    that names no field or several, or with `exact`; any other is what fills its one field.
    """
    template = settings.route.topic
    fields = TopicTemplate(template).fields
    (pattern,) = topics(settings)
    given = re.compile(".+".join(map(re.escape, pattern.split("*"))))
    return list(
        dict.fromkeys(
            name if exact or len(fields) != 1 or given.fullmatch(name) else template.format(**{fields[0]: name})
            for name in names
        )
    )


def make_topics(
    settings: Settings, names: Sequence[str], partitions: int, replication_factor: int | None
) -> Iterator[tuple[str, bool]]:
    """Each topic, and whether it was made now. Fatal where the sink has none, at once; else as `MakesTopics` has it."""
    plugin = load_makes_topics(settings.sink.kind)
    return plugin.make_topics(settings.sink.settings, names, partitions, replication_factor)
