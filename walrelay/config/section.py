"""What all sections of the settings file share."""

from pydantic import BaseModel, ConfigDict


class Misplaced(ValueError):
    """What a check of several settings together found; `path` is where to look, within the section that checked."""

    def __init__(self, path: tuple[str, ...], text: str) -> None:
        super().__init__(text)
        self.path = path


class Section(BaseModel):
    """Nothing can be changed, no key is ignored, no error quotes what was given: it may hold a secret."""

    model_config = ConfigDict(frozen=True, extra="forbid", use_attribute_docstrings=True, hide_input_in_errors=True)
