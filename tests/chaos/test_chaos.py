"""Minutes of random faults, and at the end the same check as ever: everything arrived, in commit order.

WALRELAY_CHAOS_SECONDS (600) says for how long, WALRELAY_CHAOS_SEED which faults.
"""

import os
import random
import time
from collections import Counter

import pytest
from psycopg.conninfo import make_conninfo

from tests.acceptance.checking import assert_delivered
from tests.acceptance.conftest import Deploy, Measured
from tests.acceptance.writing import Writers
from tests.chaos.faults import FAULTS, World
from tests.conftest import KafkaMaker, PostgresMaker, ProxyMaker

SECONDS = float(os.environ.get("WALRELAY_CHAOS_SECONDS", "600"))
SEED = int(os.environ.get("WALRELAY_CHAOS_SEED") or random.SystemRandom().getrandbits(32))


@pytest.mark.chaos
@pytest.mark.timeout(SECONDS + 600)
def test_whatever_breaks_every_event_arrives_in_commit_order(
    deploy: Deploy,
    private_postgres: PostgresMaker,
    private_kafka: KafkaMaker,
    proxy: ProxyMaker,
    measured: Measured,
) -> None:
    measured("seed", SEED)
    rng, happened = random.Random(SEED), Counter[str]()
    postgres, kafka = private_postgres(wal_sender_timeout="5s"), private_kafka(proxied=True)
    database, way = postgres.create_database(), proxy(postgres.port)
    source = {
        "dsn": make_conninfo(database.through(way), connect_timeout=3),
        "receive_timeout": 4,
        "pause_limit": 5,
        "publication_check_interval": 0.5,
    }
    sink = {"max_queued_messages": 500}
    deployment = deploy(database, kafka, kafka.create_topic(partitions=3), source=source, sink=sink)
    deployment.start()
    end = time.monotonic() + SECONDS
    with Writers(database, seed=SEED, pause=0.01) as writers:
        world = World(deployment, writers, postgres, way, kafka, rng)
        while time.monotonic() < end:
            fault = rng.choice(FAULTS)
            happened[fault.__name__] += 1
            fault(world)
            world.relay.lives_for(rng.uniform(0, 3))
    deployment.catch_up(120)
    measured("faults", dict(happened))
    measured("after all of them", assert_delivered(deployment, writers))
