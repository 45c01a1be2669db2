"""Whatever is kept by topic, key, type or error has a bound: 100,000 different ones leave few objects behind.

Each case is a place of a relay's process in which such names could gather. What gathers by message is bounded by what
is in flight; what gathers by relay goes with the relay.
"""

import gc
import logging
from collections import Counter
from collections.abc import Callable, Iterator
from types import BuiltinFunctionType, CellType, CodeType, FunctionType, MethodType, ModuleType
from typing import Any, cast

import pytest

from walrelay.config.routes import RuleSettings
from walrelay.control.activity import ActivityObserver
from walrelay.control.database import Controls
from walrelay.control.questions import Answers
from walrelay.dead_letter import DeadLetter, Origin
from walrelay.lsn import LSN
from walrelay.model import Message, OutboxRecord
from walrelay.observe import DeadLettered, Noticed, Observer, Relayed, Retrying
from walrelay.observe.numbers import OTHER_ERRORS, RelayNumbers
from walrelay.postgres.catalog import Catalog
from walrelay.route import Router
from walrelay.route.debezium import DebeziumOptions, DebeziumTopics
from walrelay.route.rules import RuleRouter
from walrelay.sinks.aws.sqs.api import SqsApi
from walrelay.sinks.aws.sqs.settings import SqsSettings
from walrelay.sinks.hosting.circuit import Circuit
from walrelay.sinks.pulsar.messages import ToPulsar
from walrelay.sinks.pulsar.settings import PulsarSettings
from walrelay.telemetry.logs import LogObserver, _Librdkafka
from walrelay.telemetry.otlp.outlet import Outlet
from walrelay.telemetry.otlp.traces import TracedRelay, TraceObserver
from walrelay.wiring import EventOptions, Wiring

MANY, FEW = 100_000, 60_000  # names; objects that may be left of them: the largest memory has 10,000 entries
_SHARED = ModuleType, type, CodeType, BuiltinFunctionType, logging.Logger


def objects(root: Any) -> int:
    """How many objects hang on it."""
    seen, left = set[int](), [root]
    while left:
        each = left.pop()
        if id(each) in seen or isinstance(each, _SHARED):
            continue
        seen.add(id(each))
        if isinstance(each, FunctionType):
            left += each.__closure__ or ()
        elif isinstance(each, MethodType):
            left.append(each.__self__)
        elif isinstance(each, CellType):
            left.append(each.cell_contents)
        else:
            left += gc.get_referents(each)
            left += [*each] if isinstance(each, dict) else []  # the collector of garbage passes over texts
    return len(seen)


def record(name: str) -> OutboxRecord:
    payload = f'{{"name": "{name}"}}'.encode()
    id_ = f"00000000-0000-0000-0000-{int(name[1:]):012}"
    return OutboxRecord(LSN(1), 0, 0, id_, name, name, name, payload, None, None, name, None)


def message(name: str) -> Message:
    headers: list[tuple[str, bytes | None]] = [("id", name.encode()), ("position", f"0/1:{name[1:]}".encode())]
    return Message(name, name.encode(), name.encode(), headers, 0)


def dead_letter(name: str) -> DeadLettered:
    return DeadLettered(DeadLetter(Origin(LSN(1), int(name[1:]), 0, name), "waiting", name, name, name))


def routed(router: Any) -> tuple[Any, Callable[[str], object]]:
    return router, lambda name: router.route(record(name))


def without_rules() -> tuple[Any, Callable[[str], object]]:
    return routed(Router("t.{aggregate_type}.{tenant_id}"))


def by_rules() -> tuple[Any, Callable[[str], object]]:
    rule = {
        "name": "all",
        "topic": "t.{type|kebab}",
        "key": "{payload.name|lower}",
        "headers": {"set": {"h": "{payload.name|short_name}"}},
    }
    return routed(RuleRouter([RuleSettings.model_validate(rule).rule], "t"))


def in_envelopes(kind: str) -> tuple[Any, Callable[[str], object]]:
    settings = RuleSettings.model_validate({"name": "all", "envelope": {"kind": kind}})
    assert settings.envelope is not None
    return routed(RuleRouter([settings.enveloped(settings.envelope)], "t.{aggregate_type}"))


def by_debezium() -> tuple[Any, Callable[[str], object]]:
    topics = DebeziumTopics(DebeziumOptions(), frozenset())
    return topics, lambda name: topics.of_record(record(name))


def observed(observer: Observer) -> tuple[Any, Callable[[str], object]]:
    def feed(name: str) -> None:
        observer.saw(Relayed(1, 1, [message(name)], last=LSN(1)))
        observer.saw(dead_letter(name))
        observer.saw(Noticed(name))
        observer.saw(Retrying(name, 1, 0.0, False, "Disconnected"))

    return observer, feed


class _FakeSink:
    kinds = ("",)


class _FakeWiring:
    slot, events, sink = "s", EventOptions(keep=100, payloads=True), _FakeSink()


def shown_while_asked() -> tuple[Any, Callable[[str], object]]:
    return observed(ActivityObserver(cast(Wiring, _FakeWiring()), "i"))


class _FakeOutlet:
    room = 2_048

    def offer(self, *_: object) -> None: ...

    def lose(self, *_: object) -> None: ...


def traced() -> tuple[Any, Callable[[str], object]]:
    outlet = cast(Outlet[Any], _FakeOutlet())
    observer = TraceObserver(TracedRelay("r", "s", {"": "kafka"}), outlet, Counter(), 1.0)
    return observed(observer)


def said_by_librdkafka() -> tuple[Any, Callable[[str], object]]:
    handler = _Librdkafka()
    words = str.maketrans("0123456789", "abcdefghij")

    def feed(name: str) -> None:
        for _ in range(2):
            handler.emit(logging.LogRecord("k", logging.ERROR, "", 0, name.translate(words), None, None))

    return handler, feed


def queues() -> tuple[Any, Callable[[str], object]]:
    class Client:
        def get_queue_url(self, **_: str) -> dict[str, str]:
            return {"QueueUrl": "https://sqs"}

        def send_message_batch(self, **_: object) -> dict[str, list[Any]]:
            return {"Successful": []}

    api = SqsApi(SqsSettings.model_validate({"queue": "{topic}", "region": "eu-west-1"}))
    return api, lambda name: api.put(Client(), name, [])


def topics_of_pulsar() -> tuple[Any, Callable[[str], object]]:
    convert = ToPulsar(PulsarSettings.model_validate({"url": "pulsar://h"}))
    return convert, lambda name: convert(message(name))


def failing_requests() -> tuple[Any, Callable[[str], object]]:
    circuit = Circuit()
    return circuit, lambda name: circuit.failed(int(name[1:]), 0.0, 1.0, speaks_for_all=False, pause=None)


def questions() -> tuple[Any, Callable[[str], object]]:
    answers = Answers(cast(Catalog, None))
    answers.slots = frozenset({"s"})

    def feed(name: str) -> None:
        answers.hear(name)
        answers.hear(f"s {name[1:]}")

    return answers, feed


CASES: dict[str, Callable[[], tuple[Any, Callable[[str], object]]]] = {
    "topics and types, without rules": without_rules,
    "topics, keys and headers, by rules": by_rules,
    "topics, by Debezium's router": by_debezium,
    "types, in MassTransit's envelopes": lambda: in_envelopes("masstransit"),
    "types, in Spring's envelopes": lambda: in_envelopes("spring"),
    "topics and errors, in metrics": lambda: observed(RelayNumbers("s")),
    "topics and errors, in live numbers and events": shown_while_asked,
    "errors, in traces": traced,
    "notices, in the log": lambda: observed(LogObserver()),
    "words of librdkafka, in the log": said_by_librdkafka,
    "queues of SQS": queues,
    "topics of Pulsar": topics_of_pulsar,
    "requests that fail": failing_requests,
    "questions to a relay": questions,
}


@pytest.fixture
def quiet() -> Iterator[None]:
    import structlog

    before = structlog.get_config()
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.CRITICAL))
    yield
    structlog.configure(**before)


@pytest.mark.usefixtures("quiet")
@pytest.mark.parametrize("case", CASES)
def test_a_hundred_thousand_names_leave_few_objects(case: str) -> None:
    holder, feed = CASES[case]()
    for number in range(MANY):
        feed(f"n{number}")
    assert objects(holder) < FEW


def test_the_count_of_objects_sees_what_gathers() -> None:
    gathered = dict[str, bytes]()
    assert objects(lambda: gathered) < 5
    gathered.update((f"n{number}", b"%d" % number) for number in range(MANY))
    assert objects(lambda: gathered) > 2 * MANY


def test_errors_beyond_the_bound_are_counted_together() -> None:
    numbers = RelayNumbers("s")
    for number in range(150):
        numbers.saw(dead_letter(f"e{number}"))
    numbers.saw(dead_letter("e7"))
    assert numbers.dead_letters["waiting", "e7"] == 2
    assert numbers.dead_letters["waiting", OTHER_ERRORS] == 50


def test_databases_that_come_and_go_leave_nothing_behind() -> None:
    class Tenant:
        sink, events, publication = _FakeSink(), EventOptions(), None

        def __init__(self, number: int) -> None:
            self.dsn, self.slot = f"dbname=d{number}", f"s{number}"

    controls = Controls()
    before = objects(controls)
    for number in range(1_000):
        controls.remove(controls.add("", cast(Wiring, Tenant(number))))
    assert objects(controls) <= before + 5
