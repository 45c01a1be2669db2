"""What becomes of refused messages, as it is written in the settings."""

from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from walrelay.config.values import Section, SectionError

PolicyName = Literal["stop", "dead_letter", "skip"]


class RefusalSettings(Section):
    """What becomes of a message that the broker will never take, of a record that no rule routes, and of a logical
    message that cannot be read. Where topics are patterns, `*` stands for any characters. `walrelay docs dead-letters`
    explains it in full."""

    policy: PolicyName = "stop"
    """stop: the relay ends and names the record. dead_letter: the record is kept in full, and the relay goes on.
    skip: like dead_letter, but the dead letter is closed at once and does not wait for an operator."""

    topics: dict[str, PolicyName] = Field(default_factory=dict)
    """A policy for each pattern of topics, as in `outbox.event.audit*: skip`. The first pattern that matches counts.
    What cannot be read has no topic: `policy` applies."""

    attempts: Annotated[int, Field(ge=1)] = 1
    """How many times a message is offered before the policy applies. The pauses in between are those of `retry`;
    meanwhile nothing else is published, to keep the order."""

    block_key: bool = False
    """true: later messages of the same topic and key wait behind a dead letter, as dead letters themselves, so that
    replaying keeps the order of the key. false: they are published."""

    dead_letters: Literal["table", "topic", "both"] = "table"
    """Where dead letters go: the table walrelay.dead_letters, the topic below, or both. Skipped and blocked ones
    are in the table only."""

    dead_letter_topic: Annotated[str, Field(min_length=1)] = "outbox.dead_letters"
    """The topic for dead letters. A refusal of this topic stops the relay."""

    @model_validator(mode="after")
    def _in_the_table(self) -> Self:
        if self.dead_letters == "topic" and (self.block_key or "skip" in {self.policy, *self.topics.values()}):
            raise SectionError(
                ("dead_letters",), "block_key and the policy skip need the table: set dead_letters to table or both"
            )
        return self
