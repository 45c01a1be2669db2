"""Route: outbox records become messages for the broker. Pure."""

from walrelay.route.ahead import Ahead
from walrelay.route.resumed import Resumed, Routing
from walrelay.route.router import Router
from walrelay.route.template import FIELDS, TopicTemplate

__all__ = ["FIELDS", "Ahead", "Resumed", "Router", "Routing", "TopicTemplate"]
