"""What the models say about a place in a settings file: the keys it knows, what they mean, whether it is secret."""

from collections.abc import Iterator, Mapping
from types import UnionType
from typing import Annotated, Any, Union, get_args, get_origin

from pydantic import BaseModel, SecretStr
from pydantic.fields import FieldInfo

from walrelay.config.document import Path
from walrelay.config.models import Settings
from walrelay.config.sink import SinkKind, sink_model


class Places:
    """The models along the paths of one settings file; which model `sink:` has depends on that file."""

    def __init__(self, value: Any) -> None:
        sections = value if isinstance(value, Mapping) else {}
        self._sink = _sink_models(sections.get("sink"))

    def fields(self, path: Path) -> dict[str, FieldInfo]:
        """The settings that are known in the mapping at `path`, by the key that stands in the file."""
        models = (candidate for candidate in self._types(path) if _is_model(candidate))
        return {field.alias or name: field for model in models for name, field in model.model_fields.items()}

    def secret(self, path: Path) -> bool:
        """Whether a text at `path` may be a secret."""
        return SecretStr in self._types(path)

    def unit(self, path: Path) -> str:
        """The unit of the number at `path`; empty if it has none."""
        field = self._field(path)
        extra = field.json_schema_extra if field else None
        return str(extra.get("unit", "")) if isinstance(extra, dict) else ""

    def meaning(self, path: Path) -> str:
        """What the setting at `path` is, in one line; empty where the model does not say."""
        field = self._field(path)
        texts = [field.description if field else None, *(t.__doc__ for t in self._types(path) if _is_model(t))]
        return " ".join(next(filter(None, texts), "").split())

    def _field(self, path: Path) -> FieldInfo | None:
        return self.fields(path[:-1]).get(str(path[-1])) if path else None

    def _types(self, path: Path) -> list[Any]:
        if not path:
            return [Settings]
        if path == ("sink",):
            return self._sink
        field = self._field(path)
        if field:
            return list(_alternatives(field.annotation))
        return [inner for outer in self._types(path[:-1]) for inner in _items(outer)]


def _sink_models(section: Any) -> list[Any]:
    kind = section.get("kind") if isinstance(section, Mapping) else None
    try:
        return [SinkKind, sink_model(kind)] if isinstance(kind, str) else [SinkKind]
    except ValueError:  # an unknown kind is reported where the section is validated
        return [SinkKind]


def _alternatives(annotation: Any) -> Iterator[Any]:
    """The types that a value may have: those of a union one by one, without what Annotated adds."""
    origin = get_origin(annotation)
    if origin is Annotated:
        yield from _alternatives(get_args(annotation)[0])
    elif origin in (Union, UnionType):
        for each in get_args(annotation):
            yield from _alternatives(each)
    else:
        yield annotation


def _items(container: Any) -> Iterator[Any]:
    """The types of the values in a mapping or the items of a list."""
    origin, arguments = get_origin(container), get_args(container)
    if isinstance(origin, type) and arguments:
        yield from _alternatives(arguments[1] if issubclass(origin, Mapping) else arguments[0])


def _is_model(candidate: Any) -> bool:
    return isinstance(candidate, type) and issubclass(candidate, BaseModel)
