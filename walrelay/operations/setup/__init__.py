"""`walrelay init`: what a relay needs in PostgreSQL, made in the order that loses nothing."""

from walrelay.operations.setup.run import Outcome, apply
from walrelay.operations.setup.steps import Kind, SetupStep, plan, plan_backfill, surroundings

__all__ = ["Kind", "Outcome", "SetupStep", "apply", "plan", "plan_backfill", "surroundings"]
