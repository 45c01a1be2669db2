"""Routing rules: conditions over a record, and the messages that it becomes. Pure."""

from walrelay.route.rules.conditions import Condition
from walrelay.route.rules.destinations import Rules
from walrelay.route.rules.fields import Field
from walrelay.route.rules.router import Decision, RuleRouter, Verdict
from walrelay.route.rules.rule import Envelope, Fault, Rule, faults
from walrelay.route.rules.schemas import Encoder

__all__ = [
    "Condition",
    "Decision",
    "Encoder",
    "Envelope",
    "Fault",
    "Field",
    "Rule",
    "RuleRouter",
    "Rules",
    "Verdict",
    "faults",
]
