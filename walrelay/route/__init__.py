"""Route: outbox records become messages for the broker. Pure."""

from walrelay.route.resumption import Ahead, Resumed, Routing
from walrelay.route.router import Router
from walrelay.route.template import FIELDS, TopicTemplate

__all__ = ["FIELDS", "Ahead", "Resumed", "Router", "Routing", "TopicTemplate"]
