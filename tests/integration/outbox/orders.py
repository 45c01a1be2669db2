"""A mapped shop, whose objects record events."""

from sqlalchemy.orm import (
    DeclarativeBase,
    Mapped,
    MappedAsDataclass,
    Session,
    mapped_column,
    sessionmaker,
)

from tests.servers.database import Database
from walrelay.outbox import Event
from walrelay.outbox.sqlalchemy import RecordsEvents


class Base(DeclarativeBase):
    pass


class Order(RecordsEvents, Base):
    __tablename__ = "orders"
    id: Mapped[int] = mapped_column(primary_key=True)
    state: Mapped[str] = mapped_column(default="new")

    def did(self, what: str) -> None:
        """Changes the order and records it, with the key that only the database knows at first."""
        self.state = what
        self.record(lambda: Event(aggregate_type="order", aggregate_id=self.id, type=what))


class Line(RecordsEvents, MappedAsDataclass, Base):
    __tablename__ = "lines"
    id: Mapped[int] = mapped_column(primary_key=True, init=False, compare=False)
    name: Mapped[str]


def written(database: Database) -> list[tuple[str, str]]:
    return database.execute("SELECT aggregate_id, type FROM outbox ORDER BY ctid")


def made_order(sessions: sessionmaker[Session]) -> int:
    with sessions.begin() as session:
        order = Order()
        session.add(order)
        session.flush()
        return order.id
