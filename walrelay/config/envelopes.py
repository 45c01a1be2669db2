"""The envelope as it is written in the settings, and as the router takes it."""

from collections.abc import Callable
from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from walrelay.config.values import AnyTemplate, RuleTemplate, Section, SectionError
from walrelay.route.envelopes import CloudEvents, MassTransit, Spring, cloudevents, masstransit
from walrelay.route.rules import Envelope

_KINDS = {"mode": "cloudevents", "source": "cloudevents", "message_types": "masstransit"}


def _spring_attribute(text: str) -> str:
    if text != "contentType":
        raise ValueError(f"{text!r} is no attribute of spring; known is contentType")
    return text


_NAMES: dict[str, Callable[[str], str]] = {
    "cloudevents": cloudevents.attribute_name,
    "masstransit": masstransit.attribute_name,
    "spring": _spring_attribute,
}


class EnvelopeSettings(Section):
    """What value and headers of a message look like. `walrelay docs envelopes` explains it in full."""

    kind: Literal["raw", "cloudevents", "masstransit", "spring"] = "raw"
    """raw: the payload, and the row's headers with `id`, `type` and `position`. cloudevents: CloudEvents 1.0.2.
    masstransit: MassTransit's JSON envelope. spring: headers as Spring Cloud Stream writes them."""

    mode: Literal["binary", "structured"] = "binary"
    """For cloudevents. binary: the attributes are headers, the value is the payload. structured: the value is a JSON
    document with both."""

    source: RuleTemplate | None = None
    """For cloudevents, and required there: a template for the attribute `source`, a URI, as in `/shop/orders`. With it
    ids are unique among all producers."""

    message_types: tuple[Annotated[RuleTemplate, Field(min_length=1)], ...] = ()
    """For masstransit: templates for the types, as names in .NET or as URNs. None: the record's type."""

    attributes: dict[str, AnyTemplate] = Field(default_factory=dict)
    """A template for each further attribute, left out where a field is missing. cloudevents: `type`, `subject`,
    `time`, `datacontenttype`, `dataschema`, and extensions; masstransit: `correlationId` and others; spring:
    `contentType`."""

    @model_validator(mode="after")
    def _suits_its_kind(self) -> Self:
        for name, kind in _KINDS.items():
            if name in self.model_fields_set and self.kind != kind:
                raise SectionError((name,), f"is for kind: {kind}; the kind here is {self.kind}")
        if self.kind == "cloudevents" and self.source is None:
            raise SectionError(
                ("source",), "cloudevents needs a source, a URI that names the producer, as in /shop/orders"
            )
        for name in self.attributes:
            if self.kind == "raw":
                raise SectionError(("attributes",), "is for other kinds than raw, which has none")
            try:
                _NAMES[self.kind](name)
            except ValueError as fault:
                raise SectionError(("attributes", name), str(fault)) from None
        return self

    @property
    def envelope(self) -> Envelope | None:
        """As the router takes it; None for raw."""
        attributes = tuple(self.attributes.items())
        match self.kind:
            case "cloudevents":
                return CloudEvents(self.source or "", attributes, structured=self.mode == "structured")
            case "masstransit":
                return MassTransit(self.message_types, attributes)
            case "spring":
                return Spring(self.attributes.get("contentType"))
        return None
