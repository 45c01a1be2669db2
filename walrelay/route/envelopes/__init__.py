"""Envelopes: what value and headers look like to consumers that expect CloudEvents, MassTransit or Spring. Pure."""

from walrelay.route.envelopes.cloudevents import CloudEvents
from walrelay.route.envelopes.masstransit import MassTransit
from walrelay.route.envelopes.spring import Spring

__all__ = ["CloudEvents", "MassTransit", "Spring"]
