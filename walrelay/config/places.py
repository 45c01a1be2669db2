"""The models along the paths of a settings file: which settings a mapping may have, and what each of them is."""

from collections.abc import Iterator, Mapping
from types import UnionType
from typing import Annotated, Any, Union, get_args, get_origin

from pydantic import BaseModel, SecretStr
from pydantic.fields import FieldInfo

from walrelay.config.document import KeyPath
from walrelay.config.values import Section, SinkKind, docstrings, sink_model


class Places:
    """The models along the paths of one settings file, or of a part of it with a `model` of its own. Which model a sink
    has depends on that file.
    """

    def __init__(self, value: Any, model: type[Section]) -> None:
        self._model = model
        sections = value if isinstance(value, Mapping) else {}
        several = sections.get("sinks")
        self._sinks: dict[KeyPath, list[Any]] = {("sink",): _sink_models(sections.get("sink"))}
        for name, section in several.items() if isinstance(several, Mapping) else ():
            self._sinks["sinks", name] = _sink_models(section)

    def fields(self, path: KeyPath) -> dict[str, FieldInfo]:
        """The settings that the mapping at `path` may have, by their keys in the file."""
        models = (candidate for candidate in self._types(path) if _is_model(candidate))
        return {field.alias or name: field for model in models for name, field in model.model_fields.items()}

    def secret(self, path: KeyPath) -> bool:
        """Whether a text at `path` may be a secret."""
        return SecretStr in self._types(path)

    def unit(self, path: KeyPath) -> str:
        """The unit of the number at `path`; empty if it has none."""
        field = self._field(path)
        extra = field.json_schema_extra if field else None
        return str(extra.get("unit", "")) if isinstance(extra, dict) else ""

    def meaning(self, path: KeyPath) -> str:
        """What the setting at `path` is, in one line; empty where the model does not say."""
        field = self._field(path)
        sections = (each for each in self._types(path[:-1]) if _is_model(each) and issubclass(each, Section))
        texts = [
            *(docstrings(section).get(str(path[-1])) for section in sections),
            field.description if field else None,
            *(each.__doc__ for each in self._types(path) if _is_model(each)),
        ]
        return " ".join(next(filter(None, texts), "").split())

    def _field(self, path: KeyPath) -> FieldInfo | None:
        return self.fields(path[:-1]).get(str(path[-1])) if path else None

    def _types(self, path: KeyPath) -> list[Any]:
        if not path:
            return [self._model]
        if path in self._sinks:
            return self._sinks[path]
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
