"""Amazon Resource Names. Pure."""

import re

_START = re.compile(r"arn:[a-z-]+:[a-z]+:([a-z0-9-]+):")


def region_of(template: str) -> str | None:
    """The region that a template of a name names, if it begins as an ARN."""
    found = _START.match(template)
    return found[1] if found else None


def name_of(text: str) -> str:
    """The last part of an ARN, a URL or a name."""
    return re.split("[:/]", text)[-1]
