"""The settings of the file sink."""

from pydantic import BaseModel, ConfigDict, Field


class FileSettings(BaseModel):
    """`kind: file`: a JSON line for each message, on disk before it counts as published."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    path: str = Field(
        min_length=1, description="The file, in a directory that walrelay may write to. For one relay alone."
    )
    rotate_bytes: int | None = Field(
        None,
        ge=1024,
        description="Before it would have more bytes the file gets the time as a suffix, and a new one begins. null:"
        " its size is no reason. walrelay deletes no file.",
    )
    rotate_interval: float | None = Field(
        None,
        gt=0,
        allow_inf_nan=False,
        description="Each such span of time has a file of its own, counted from 1970 in UTC: 3600 for each hour. The"
        " file of an earlier one gets its suffix when the next line is written. null: time is no reason.",
        json_schema_extra={"unit": "seconds"},
    )
