"""The settings of the file sink."""

from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, Field, model_validator

_GONE = {"rotate_bytes", "rotate_interval"}


class FileSettings(BaseModel):
    """`kind: file`: a JSON line for each message, on disk before it counts as published."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    path: str = Field(
        min_length=1, description="The file, in a directory that walrelay may write to. For one relay alone."
    )

    @property
    def real_path(self) -> str:
        """Where the lines end up, whatever the path is written like."""
        return str(Path(self.path).resolve())

    @model_validator(mode="before")
    @classmethod
    def _refuse_rotation(cls, given: Any) -> Any:
        if isinstance(given, dict) and (found := sorted(_GONE & given.keys())):
            raise ValueError(
                f"{found[0]} is no setting any more: walrelay follows a file that is moved, so let logrotate rotate it"
                " (without copytruncate); see `walrelay docs file`"
            )
        return given
