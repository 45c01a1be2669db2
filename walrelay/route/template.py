"""Topic templates: `outbox.event.{aggregate_type}`, with the fields of a record that may name a topic."""

from collections.abc import Callable
from operator import itemgetter
from string import Formatter

from walrelay.errors import AS_IT_WAS_WRITTEN, Unroutable
from walrelay.model import OutboxRecord

FIELDS = ("aggregate_type", "aggregate_id", "type", "tenant_id")

_MEMORY = 10_000  # rendered topics kept; a template over aggregate_id would otherwise keep every one for ever


class TopicTemplate:
    """Renders the topic of a record. ValueError for an invalid template. `reserved`: topics for no record."""

    def __init__(self, template: str, reserved: frozenset[str] = frozenset()) -> None:
        self.template = template
        self._reserved = reserved
        self.fields = tuple(dict.fromkeys(_fields(template)))
        indexes = [OutboxRecord._fields.index(field) for field in self.fields]
        self._values: Callable[[OutboxRecord], object] = itemgetter(*indexes) if indexes else lambda record: ()
        self._rendered: dict[object, str] = {}

    def render(self, record: OutboxRecord) -> str:
        """The topic for `record`; Unroutable where a field that the template names is NULL or empty."""
        values = self._values(record)
        topic = self._rendered.get(values)
        if topic is None:
            topic = self._render(record)
            if topic in self._reserved:
                raise reserved_topic(record, topic)
            if len(self._rendered) >= _MEMORY:
                self._rendered.clear()
            self._rendered[values] = topic
        return topic

    def _render(self, record: OutboxRecord) -> str:
        values = {field: getattr(record, field) for field in self.fields}
        for field, value in values.items():
            if not value:
                raise Unroutable(
                    f"record {record.id} at {record.position} has no {field}, which the topic template"
                    f" {self.template!r} names",
                    hint=f"Give route.topic a template without {field}, and let the writers fill it."
                    f" {AS_IT_WAS_WRITTEN}",
                )
        return self.template.format(**values)


def reserved_topic(record: OutboxRecord, topic: str) -> Unroutable:
    """In the topic of positions a record would be read as a position, or compaction would remove a position for it."""
    return Unroutable(
        f"the topic {topic!r} of record {record.id} at {record.position} is where relays keep their positions",
        hint="Events go to other topics: correct route.topic or the row's own topic. Or give the relays another topic"
        " for their positions: sink.positions_topic.",
    )


def _fields(template: str) -> list[str]:
    fields = []
    for _, field, specification, conversion in Formatter().parse(template):
        if field is None:
            continue
        if field not in FIELDS or specification or conversion:
            raise ValueError(f"{{{field}}} is not one of " + ", ".join(f"{{{name}}}" for name in FIELDS))
        fields.append(field)
    return fields
