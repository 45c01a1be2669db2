"""A broker that is away for ten minutes in a transaction is back-pressure: the run, lead, and connection stay, and the
state is true at every second.
"""

from collections.abc import Iterator
from contextlib import ExitStack
from itertools import cycle
from time import monotonic
from typing import Any

import pytest

from tests.acceptance.checking import assert_delivered
from tests.acceptance.conftest import Deploy, Measured
from tests.acceptance.deployment import Deployment
from tests.acceptance.test_every_broker import AWS, BROKERS, place_at
from tests.acceptance.test_every_broker_away import leaders, used_once
from tests.acceptance.test_states import Answers, row
from tests.acceptance.watching import Watcher
from tests.brokers import Broker
from tests.servers.aws import MotoServer
from tests.servers.database import Postgres
from tests.servers.kafka import KafkaServer
from tests.servers.waiting import wait_until

_ROWS = 10_000
_WINDOW = 1_000  # messages that may be on their way
_SHORT, _LONG = 12.0, 600.0  # seconds
_LIMIT = 3.0  # seconds until the stream is let go, so that a short outage shows that as well
_LOOKS = 5  # between two questions in all places
_QUICK = ["kafka", *BROKERS]
_EXACTLY_ONCE = ["nats", "redis"]  # a group of PostgreSQL has room for all of the transaction
_OTHERS = ["pubsub", "pulsar", "servicebus", *AWS]

Places = list[tuple[str, KafkaServer | Broker, str]]


@pytest.fixture
def places(request: pytest.FixtureRequest) -> Iterator[Places]:
    """Of each kind a place at a server of its own, and its topic."""
    with ExitStack() as stack:
        made: Places = []
        for kind in request.param:
            if kind == "kafka":
                broker: KafkaServer = request.getfixturevalue("broker")
                made.append((kind, broker, broker.create_topic(partitions=3)))
                stack.callback(broker.start)
                continue
            server = stack.enter_context(MotoServer()) if kind in AWS else request.getfixturevalue(f"stoppable_{kind}")
            place = place_at(kind, server)
            made.append((kind, place, place.topic))
            stack.callback(server.start)
        yield made


class Outage:
    """A relay whose broker goes away when it has the first part of a transaction."""

    def __init__(self, kind: str, broker: KafkaServer | Broker, deployment: Deployment) -> None:
        self.kind, self.broker, self.deployment, self.database = kind, broker, deployment, deployment.database
        used_once(deployment)
        self.relay = deployment.start()
        self.watcher = Watcher(self.relay)
        self.answers = Answers(deployment, self.relay)
        self.before = self._identity()
        assert self.before[0], "no instance leads"

    def begin(self) -> None:
        self.deployment.write_rows(_ROWS)
        wait_until(self._published, 60, f"{self.kind} to have the first events", interval=0.002)
        self.broker.kill()
        wait_until(lambda: row(self.deployment)["state"] == "waiting", 60, f"the relay to {self.kind} to wait")
        assert self._published() < _ROWS, "the transaction was over before the broker was away"
        wait_until(lambda: self.deployment.slot.pid is None, 60, "the stream to be let go")
        self.stalls = self._stalls()

    def look(self) -> None:
        """The state is the same all the time, not only each second: nothing is counted as another stall."""
        found = row(self.deployment)
        assert found["state"] == "waiting", f"{self.kind}: {found}"
        assert found["last_error"], "the row does not say why"
        assert self._stalls() == self.stalls, f"{self.kind}: {self.relay.log[-5:]}"
        assert leaders(self.database) == self.before[0]

    def ask(self) -> None:
        """All places that show a state, which takes a second."""
        told = self.answers.all()
        assert {each.state for each in told.values()} == {"waiting"}, told
        assert all(each.why for each in told.values()), told

    def end(self) -> None:
        self.broker.start()

    def check(self) -> int:
        """That everything arrived, in order, by the same run; how many events came again."""
        self.deployment.catch_up(180)
        assert self.relay.running
        assert self._identity() == self.before, "another lead, or another connection"
        assert self.relay.events("retrying") == self.relay.events("fatal") == []
        wait_until(lambda: row(self.deployment)["state"] == "streaming", 30, "the relay to say that it streams")
        delivered = assert_delivered(self.deployment)
        assert delivered.events == _ROWS + 1
        return delivered.duplicates

    def _stalls(self) -> tuple[int, int]:
        return row(self.deployment)["error_count"], len(self.relay.events("resumed"))

    def _published(self) -> float:
        return self.watcher.metric("walrelay_published_messages_total") or 0

    def _identity(self) -> tuple[list[int], int | None]:
        """The lead's process of PostgreSQL, and that of the stream."""
        wait_until(lambda: self.deployment.slot.pid, 30, "a stream")
        return leaders(self.database), self.deployment.slot.pid


@pytest.mark.parametrize(
    ("places", "seconds"),
    [
        *(pytest.param([kind], _SHORT, id=kind, marks=[] if kind == "nats" else pytest.mark.slow) for kind in _QUICK),
        *(pytest.param([kind], _SHORT, id=kind, marks=pytest.mark.slow) for kind in _OTHERS),
        pytest.param(_QUICK, _LONG, id="ten-minutes", marks=pytest.mark.chaos),
        pytest.param(_OTHERS, _LONG, id="ten-minutes-of-the-others", marks=pytest.mark.chaos),
    ],
    indirect=["places"],
)
@pytest.mark.timeout(_LONG + 900)
def test_a_broker_that_is_away_for_long_in_a_transaction_costs_no_run(
    deploy: Deploy, postgres: Postgres, places: Places, seconds: float, measured: Measured
) -> None:
    repeated = _away(deploy, postgres, places, seconds)
    measured(f"events that came again after {seconds:g} s without a broker", repeated)
    assert max(repeated.values()) <= _WINDOW


@pytest.mark.parametrize(
    ("places", "seconds"),
    [
        *(pytest.param([kind], _SHORT, id=kind, marks=pytest.mark.slow) for kind in _EXACTLY_ONCE),
        pytest.param(_EXACTLY_ONCE, _LONG, id="ten-minutes", marks=pytest.mark.chaos),
    ],
    indirect=["places"],
)
@pytest.mark.timeout(_LONG + 900)
def test_a_broker_that_is_away_for_long_costs_no_run_and_repeats_nothing_exactly_once(
    deploy: Deploy, postgres: Postgres, places: Places, seconds: float
) -> None:
    repeated = _away(deploy, postgres, places, seconds, delivery="exactly_once")
    assert set(repeated.values()) == {0}


def _away(deploy: Deploy, postgres: Postgres, places: Places, seconds: float, **settings: Any) -> dict[str, int]:
    """How many events came again, by kind."""
    with ExitStack() as stack:
        outages = []
        for kind, place, topic in places:
            database = postgres.create_database()
            stack.callback(database.drop)
            window = "max_queued_messages" if kind == "kafka" else "max_in_flight"
            of_all: dict[str, Any] = {"source": {"pause_limit": _LIMIT}, "http": {"listen": "127.0.0.1:0"}, **settings}
            if "delivery" not in settings:
                of_all["sink"] = {window: _WINDOW}
            elif kind == "nats":
                of_all["sink"] = {"stream": topic}
            outages.append(Outage(kind, place, deploy(database, place, topic, **of_all)))
        for each in outages:
            each.begin()
        end, turns = monotonic() + seconds, cycle(outages)
        while monotonic() < end:
            for _ in range(_LOOKS):
                for each in outages:
                    each.look()
                outages[0].relay.lives_for(1)
            next(turns).ask()
        for each in outages:
            each.end()
        repeated = {each.kind: each.check() for each in outages}
        for each in outages:
            each.relay.stop()
    return repeated
