"""The order service: each command in one transaction, with its events and its answer. Run: uvicorn orders:app"""

import os
from decimal import Decimal
from typing import Annotated, Any
from uuid import UUID

from events import OrderCancelled, OrderPlaced
from fastapi import Depends, FastAPI, HTTPException
from pydantic import BaseModel, Field
from sqlalchemy import make_url
from sqlalchemy.ext.asyncio import AsyncSession, async_sessionmaker, create_async_engine
from sqlalchemy.orm import DeclarativeBase, Mapped, mapped_column

from walrelay.inbox import IdempotencyKeys
from walrelay.inbox.asgi import IdempotencyMiddleware, by_authorization, transaction
from walrelay.outbox import Outbox, uuid7
from walrelay.outbox.sqlalchemy import RecordsEvents, write_recorded


class Base(DeclarativeBase):
    pass


class Order(RecordsEvents, Base):
    """The aggregate: it changes, and says so."""

    __tablename__ = "orders"
    id: Mapped[UUID] = mapped_column(primary_key=True)
    customer: Mapped[str]
    total: Mapped[Decimal]
    state: Mapped[str]

    @classmethod
    def place(cls, customer: str, total: Decimal) -> "Order":
        order = cls(id=uuid7(), customer=customer, total=total, state="placed")
        order.record(OrderPlaced(order.id, customer, total))
        return order

    def cancel(self) -> None:
        if self.state != "cancelled":
            self.state = "cancelled"
            self.record(OrderCancelled(self.id))


class PlaceOrder(BaseModel):
    customer: str
    total: Annotated[Decimal, Field(gt=0)]


engine = create_async_engine(
    make_url(os.environ["DATABASE_URL"]).set(drivername="postgresql+psycopg"),
    pool_pre_ping=True,  # connections from before a restart of PostgreSQL are made again
)
sessions = async_sessionmaker(engine, expire_on_commit=False)
write_recorded(sessions, Outbox())

app = FastAPI(title="orders")
app.add_middleware(
    IdempotencyMiddleware,
    keys=IdempotencyKeys(),
    transaction=sessions.begin,
    client=by_authorization,  # without that header: 401. If users log in, return the user that was verified
)

Transaction = Annotated[AsyncSession, Depends(transaction)]


@app.post("/orders", status_code=201)
async def place(command: PlaceOrder, session: Transaction) -> dict[str, Any]:
    """The middleware commits, and only then lets the client see the answer."""
    order = Order.place(command.customer, command.total)
    session.add(order)
    return {"id": order.id, "state": order.state}


@app.post("/orders/{order_id}/cancel")
async def cancel(order_id: UUID, session: Transaction) -> dict[str, Any]:
    # The lock keeps two commands for one order in turns, so that its events are in the order of what happened.
    order = await session.get(Order, order_id, with_for_update=True)
    if order is None:
        raise HTTPException(404, "no such order")
    order.cancel()
    return {"id": order.id, "state": order.state}


@app.get("/orders/{order_id}")
async def show(order_id: UUID) -> dict[str, Any]:
    async with sessions() as session:
        found = await session.get(Order, order_id)
    if found is None:
        raise HTTPException(404, "no such order")
    return {"id": found.id, "customer": found.customer, "total": found.total, "state": found.state}
