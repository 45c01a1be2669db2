"""The errors for records that a rule cannot route."""

from walrelay.errors import AS_IT_WAS_WRITTEN, Unroutable
from walrelay.model import OutboxRecord
from walrelay.route.rules.fields import Unevaluable
from walrelay.route.rules.rule import Rule


def refusal(rule: Rule, record: OutboxRecord, why: str) -> Unroutable:
    """For a record of which the rule makes no message."""
    return Unroutable(
        f"rule {rule.name!r} cannot route record {record.id} at {record.position}: {why}",
        hint="Correct the rule in `routes`: a template takes {field|default:text} where a field may be missing, and a"
        f" condition `exists: true` leaves such records to later rules. {AS_IT_WAS_WRITTEN}",
    )


def unevaluable(record: OutboxRecord, why: Unevaluable) -> Unroutable:
    return Unroutable(f"record {record.id} at {record.position} cannot be routed: {why}", hint=why.hint)


def not_encoded(record: OutboxRecord, why: str) -> Unroutable:
    return Unroutable(
        f"record {record.id} at {record.position} cannot be encoded: {why}",
        hint="Register a schema that it suits, or correct `schema` in the settings (`walrelay docs schemas`);"
        f" `walrelay doctor` asks the registry. {AS_IT_WAS_WRITTEN}",
    )


def not_wrapped(rule: Rule, record: OutboxRecord, why: str) -> Unroutable:
    kind = "" if rule.envelope is None else rule.envelope.kind
    return Unroutable(
        f"record {record.id} at {record.position} does not suit the envelope {kind}: {why}",
        hint="Correct `envelope` in the settings (`walrelay docs envelopes`); a rule of `routes` can give such records"
        f" another one, and raw publishes the payload as it is. {AS_IT_WAS_WRITTEN}",
    )
