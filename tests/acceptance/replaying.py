"""What the tests of `walrelay replay` start from, and what came of it."""

from tests.acceptance.deployment import Deployment
from tests.servers.topics import Received


def publish_orders(deployment: Deployment) -> None:
    """Three orders and a customer, published by a relay that runs on."""
    deployment.database.execute(
        "INSERT INTO outbox (aggregate_type, aggregate_id, type, payload, created_at) VALUES"
        " ('order', '1', 'Placed', '1', '2026-11-20 10:00+00'), ('order', '2', 'Placed', '2', '2026-11-20 11:00+00'),"
        " ('order', '1', 'Paid', '3', '2026-11-20 12:00+00'), ('customer', '1', 'Joined', '4', '2026-11-20 13:00+00')"
    )
    deployment.start()
    deployment.catch_up()


def replayed(deployment: Deployment, *topics: str) -> list[Received]:
    """The messages with the header that says so."""
    messages = deployment.kafka.read_all(*(topics or (deployment.topic,)))
    return [message for message in messages if ("replayed", b"true") in message.headers]


def values(messages: list[Received]) -> set[bytes | None]:
    return {message.value for message in messages}


def replays(deployment: Deployment) -> int:
    """How many rows are known to be published again, by replays that are not at their end."""
    (there,) = deployment.database.execute("SELECT to_regclass('walrelay.replays') IS NOT NULL")
    query = "SELECT coalesce(sum((progress->>'published')::int), 0)::int FROM walrelay.replays"
    return int(deployment.database.execute(query)[0][0]) if there[0] else 0
