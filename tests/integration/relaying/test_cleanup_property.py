"""Whatever is done to an outbox between writes, each row that a clean-up takes was in the topic.

A model of it is not needed: before a pass the rows are read, after it again, and what went is looked up at the broker.
"""

from random import Random

import pytest

from tests.integration.relaying.outbox_life import Life
from tests.servers.database import Database

pytestmark = pytest.mark.parametrize("way", ["text"])  # what is published is asked in one way only


@pytest.mark.parametrize("seed", [0, 1, *(pytest.param(seed, marks=pytest.mark.chaos) for seed in (2, 3))])
def test_every_row_that_is_deleted_was_in_the_topic_whatever_was_done_to_the_outbox(
    database: Database, way: str, seed: int
) -> None:
    live(database, way, Random(seed), 40)


@pytest.mark.chaos
@pytest.mark.timeout(300)
@pytest.mark.parametrize("seed", range(100, 300))
def test_every_row_that_is_deleted_was_in_the_topic_in_many_lives(database: Database, way: str, seed: int) -> None:
    live(database, way, Random(seed), 40)


@pytest.mark.chaos
@pytest.mark.timeout(1200)
@pytest.mark.parametrize("seed", range(300, 310))
def test_every_row_that_is_deleted_was_in_the_topic_over_a_long_life(database: Database, way: str, seed: int) -> None:
    live(database, way, Random(seed), 300)


def live(database: Database, way: str, random: Random, things: int) -> None:
    life = Life(database, way, random)
    try:
        for _ in range(things):
            life.happens()
        life.ends_well()
    finally:
        life.end_transaction()
