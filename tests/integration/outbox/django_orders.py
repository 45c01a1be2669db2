"""A shop of Django's, whose objects record events."""

import sys
from typing import Any

from django.apps import AppConfig, apps
from django.db import models

from walrelay.outbox import Event
from walrelay.outbox.django import RecordsEvents


def order_model() -> Any:
    """Models can be declared when Django is set up, and once."""
    if "shop" in apps.all_models and "order" in apps.all_models["shop"]:
        return apps.all_models["shop"]["order"]

    class Order(RecordsEvents, models.Model):  # type: ignore[misc]
        state = models.TextField(default="new")

        class Meta:
            app_label = "shop"

        def did(self, what: str) -> None:
            self.state = what
            self.record(lambda: Event(aggregate_type="order", aggregate_id=self.pk, type=what))

    shop = type("Shop", (AppConfig,), {"path": "."})("shop", sys.modules[__name__])
    shop.apps, shop.models = apps, apps.all_models["shop"]
    apps.app_configs["shop"] = shop  # pickles name it
    return Order
