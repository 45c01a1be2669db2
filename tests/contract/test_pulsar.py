"""What Pulsar's answers mean, and what becomes of keys, headers and topics."""

import subprocess
import sys
from collections import Counter
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from tests.brokers.pulsar import PulsarCase, make, make_namespace, read
from tests.servers.ports import LOOPBACK, free_port
from tests.servers.pulsar import ProtectedPulsar, PulsarServer
from tests.servers.waiting import wait_until
from walrelay.errors import Fatal, Retryable, WalrelayError
from walrelay.model import Message, Receipt
from walrelay.publish import Sink
from walrelay.sinks.pulsar.messages import partition
from walrelay.sinks.pulsar.plugin import plugin
from walrelay.sinks.pulsar.settings import PulsarSettings
from walrelay.testing import complains, held, message, numbers, publish, receipts, refusal, settle

WRONG = "Timeout: nothing answers at sink.url, or every connection is closed there, as it is with wrong credentials"

pytestmark = [pytest.mark.slow, pytest.mark.java]


@pytest.fixture
def case(stoppable_pulsar: PulsarServer) -> PulsarCase:
    return PulsarCase(stoppable_pulsar)


def to(case: PulsarCase, number: int, topic: str, **members: Any) -> Message:
    return message(case, number)._replace(topic=topic, **members)


def test_key_ordering_key_properties_and_time_arrive(case: PulsarCase) -> None:
    with closing(case.open(ordering_key="{header.id}", compression="zstd")) as sink:
        publish(sink, case, range(7, 8))
        assert sink.publish(message(case, 8)._replace(value=None, key=None), 0)
        settle(sink, 2)
    found = {got.ordering_key(): got for got in read(case.server, case.address)}
    seven, eight = found["7"], found["8"]
    assert (seven.partition_key(), seven.data(), seven.event_timestamp()) == ("a", b"7", 1_700_000_000_000)
    assert seven.properties() == {"id": "7", "position": "0/1:0"}
    assert (eight.partition_key(), eight.has_null_value()) == ("", True)


def test_the_key_chooses_the_partition_and_what_has_none_is_in_the_first(case: PulsarCase) -> None:
    keys: list[str | None] = [*map(str, range(40)), None]
    with closing(case.open()) as sink:
        for number, key in enumerate(keys):
            assert sink.publish(message(case, number)._replace(key=None if key is None else key.encode()), 0)
        settle(sink, len(keys))
    for index in range(3):
        arrived = [got.key for got in case.arrived(f"{case.address}-partition-{index}")]
        expected = [(key or "").encode() for key in keys if partition(key or "", 3) == index]
        assert arrived == expected


def test_rows_say_which_namespace_and_one_that_does_not_exist_is_a_refusal(case: PulsarCase) -> None:
    namespace = make_namespace(case.server)
    with closing(case.open(topic="persistent://{topic}/orders")) as sink:
        lost = to(case, 1, "public/none")
        for each in (to(case, 0, namespace), lost, to(case, 2, "public/default", key=b"b")):
            assert sink.publish(each, 0)
        told = refusal(sink)
        assert (told.message, told.error, told.scope, told.ends) == (lost, "unknown_topic", "topic", False)
        where = "persistent://public/none/orders"
        assert told.reason == f"the topic or its namespace does not exist (Namespace not found): {where!r}"
        sink.flush(20)
    assert [got.value for got in case.arrived(f"persistent://{namespace}/orders")] == [b"0"]
    assert b"2" in [got.value for got in case.arrived("persistent://public/default/orders")]


def test_a_refused_message_is_not_overtaken_by_those_of_its_topic(case: PulsarCase) -> None:
    with closing(case.open(topic="persistent://{topic}")) as sink:
        lost = [to(case, number, "public/none/orders") for number in range(2)]
        for each in lost:
            assert sink.publish(each, 0)
        told = refusal(sink)
        assert (told.message, told.ends) == (lost[0], True)
        assert not sink.publish(lost[1], 0)
    with closing(case.open(topic="persistent://{topic}")) as careful:
        assert careful.publish(lost[0], 0)
        assert not careful.publish(lost[1], 0), "taken before the one ahead of it was decided"
        assert not refusal(careful).ends
        assert careful.publish(to(case, 2, f"public/default/{case.topic}"), 0)
        settle(careful, 1)
    assert numbers(case.arrived()) == [2]


def test_a_message_that_is_too_large_for_the_broker_is_refused_before_the_next_is_taken(case: PulsarCase) -> None:
    with closing(case.open(max_message_size=20 * 2**20)) as sink:
        assert sink.publish(message(case, 0), 0)
        settle(sink, 1)
        assert sink.publish(message(case, 1), 0)
        large = message(case, 2, size=6 * 2**20)
        assert sink.publish(large, 0)
        assert not sink.publish(message(case, 3), 0)
        told = refusal(sink)
        assert (told.message, told.error, told.scope, told.ends) == (large, "too_large", "message", False)
        while not sink.publish(message(case, 4), 0):
            assert all(isinstance(each, Receipt) for each in sink.receipts(0.05))
        sink.flush(20)
    assert numbers(case.arrived()) == [0, 1, 4]


@pytest.mark.parametrize("batching", [True, False])
def test_nothing_passes_a_refused_message_while_the_producer_is_made(case: PulsarCase, batching: bool) -> None:
    with closing(case.open(max_message_size=20 * 2**20, batching=batching)) as sink:
        large = message(case, 1, size=6 * 2**20)
        for each in (message(case, 0), large, *(message(case, number) for number in range(2, 22))):
            assert sink.publish(each, 0)
        told = refusal(sink)
        assert (told.message, told.error, told.ends) == (large, "too_large", True)
        sink.flush(1)
    assert numbers(case.arrived()) == [0]


def test_a_refusal_of_one_topic_holds_up_no_other_whose_producer_is_made(case: PulsarCase) -> None:
    with closing(case.open(topic="persistent://{topic}", max_message_size=20 * 2**20)) as sink:
        other = PulsarCase(case.server)
        large = to(case, 0, f"public/default/{case.topic}", value=b"x" * (6 * 2**20))
        assert sink.publish(large, 0)
        for number in range(1, 50):
            assert sink.publish(to(case, number, f"public/default/{other.topic}"), 0)
        assert refusal(sink).message == large
        sink.flush(20)
    assert numbers(other.arrived()) == list(range(1, 50))


def test_the_largest_message_arrives_with_its_headers(case: PulsarCase) -> None:
    header: list[tuple[str, bytes | None]] = [("a", b"x" * 1_000_000)]
    plain = message(case, 0, size=5 * 2**20 - 1_000_400)
    for batching in (True, False):
        with closing(case.open(batching=batching)) as sink:
            assert sink.publish(plain._replace(headers=header), 0)
            settle(sink, 1)
    assert [len(got.value or b"") for got in case.arrived()] == [5 * 2**20 - 1_000_400] * 2


def test_a_topic_that_was_terminated_is_a_refusal(stoppable_pulsar: PulsarServer) -> None:
    case = PulsarCase(stoppable_pulsar, partitions=0)
    with closing(case.open()) as sink:
        settle(sink, 1, publish(sink, case, range(1)))
        case.server.admin("POST", f"{case.address.replace('://', '/')}/terminate")
        assert sink.publish(message(case, 1), 0)
        told = refusal(sink)
        assert (told.error, told.scope) == ("topic_terminated", "topic")
    assert numbers(case.arrived()) == [0]


def test_a_broker_that_is_killed_leaves_no_repetition_where_the_namespace_deduplicates(
    stoppable_pulsar: PulsarServer,
) -> None:
    namespace = make_namespace(stoppable_pulsar)
    stoppable_pulsar.admin("POST", f"namespaces/{namespace}/deduplication", True)
    case = PulsarCase(stoppable_pulsar, namespace=namespace)
    with closing(case.open(request_timeout=120)) as sink:
        for killed in range(2):
            first = killed * 3_000
            settled = publish(sink, case, range(first, first + 1_500))
            case.server.kill()
            for number in range(first + 1_500, first + 3_000):
                assert sink.publish(message(case, number), 0)
            case.server.start()
            settle(sink, 3_000, settled, timeout=120)
    assert numbers(case.arrived()) == list(range(6_000))


def test_a_broker_that_dies_before_it_acknowledged_anything_drops_nothing_that_comes_later(
    stoppable_pulsar: PulsarServer,
) -> None:
    """The producer of a partition that has no receipt yet would begin to count again when it is connected again. What
    is new then would have ids that the broker knows, which would drop it, and acknowledge it.
    """
    namespace = make_namespace(stoppable_pulsar)
    stoppable_pulsar.admin("POST", f"namespaces/{namespace}/deduplication", True)
    case = PulsarCase(stoppable_pulsar, namespace=namespace)
    with closing(case.open(request_timeout=120)) as sink:
        other = next(key for key in "bcdefgh" if partition(key, 3) != partition("a", 3))
        assert sink.publish(message(case, 0, key=other), 0)  # the producers of all partitions are there then
        settle(sink, 1)
        case.hold()
        for number in range(500):
            assert sink.publish(message(case, number), 0)
        sink.flush(0.5)
        case.server.kill()
        case.server.start()
        settle(sink, 500, timeout=120)
        settle(sink, 500, publish(sink, case, range(500, 1_000)), timeout=120)
    assert numbers(case.arrived()) == list(range(1_000))


def test_a_full_backlog_is_waited_for(stoppable_pulsar: PulsarServer) -> None:
    namespace = make_namespace(stoppable_pulsar)
    case = PulsarCase(stoppable_pulsar, partitions=0, namespace=namespace)
    path = case.address.replace("://", "/")
    quota = {"limitSize": 100, "limitTime": -1, "policy": "producer_exception"}
    stoppable_pulsar.admin("POST", f"namespaces/{namespace}/backlogQuota?backlogQuotaType=destination_storage", quota)
    stoppable_pulsar.admin("PUT", f"{path}/subscription/slow", {"ledgerId": -1, "entryId": -1})
    taken = 0
    with closing(case.open(request_timeout=5)) as sink:

        def full() -> bool:
            nonlocal taken
            taken += sink.publish(message(case, taken, size=500), 0)
            receipts(sink, 0.05)
            return "its backlog is as large as the namespace's quota allows" in sink.trouble()

        wait_until(full, 60, "the backlog to be full")
        assert sink.trouble().startswith(f"Pulsar takes nothing for {case.address!r}: ")
        settled = publish(sink, case, range(taken, taken + 2_000))
        wait_until(lambda: receipts(sink, 0.05) or "quota" in sink.trouble(), 30, "it to be said again")
        stoppable_pulsar.admin("DELETE", f"namespaces/{namespace}/backlogQuota?backlogQuotaType=destination_storage")
        wait_until(lambda: (settled.update(receipts(sink, 0.05)), not in_flight(sink))[1], 90, "all to be taken")
        assert sink.trouble() == ""
    assert first(numbers(case.arrived())) == list(range(taken + 2_000))


def test_topics_take_turns_where_there_are_more_than_producers(case: PulsarCase) -> None:
    names = [f"{case.topic}-{number}" for number in range(5)]
    for name in names:
        make(case.server, f"persistent://public/default/{name}", 0)
    with closing(case.open(max_producers=2)) as sink:
        for number in range(40):
            while not sink.publish(to(case, number, names[number % 5]), 0):
                assert all(isinstance(each, Receipt) for each in sink.receipts(0.05))
        sink.flush(30)
    for index, name in enumerate(names):
        assert numbers(case.arrived(f"persistent://public/default/{name}")) == [*range(index, 40, 5)]


def in_flight(sink: Sink) -> bool:
    return bool(sink._in_flight)  # type: ignore[attr-defined]


def first(arrived: list[int]) -> list[int]:
    """Without repetitions."""
    return list(dict.fromkeys(arrived))


def said(sink: Sink, text: str, timeout: float = 60) -> Counter[int]:
    """Waits until its trouble has that in it; what was settled meanwhile."""
    settled: Counter[int] = Counter()
    wait_until(lambda: (settled.update(receipts(sink, 0.05)), text in sink.trouble())[1], timeout, f"{text!r}")
    return settled


def test_a_broker_that_says_nothing_is_told_of_and_waited_for(case: PulsarCase) -> None:
    with closing(case.open()) as sink:
        settle(sink, 1, publish(sink, case, range(1)))
        assert sink.trouble() == ""
        with held(case):
            said(sink, "has not answered for more than 5 s", 30)  # though nothing is on its way
            for number in range(1, 3_000):
                assert sink.publish(message(case, number), 0)
            settled = said(sink, "has not answered for more than 5 s", 30)
        settle(sink, 2_999, settled)
        said(sink, "")
    assert first(numbers(case.arrived())) == list(range(3_000))


def test_a_broker_that_is_away_at_first_is_told_of_and_gets_everything_once(case: PulsarCase) -> None:
    proxy = case.server.proxy
    proxy.refuse()
    try:
        with closing(case.open(**case.at(proxy.port), request_timeout=1)) as sink:
            assert sink.trouble().startswith("not connected to Pulsar at pulsar://")
            said(sink, "cannot be reached")  # though nothing was published
            for number in range(4_000):
                assert sink.publish(message(case, number), 0)
            settled = said(sink, f"Pulsar takes nothing for {case.address!r}: Timeout: nothing answers at sink.url")
            proxy.resume()
            settle(sink, 4_000, settled)
            wait_until(lambda: not receipts(sink, 0.05) and not sink.trouble(), 30, "no trouble")
    finally:
        proxy.resume()
    assert numbers(case.arrived()) == list(range(4_000))


def test_a_broker_that_goes_in_the_middle_is_waited_for_and_nothing_is_lost(case: PulsarCase) -> None:
    proxy = case.server.proxy
    with closing(case.open(**case.at(proxy.port), request_timeout=2)) as sink:
        settled = settle(sink, 1_000, publish(sink, case, range(3_000)))
        proxy.refuse()
        proxy.cut()
        try:
            settled += publish(sink, case, range(3_000, 6_000))
            settled += said(sink, "cannot be reached")
            assert settled.total() < 6_000
        finally:
            proxy.resume()
        settle(sink, 6_000, settled)
    assert first(numbers(case.arrived())) == list(range(6_000))


def test_a_message_that_became_too_large_while_it_was_on_its_way_is_refused(stoppable_pulsar: PulsarServer) -> None:
    """The client would send it again for ever, and the broker end the connection for it."""
    case = PulsarCase(stoppable_pulsar, partitions=0)
    with closing(case.open(request_timeout=2)) as sink:
        settle(sink, 1, publish(sink, case, range(1)))
        case.hold()
        large = message(case, 1, size=3 * 2**20)
        for each in (large, message(case, 2), message(case, 3)):
            assert sink.publish(each, 0)
        stoppable_pulsar.kill()
        with stoppable_pulsar.other_settings(maxMessageSize=2**20):
            stoppable_pulsar.start()
            told = refusal(sink, 90)
            assert (told.message, told.error, told.ends) == (large, "too_large", True)
        stoppable_pulsar.kill()
        stoppable_pulsar.start()
    assert numbers(case.arrived()) == [0]


def test_the_doctor_says_what_is_there_and_init_makes_what_is_missing(stoppable_pulsar: PulsarServer) -> None:
    namespace = make_namespace(stoppable_pulsar)
    case = PulsarCase(stoppable_pulsar, namespace=namespace)
    settings = case.settings(admin_url=case.server.admin_url)
    there, missing = case.address, f"persistent://{namespace}/missing"

    def findings(settings: PulsarSettings, *topics: str) -> list[tuple[str, str]]:
        return [(each.verdict, each.detail) for each in plugin.examine(settings, topics)]

    connected = ("ok", f"connected to Pulsar at {case.server.url}")
    repeats = f"namespace {namespace!r} does not say that it deduplicates: a connection that breaks may leave repeats"
    unread = f"{there!r} has no subscription, and its namespace may keep nothing: what is published is then deleted"
    assert findings(settings, case.topic, "missing", "some-*") == [
        connected,
        ("warning", repeats),
        ("warning", unread),
        ("warning", f"{missing!r} does not exist: it is made if the namespace allows it"),
    ]
    *_, (fix, _, _) = [each.fix.partition("\n") for each in plugin.examine(settings, ["missing"])]
    assert fix == "walrelay init --topics missing"
    assert plugin.make_topics is not None
    assert [*plugin.make_topics(settings, [case.topic, "missing"], 4, None)] == [(there, False), (missing, True)]
    for topic in (there, missing):
        path = topic.replace("://", "/")
        stoppable_pulsar.admin("PUT", f"{path}/subscription/billing", {"ledgerId": -1, "entryId": -1})
    stoppable_pulsar.admin("POST", f"namespaces/{namespace}/deduplication", True)
    assert findings(settings, case.topic, "missing") == [
        connected,
        ("ok", f"{there!r} is there: 3 partitions"),
        ("ok", f"{missing!r} is there: 4 partitions"),
    ]
    nowhere = case.settings(topic="persistent://public/none/{topic}", admin_url=case.server.admin_url)
    assert ("problem", "namespace 'public/none' does not exist") in findings(nowhere, "a")
    assert findings(case.settings(), "a") == [connected, ("warning", "what becomes of messages cannot be asked for")]
    away = case.settings(url=f"pulsar://{LOOPBACK}:{free_port()}", request_timeout=1)
    ((verdict, detail),) = findings(away, "a")
    assert verdict == "problem"
    assert detail.startswith(f"Pulsar cannot be reached at {away.url}: ")
    with pytest.raises(Fatal, match=r"sink\.admin_url does not say"):
        list(plugin.make_topics(case.settings(), ["a"], 1, None))
    dead = case.settings(admin_url=f"http://{LOOPBACK}:{free_port()}")
    with pytest.raises(Fatal, match="does not answer"):
        list(plugin.make_topics(dead, ["a"], 1, None))


_RELAY = """
import sys
from walrelay.model import Message
from walrelay.sinks.pulsar.plugin import plugin

sink = plugin.open(plugin.settings.model_validate({"url": sys.argv[1]}), plugin.memory())
sent = settled = 0
for turn in range(int(sys.argv[3])):
    for _ in range(int(sys.argv[4])):
        headers = [("id", str(sent).encode()), ("position", b"0/1:0")]
        assert sink.publish(Message(sys.argv[2], b"a", str(sent).encode(), headers, 1), 0)
        sent += 1
    settled += sum(receipt.messages for receipt in sink.receipts(0.004 + turn % 4 / 2000))
    sink.flush(0.001)
while settled < sent:
    settled += sum(receipt.messages for receipt in sink.receipts(1))
sink.close()
print(sent, end="")
"""
"""A process that publishes a few messages at a time, and ends at once when they are durable."""


def ended(case: PulsarCase, turns: int, each: int) -> int:
    """How many messages such a process published, `each` a turn."""
    command = [sys.executable, "-X", "faulthandler", "-c", _RELAY, case.server.url, case.topic, str(turns), str(each)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    return int(done.stdout)


def test_a_batch_that_leaves_while_the_relay_waits_never_stops_the_process(case: PulsarCase) -> None:
    """A call that keeps the interpreter's lock, and waits for a lock of the client's, whose thread waits for the
    interpreter's: neither a time limit nor a signal ends that.
    """
    sent = ended(case, 800, 2)
    assert numbers(case.arrived()) == [*range(sent)]


def test_a_process_that_ends_as_soon_as_its_sink_is_closed_does_not_crash(case: PulsarCase) -> None:
    sent = [ended(case, 1, 200) for _ in range(4)]
    assert len(case.arrived()) == sum(sent)


@pytest.fixture
def protected(protected_pulsar: ProtectedPulsar) -> PulsarCase:
    protected_pulsar.allow("relay")
    protected_pulsar.allow("user")
    return PulsarCase(protected_pulsar)


def lets_in(case: PulsarCase, **settings: Any) -> None:
    with closing(case.open(**settings)) as sink:
        settle(sink, 1, publish(sink, case, range(1)))


def keeps_out(case: PulsarCase, kind: type[WalrelayError] = Retryable, says: str = "Timeout: ", **settings: Any) -> str:
    try:
        with closing(case.open(**{"request_timeout": 3, **settings})) as sink:
            assert sink.publish(message(case, 0), 0)
            return complains(sink, says, 60)
    except kind as why:
        return str(why)


def test_a_token_and_one_in_a_file_that_is_renewed(
    protected: PulsarCase, protected_pulsar: ProtectedPulsar, tmp_path: Path
) -> None:
    lets_in(protected, token=protected_pulsar.token("relay"))
    file = tmp_path / "token"
    file.write_text("outdated")
    said = keeps_out(protected, token_file=str(file))
    assert WRONG in said
    file.write_text(protected_pulsar.token("relay") + "\n")
    lets_in(protected, token_file=str(file))
    with closing(protected.open(token_file=str(file))) as sink:
        file.unlink()  # as it is for a moment while it is renewed
        settle(sink, 1, publish(sink, protected, range(1)))
    assert WRONG in keeps_out(protected)
    assert "cannot be read" in keeps_out(protected, Fatal, token_file=str(tmp_path / "none"))


def test_a_user_with_a_password(protected: PulsarCase) -> None:
    lets_in(protected, username="user", password="secret")
    assert WRONG in keeps_out(protected, username="user", password="wrong")


def test_tls_with_a_certificate_of_the_relay(
    protected: PulsarCase, protected_pulsar: ProtectedPulsar, tmp_path: Path
) -> None:
    certificate, key = protected_pulsar.authority.sign("relay")
    trusting: dict[str, Any] = {"url": protected_pulsar.tls_url, "ca_file": str(protected_pulsar.authority.certificate)}
    own: dict[str, Any] = {"certificate_file": str(certificate), "key_file": str(key)}
    lets_in(protected, **trusting, **own)
    lets_in(protected, **trusting, token=protected_pulsar.token("relay"))
    strange = {"url": protected_pulsar.tls_url, **own}  # the authority is none of the system's
    assert keeps_out(protected, says="certificate verify failed", **strange)
    wrong: dict[str, Any] = {**trusting, "ca_file": str(tmp_path / "none.crt")}
    assert "the certificates for Pulsar cannot be read" in keeps_out(protected, Fatal, **wrong)


def test_a_role_without_the_right_is_a_refusal(protected: PulsarCase, protected_pulsar: ProtectedPulsar) -> None:
    with closing(protected.open(token=protected_pulsar.token("stranger"))) as sink:
        assert sink.publish(message(protected, 0), 0)
        told = refusal(sink)
        assert (told.error, told.scope, told.ends) == ("not_authorized", "topic", False)
    assert "pulsar-admin namespaces grant-permission" in told.hint
    findings = plugin.examine(protected.settings(token=protected_pulsar.token("stranger")), [])
    assert next(iter(findings)).verdict == "ok"
    (problem,) = plugin.examine(protected.settings(token="nonsense"), [])
    assert WRONG in problem.detail
    asked = protected.settings(token=protected_pulsar.token("relay"), admin_url=protected_pulsar.admin_url)
    assert {each.verdict for each in plugin.examine(asked, [protected.topic])} == {"ok", "warning"}


def test_nothing_is_left_of_a_sink_that_was_closed_while_its_producer_was_made(case: PulsarCase) -> None:
    sink = case.open()
    assert sink.publish(message(case, 0), 0)
    sink.close()
    wait_until(lambda: publishers(case) == 0, 30, "the producer to be gone")
    assert len(case.arrived()) <= 1


def publishers(case: PulsarCase) -> int:
    stats = case.server.admin("GET", f"{case.address.replace('://', '/')}/partitioned-stats")
    return len(stats["publishers"])
