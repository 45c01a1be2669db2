"""A relay's own position in the target database."""

from walrelay.model import System
from walrelay.sinks.group_positions import GroupPositionKeeper
from walrelay.sinks.postgres.groups import PostgresGroups
from walrelay.sinks.postgres.settings import PostgresSettings
from walrelay.sinks.postgres.writer import TargetMemory


class PostgresPositionKeeper(GroupPositionKeeper):
    """With a connection of its own."""

    def __init__(self, settings: PostgresSettings, system: System, slot: str) -> None:
        super().__init__(PostgresGroups(settings, TargetMemory(), system, slot))
