"""Topic templates: `outbox.event.{aggregate_type}`, with the fields of a record that may name a topic."""

from collections.abc import Callable
from operator import itemgetter
from string import Formatter

from walrelay.errors import Unroutable
from walrelay.model import OutboxRecord

FIELDS = ("aggregate_type", "aggregate_id", "type", "tenant_id")

_MEMORY = 10_000  # rendered topics kept; a template over aggregate_id would otherwise keep every one for ever


class TopicTemplate:
    """Renders the topic of a record. ValueError for a template that is none."""

    def __init__(self, template: str) -> None:
        self.template = template
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
                    hint=f"Fill {field} in the outbox row, or give route.topic a template without it.",
                )
        return self.template.format(**values)


def _fields(template: str) -> list[str]:
    fields = []
    for _, field, specification, conversion in Formatter().parse(template):
        if field is None:
            continue
        if field not in FIELDS or specification or conversion:
            raise ValueError(f"{{{field}}} is not one of " + ", ".join(f"{{{name}}}" for name in FIELDS))
        fields.append(field)
    return fields
