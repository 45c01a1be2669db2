"""README and docs: every block of code runs as it is pasted, page by page, on real servers, or says why it does not."""

from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.acceptance.pages import KINDS, Block, Reader, pages
from tests.integration.libraries import url
from tests.servers.database import Database
from tests.servers.topics import Kafka

PAGES = pages()
RUN = {page: blocks for page, blocks in PAGES.items() if any(not each.reason for each in blocks)}

SECRETS = {
    "NATS_URL": "tls://relay:secret@nats-1:4222, tls://relay:secret@nats-2:4222",
    "PULSAR_TOKEN": "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiJyZWxheSJ9.x",
    "RABBITMQ_URL": "amqps://relay:secret@rabbit-1/orders",
    "WEBHOOK_URL": "https://hooks.example.com/in/{topic}",
    "WEBHOOK_SECRET": "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLjSw",
    "TARGET_URL": "postgresql://relay:secret@reporting/events?sslmode=verify-full",
    "SERVICEBUS_CONNECTION_STRING": "Endpoint=sb://acme.servicebus.windows.net/;SharedAccessKeyName=a;SharedAccessKey=b",
    "REDIS_URL": "rediss://relay:secret@redis-1:6379/0",
}
"""What the pages of sinks have in their settings. No block connects there."""


@pytest.fixture
def reader(database: Database, kafka: Kafka, tmp_path: Path) -> Iterator[Reader]:
    """With the addresses that the pages assume. The topics that they make end with the test."""
    before = set(kafka.admin.list_topics(timeout=10).topics)
    environment = {
        "DATABASE_URL": url(database.dsn, "psycopg").set(drivername="postgresql").render_as_string(hide_password=False),
        "KAFKA_BOOTSTRAP_SERVERS": kafka.bootstrap_servers,
        **SECRETS,
    }
    with Reader(tmp_path, environment) as made:
        yield made
    made_here = set(kafka.admin.list_topics(timeout=10).topics) - before
    kafka.delete_topics(*(topic for topic in made_here if not topic.startswith("__")))  # those are the broker's own


@pytest.mark.parametrize("page", RUN)
def test_every_block_of_a_page_runs_as_it_is_pasted(page: str, reader: Reader) -> None:
    for block in RUN[page]:
        if not block.reason:
            reader.paste(block)


def test_no_block_falls_out_unseen() -> None:
    blocks = [block for each in PAGES.values() for block in each]
    assert {block.kind for block in blocks} <= set(KINDS), [str(block) for block in blocks if block.kind not in KINDS]
    assert Counter(block.kind for block in blocks if block.reason) == {
        "sh": 20,
        "python": 2,
        "sql": 9,
        "yaml": 7,
        "json": 1,
    }


def test_a_fence_is_found_with_its_kind_and_its_reason_and_none_is_left_over() -> None:
    for page, blocks in PAGES.items():
        text = Path(page).read_text() if Path(page).is_absolute() else (Path(__file__).parents[2] / page).read_text()
        assert text.count("```") == 2 * len(blocks), page


def test_a_block_that_fails_is_told_with_its_place(reader: Reader) -> None:
    for kind, text in (("sh", "true\nfalse"), ("sql", "SELECT 1/0"), ("python", "1/0"), ("yaml", "sorce: 1")):
        with pytest.raises(AssertionError, match=r"page\.md:7"):
            reader.paste(Block("page.md", 7, kind, text, ""))
