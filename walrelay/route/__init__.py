"""Route: outbox records become messages for the broker. Pure."""

from walrelay.route.resumption import Ahead, ResumedRouting, Routing
from walrelay.route.router import Router
from walrelay.route.template import FIELDS, TopicTemplate

__all__ = ["FIELDS", "Ahead", "ResumedRouting", "Router", "Routing", "TopicTemplate"]
