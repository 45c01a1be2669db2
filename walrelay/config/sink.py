"""The `sink:` section: its `kind` names a plug-in, and the plug-in's own model reads all the rest."""

from typing import Annotated, Any

from pydantic import AfterValidator, BaseModel, SerializeAsAny, model_validator

from walrelay import publish
from walrelay.config.values import Section


def sink_model(kind: str) -> type[BaseModel]:
    """The settings model of that kind of sink; ValueError for one that is not installed or cannot be imported."""
    if kind not in publish.installed():
        raise ValueError(f"there is no sink of kind {kind!r}; installed are {', '.join(publish.installed())}")
    try:
        model: type[BaseModel] = publish.load(kind).settings
    except ImportError as error:
        raise ValueError(f"the sink {kind!r} cannot be imported: {error}") from error
    return model


def _usable(kind: str) -> str:
    sink_model(kind)
    return kind


class SinkKind(Section, extra="ignore"):
    """The broker: `kind`, and beside it the settings of that kind of sink."""

    kind: Annotated[str, AfterValidator(_usable)]
    """Which sink: the name of an installed plug-in."""


class SinkSettings(Section):
    """The section when it has been read: `settings` is an instance of the plug-in's own model."""

    kind: str
    settings: SerializeAsAny[BaseModel]

    @model_validator(mode="before")
    @classmethod
    def _through_the_plugin(cls, section: Any) -> Any:
        """ValidationErrors go out as they are: pydantic reports their fields as if they were this model's own."""
        if not isinstance(section, dict) or isinstance(section.get("settings"), BaseModel):
            return section
        kind = SinkKind.model_validate(section).kind
        fields = {key: value for key, value in section.items() if key != "kind"}
        return {"kind": kind, "settings": sink_model(kind).model_validate(fields)}
