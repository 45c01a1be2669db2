"""Waiting for append-only files: what is durable then, and servers and users that cannot be asked for it."""

from contextlib import closing
from typing import Any

import pytest

from tests.brokers.redis import RedisCase, replicate, user
from tests.conftest import RedisMaker
from tests.servers.redis import RedisServer
from tests.servers.waiting import wait_until
from walrelay.errors import Fatal
from walrelay.lsn import LSN
from walrelay.model import Counting, System
from walrelay.publish import Sink
from walrelay.sinks.redis.plugin import plugin
from walrelay.testing import complains, failure, message, numbers, publish, settle

NOT_ON_DISK = "what was published last is not in Redis's append-only file on disk yet"
NO_FILE = "Redis writes no append-only file, and sink.wait_aof waits for it: CONFIG SET appendonly yes"
FSYNCED = ("--appendonly", "yes", "--appendfsync", "always")
UNFSYNCED = ("--appendonly", "yes", "--appendfsync", "no")


def waits_for(sink: Sink, trouble: str) -> None:
    wait_until(lambda: not [*sink.receipts(0.05)] and trouble in sink.trouble(), 20, "the sink to wait")


def problems(case: RedisCase, **settings: Any) -> list[tuple[str, str]]:
    found = plugin.examine(case.settings(wait_aof=True, **settings), [])
    return [(each.detail, each.fix) for each in found if each.verdict == "problem"]


def test_a_server_that_cannot_be_asked_is_refused_and_nothing_is_published(redis: RedisServer) -> None:
    """Debian's Redis is older than WAITAOF."""
    with closing(RedisCase(redis)) as case, closing(case.open(wait_aof=True)) as sink:
        version = case.client.info("server")["redis_version"].split(".")
        if (int(version[0]), int(version[1])) >= (7, 2):
            pytest.skip("this Redis knows WAITAOF")
        sink.publish(message(case, 0), 0)
        said = failure(sink, Fatal)
        assert said.endswith(", which has no WAITAOF, and sink.wait_aof is set")
        assert problems(case) == [
            (said, "Use Redis 7.2 or later, or Valkey. Or leave sink.wait_aof out, and set appendfsync always there.")
        ]
        assert not case.client.exists(case.topic)


@pytest.mark.slow
def test_durable_is_what_is_on_disk(private_valkey: RedisMaker) -> None:
    with closing(RedisCase(private_valkey(*UNFSYNCED))) as case, closing(case.open(wait_aof=True)) as sink:
        assert problems(case) == [
            (
                "appendfsync is no, and sink.wait_aof is set: nothing becomes durable",
                "CONFIG SET appendfsync always, or everysec",
            )
        ]
        for number in range(10):
            assert sink.publish(message(case, number), 0)
        waits_for(sink, NOT_ON_DISK)
        assert numbers(case.arrived()) == [*range(10)], "Redis has them, though not on disk"
        case.client.config_set("appendfsync", "everysec")
        settle(sink, 10)
        assert sink.trouble() == ""
        assert problems(case) == []
        case.server.kill()
        case.server.start()
        assert numbers(case.arrived()) == [*range(10)]


@pytest.mark.slow
def test_durable_is_what_the_replicas_have_on_disk(private_valkey: RedisMaker) -> None:
    master, replica = private_valkey(*FSYNCED), private_valkey()
    with closing(RedisCase(master)) as case, replica.client() as other:
        replicate(other, master)
        with closing(case.open(wait_aof=True, wait_replicas=1)) as sink:
            for number in range(10):
                assert sink.publish(message(case, number), 0)
            waits_for(sink, "of Redis's replicas 0 have what was published last on disk, and 1 should")
            assert other.xlen(case.topic) == 10, "the replica has them, though not on disk"
            other.config_set("appendonly", "yes")
            settle(sink, 10)
            assert sink.trouble() == ""


@pytest.mark.slow
def test_what_an_earlier_run_published_is_on_disk_before_its_position_is_believed(private_valkey: RedisMaker) -> None:
    here, counting = System("7000000000000000001", 1), Counting("pgoutput", "walrelay", "outbox", None)
    assert plugin.exactly_once is not None
    with closing(RedisCase(private_valkey(*UNFSYNCED))) as case:
        settings = case.settings(wait_aof=True)
        with closing(plugin.exactly_once.open(settings, case.memory, here, "relay", counting)) as before:
            wait_until(before.fence, 20, "the fence")
            assert before.publish(message(case, 0), 10)
            before.mark(LSN(10))
            waits_for(before, NOT_ON_DISK)
        with closing(plugin.exactly_once.open(settings, case.memory, here, "relay", counting)) as after:
            wait_until(lambda: not after.fence() and after.trouble() == NOT_ON_DISK, 20, "the sink to wait")
            case.client.config_set("appendfsync", "always")
            wait_until(after.fence, 20, "the fence")
            found = after.last()
            assert found is not None
            assert found.lsn == 10
        assert numbers(case.arrived()) == [0]


@pytest.mark.slow
def test_a_file_that_is_no_longer_written_is_waited_for_and_nothing_is_repeated_for_ever(
    private_valkey: RedisMaker,
) -> None:
    with closing(RedisCase(private_valkey(*FSYNCED))) as case:
        with closing(case.open(wait_aof=True)) as sink:
            settle(sink, 1, publish(sink, case, range(1)))
            case.client.config_set("appendonly", "no")
            assert sink.publish(message(case, 1), 0)
            complains(sink, "appendonly is disabled")
        for _ in range(3):
            with closing(case.open(wait_aof=True)) as successor:
                successor.publish(message(case, 1), 0)
                assert complains(successor, NO_FILE).startswith(NO_FILE)
        assert numbers(case.arrived()) == [0, 1]
        assert problems(case) == [(NO_FILE, "CONFIG SET appendonly yes")]
        case.client.config_set("appendonly", "yes")
        with closing(case.open(wait_aof=True)) as successor:
            settle(successor, 2, publish(successor, case, range(1, 3)))
        assert numbers(case.arrived()) == [0, 1, 1, 2]


@pytest.mark.slow
def test_a_user_who_may_not_wait_is_refused(private_valkey: RedisMaker) -> None:
    with closing(RedisCase(private_valkey(*FSYNCED))) as case:
        url = user(case, "~*", "+eval", "+xadd")
        with closing(case.open(url=url, wait_aof=True)) as sink:
            assert "NOPERM" in failure(sink, Fatal)
        case.client.execute_command("ACL", "SETUSER", "relay", "+waitaof")  # type: ignore[no-untyped-call]
        with closing(case.open(url=url, wait_aof=True)) as sink:
            settle(sink, 1, publish(sink, case, range(1)))
