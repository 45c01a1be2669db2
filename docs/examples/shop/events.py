"""The events of the shop, as writers and consumers know them."""

from dataclasses import dataclass
from decimal import Decimal
from uuid import UUID

from walrelay.outbox import event


@event("OrderPlaced", aggregate_type="order", aggregate_id="order_id")
@dataclass(frozen=True)
class OrderPlaced:
    order_id: UUID
    customer: str
    total: Decimal


@event("OrderCancelled", aggregate_type="order", aggregate_id="order_id")
@dataclass(frozen=True)
class OrderCancelled:
    order_id: UUID


@event("InvoiceIssued", aggregate_type="invoice", aggregate_id="order_id")
@dataclass(frozen=True)
class InvoiceIssued:
    order_id: UUID
    customer: str
    amount: Decimal
