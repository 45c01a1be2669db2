"""Settings to what becomes of refusals: the policy, the dead letters of a slot, their replay."""

from walrelay.compose.reading import router
from walrelay.config import Settings
from walrelay.dead_letters import DeadLetterTable, DeadLetterTableWriter
from walrelay.dead_letters.policy import Policy
from walrelay.dead_letters.replay import DeadLetterReplay
from walrelay.dead_letters.wrapping import DeadLettering
from walrelay.observe import Observer
from walrelay.postgres.catalog import Catalog
from walrelay.publish import Sink, load


def policy(settings: Settings) -> Policy:
    """The section `refusals` as the stage publish takes it."""
    section = settings.refusals
    return Policy(
        default=section.policy,
        topics=tuple(section.topics.items()),
        attempts=section.attempts,
        block_key=section.block_key,
        table=section.dead_letters != "topic",
        topic=section.dead_letter_topic if section.dead_letters != "table" else None,
    )


def refusals(settings: Settings, observer: Observer) -> DeadLettering:
    """What becomes of refusals in one process."""
    return DeadLettering(policy(settings), lambda catalog: dead_letters(settings, catalog), observer)


def dead_letters(settings: Settings, catalog: Catalog) -> DeadLetterTableWriter:
    """Where the letters of the settings' slot are written."""
    return DeadLetterTableWriter(catalog, settings.source.slot, settings.sink.kind)


def letterbox(settings: Settings, catalog: Catalog) -> DeadLetterTable:
    """Where the letters of the settings' slot are found."""
    return DeadLetterTable(catalog, settings.source.slot)


def redelivery(settings: Settings, table: DeadLetterTable, by: str) -> DeadLetterReplay:
    """What publishes dead letters by the rules and to the broker of the settings."""

    def open_sink() -> Sink:
        return load(settings.sink.kind).open(settings.sink.settings)

    return DeadLetterReplay(table, router(settings).route, open_sink, by)
