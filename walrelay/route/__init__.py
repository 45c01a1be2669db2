"""Route: outbox records become messages for the broker. Pure."""

from walrelay.route.router import Router
from walrelay.route.template import FIELDS, TopicTemplate

__all__ = ["FIELDS", "Router", "TopicTemplate"]
