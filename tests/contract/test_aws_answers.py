"""What becomes of messages when AWS takes some and not others, throttles, answers not at all, or is not what it should
be. moto, a fake of AWS, is told to do so.
"""

import json
import os
import threading
from collections.abc import Iterator
from contextlib import closing, suppress
from pathlib import Path
from time import monotonic
from typing import Any

import psutil
import pytest

from tests.brokers.aws import AwsCase, EventbridgeCase, KinesisCase, SnsCase, SqsCase, access
from tests.conftest import ProxyMaker
from tests.servers.aws import ACCOUNT, CREDENTIALS, REGION, Fault, MotoServer
from tests.servers.certificates import Authority
from tests.servers.waiting import wait_until
from tests.servers.webhook import Endpoint, answering, response
from walrelay.errors import Fatal, Retryable
from walrelay.model import Finding, Message, Refusal
from walrelay.publish import Sink
from walrelay.testing import complains, failure, message, numbers, publish, settle

pytestmark = pytest.mark.slow

CASES: dict[str, type[AwsCase]] = {
    "sqs": SqsCase,
    "sns": SnsCase,
    "kinesis": KinesisCase,
    "eventbridge": EventbridgeCase,
}
OF_JSON = ["sqs", "kinesis", "eventbridge"]


@pytest.fixture(params=[*CASES])
def case(request: pytest.FixtureRequest, stoppable_moto: MotoServer) -> Iterator[AwsCase]:
    made = CASES[request.param](stoppable_moto)
    yield made
    stoppable_moto.fail()


def refusal(sink: Sink) -> Refusal:
    """The next one; receipts that come before it do not count."""
    deadline = monotonic() + 30
    while monotonic() < deadline:
        for each in sink.receipts(0.05):
            if isinstance(each, Refusal):
                return each
    raise AssertionError("nothing was refused")


def publish_all(sink: Sink, *messages: Message) -> None:
    for each in messages:
        assert sink.publish(each, 0)


def keyed(case: AwsCase, number: int, key: str) -> Message:
    return message(case, number, key=key)


def marked(case: AwsCase, number: int, key: str) -> Message:
    """Which a fault can be for: the mark is in no other."""
    made = keyed(case, number, key)
    return made._replace(headers=[*made.headers, ("mark", b"poison")])


def test_entries_that_fail_are_sent_again_before_the_next_of_their_key(case: AwsCase) -> None:
    keys = ["a", "b", "c", "partition-poison"]
    case.server.fail(Fault(case.operation, "InternalFailure", containing="partition-poison", times=3))
    with closing(case.open()) as sink:
        for number in range(5):
            publish_all(sink, *(keyed(case, number, key) for key in keys))
        settle(sink, 20)
        assert sink.trouble() == ""
    arrived = case.arrived()
    for key in keys:
        assert numbers(arrived, key) == [*range(5)]


@pytest.mark.parametrize("case", ["sqs", "sns", "eventbridge"], indirect=True)  # Kinesis refuses no single record
def test_what_aws_will_never_take_is_refused_and_the_others_arrive(case: AwsCase) -> None:
    case.server.fail(Fault(case.operation, "InvalidArgument", containing="poison", times=1_000, senders=True))
    with closing(case.open()) as sink:
        poison = marked(case, 1, "b")
        publish_all(sink, keyed(case, 0, "a"), poison, keyed(case, 2, "c"), keyed(case, 3, "b"))
        refused = refusal(sink)
        assert refused.message is poison
        assert (refused.error, refused.scope, refused.ends) == ("refused", "message", True)
        assert "InvalidArgument: as told" in refused.reason
    with closing(case.open()) as careful:
        publish_all(careful, poison)
        assert not careful.publish(keyed(case, 3, "b"), 0), "taken before the one ahead of it was decided"
        assert not refusal(careful).ends
        publish_all(careful, keyed(case, 3, "b"))
        settle(careful, 1)
    assert numbers(case.arrived(), "b") == [3]


@pytest.mark.parametrize("case", OF_JSON, indirect=True)
@pytest.mark.parametrize(("code", "status"), [("ThrottlingException", 400), ("ServiceUnavailable", 503)])
def test_throttling_is_waited_for_in_the_same_run(case: AwsCase, code: str, status: int) -> None:
    case.server.fail(Fault(f"whole {case.operation}", code, times=2, status=status))
    with closing(case.open()) as sink:
        publish_all(sink, *(keyed(case, number, "ab"[number % 2]) for number in range(10)))
        told: list[Any] = []

        def in_trouble() -> str:
            told.extend(sink.receipts(0.02))
            return "" if "not connected" in sink.trouble() else sink.trouble()

        assert code in wait_until(in_trouble, 30, "trouble", interval=0.001)
        settle(sink, 10 - sum(each.messages for each in told))
        assert sink.trouble() == ""
    assert numbers(case.arrived(), "a") == [0, 2, 4, 6, 8]
    assert numbers(case.arrived(), "b") == [1, 3, 5, 7, 9]


@pytest.mark.parametrize("case", OF_JSON, indirect=True)
def test_a_proxy_that_answers_instead_of_aws_is_waited_for(case: AwsCase) -> None:
    with (
        Endpoint(answering(response("403 Forbidden", body="<html>No way</html>"))) as between,
        closing(case.open(endpoint_url=f"http://127.0.0.1:{between.port}")) as sink,
    ):
        publish_all(sink, keyed(case, 0, "a"), keyed(case, 1, "a"))

        def in_trouble() -> bool:
            assert not [*sink.receipts(0.02)]
            return "403: <html>No way</html>" in sink.trouble()

        wait_until(in_trouble, 30, "trouble")


@pytest.mark.parametrize("case", OF_JSON, indirect=True)
def test_a_request_that_is_refused_as_a_whole_is_sent_in_its_parts(case: AwsCase) -> None:
    case.server.fail(Fault(f"whole {case.operation}", "ValidationException"))
    with closing(case.open()) as sink:
        publish_all(sink, *(keyed(case, number, f"key {number}") for number in range(8)))
        settle(sink, 8)
    assert len(case.arrived()) == 8


@pytest.mark.parametrize("case", ["sqs", "sns", "kinesis"], indirect=True)  # moto has an error of its own for buses
def test_where_nothing_is_is_refused_and_the_others_arrive(case: AwsCase) -> None:
    lost = keyed(case, 1, "b")._replace(topic="nowhere.fifo")
    with closing(case.open()) as sink:
        publish_all(sink, keyed(case, 0, "a"), lost, keyed(case, 2, "c"))
        refused = refusal(sink)
        assert refused.message is lost
        assert (refused.error, refused.scope, refused.ends) == ("unknown_topic", "topic", False)
        sink.flush(10)
    assert [got.value for got in case.arrived()] == [b"0", b"2"]


@pytest.mark.parametrize("case", ["sqs", "sns"], indirect=True)
def test_a_repetition_is_dropped_and_what_is_alike_in_one_run_is_not(case: AwsCase) -> None:
    for _ in range(2):
        with closing(case.open()) as sink:
            publish_all(sink, keyed(case, 0, "a"), keyed(case, 0, "a"), keyed(case, 1, "a"))
            settle(sink, 3)
    assert numbers(case.arrived()) == [0, 0, 1]


@pytest.mark.parametrize("case", ["sqs"], indirect=True)
def test_a_consumer_gets_body_attributes_group_and_id(case: AwsCase) -> None:
    sent = keyed(case, 1, "42")
    sent = sent._replace(headers=[*sent.headers, ("trace", b"\xff")])
    with closing(case.open()) as sink:
        publish_all(sink, sent)
        settle(sink, 1)
    client = case.server.sqs
    url = client.get_queue_url(QueueName=case.topic)["QueueUrl"]
    (got,) = client.receive_message(QueueUrl=url, AttributeNames=["All"], MessageAttributeNames=["All"])["Messages"]
    attributes = got["MessageAttributes"]
    assert got["Body"] == "1"
    assert {name: each.get("StringValue") for name, each in attributes.items() if name != "trace"} == {
        "id": "1",
        "position": "0/1:0",
        "key": "42",
    }
    assert attributes["trace"]["BinaryValue"] == b"\xff"
    assert got["Attributes"]["MessageGroupId"] == "42"
    assert got["Attributes"]["MessageDeduplicationId"].startswith("1.")


@pytest.mark.parametrize("case", ["sqs", "sns"], indirect=True)
@pytest.mark.parametrize("form", ["base64", "document"])
def test_what_is_no_text_arrives_in_another_form(case: AwsCase, form: str) -> None:
    sent = keyed(case, 1, "a")._replace(value=b"\xff\0")
    with closing(case.open()) as sink:
        publish_all(sink, sent)
        assert refusal(sink).error == "serialization"
    with closing(case.open(format=form)) as sink:
        publish_all(sink, sent)
        settle(sink, 1)
    (arrived,) = case.server.arrived(case.topic)
    body = arrived["body"] if form == "base64" else json.loads(arrived["body"])["value_base64"]
    assert body == "/wA="


@pytest.mark.parametrize("case", ["kinesis"], indirect=True)
@pytest.mark.parametrize("ordering", ["per_key", "strict"])
def test_records_of_a_key_have_growing_numbers_in_one_shard(case: AwsCase, ordering: str) -> None:
    with closing(case.open(ordering=ordering)) as sink:
        settle(sink, 30, publish(sink, case, range(30)))
    records = [*case.server.arrived(case.topic)]
    assert len({each["shard"] for each in records}) == 1
    found = [int(each["number"]) for each in records]
    assert found == sorted({*found})
    assert numbers(case.arrived()) == [*range(30)]


@pytest.mark.parametrize("case", ["sqs"], indirect=True)
def test_a_queue_without_order_gets_everything_where_that_is_meant(case: AwsCase) -> None:
    name = case.topic.removesuffix(".fifo")
    case.server.sqs.create_queue(QueueName=name)
    plain = [keyed(case, number, "a")._replace(topic=name) for number in range(30)]
    with closing(case.open()) as sink:
        publish_all(sink, plain[0])
        assert "no order" in refusal(sink).reason
    with closing(case.open(ordering="none")) as sink:
        publish_all(sink, *plain)
        settle(sink, 30)
    assert sorted(int(each["body"]) for each in case.server.arrived(name)) == [*range(30)]


@pytest.mark.parametrize("case", OF_JSON, indirect=True)
def test_credentials_that_are_not_accepted_may_become_right(case: AwsCase) -> None:
    case.server.fail(Fault(f"whole {case.operation}", "ExpiredTokenException", status=403, times=1))
    with closing(case.open()) as sink:
        publish_all(sink, *(keyed(case, number, f"k{number}") for number in range(4)))
        complains(sink, "does not accept the credentials: ExpiredTokenException")
        settle(sink, 4)


@pytest.mark.parametrize("case", ["sqs"], indirect=True)
def test_credentials_are_found_as_by_every_program(
    case: AwsCase, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    secrets = f"aws_access_key_id = {CREDENTIALS['access_key_id']}\naws_secret_access_key = s3cret\n"
    (tmp_path / "credentials").write_text(f"[shop]\n{secrets}")
    for name in ("AWS_CONFIG_FILE", "AWS_SHARED_CREDENTIALS_FILE"):
        monkeypatch.setenv(name, str(tmp_path / "credentials"))
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    monkeypatch.setenv("AWS_ENDPOINT_URL_STS", case.server.url)
    nothing: dict[str, Any] = {"access_key_id": None, "secret_access_key": None}
    role = {**nothing, "profile": "shop", "role_arn": f"arn:aws:iam::{ACCOUNT}:role/relay", "external_id": "shop"}
    for settings in ({**nothing, "profile": "shop"}, role):
        with closing(case.open(**settings)) as sink:
            publish_all(sink, keyed(case, 1, "a"))
            settle(sink, 1)
    with closing(case.open(**nothing)) as sink:
        publish_all(sink, keyed(case, 1, "a"))
        complains(sink, "Unable to locate credentials")
    with closing(case.open(**nothing, profile="nobody")) as sink:
        publish_all(sink, keyed(case, 1, "a"))
        assert "nobody" in failure(sink, Fatal)


class CredentialProgram:
    """A program of the profile `slow` that gives credentials; it says with which process it is asked, and waits while
    there is a file `waits`.
    """

    def __init__(self, directory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self._asked, self._waits = directory / "asked", directory / "waits"
        self._asked.touch()
        self._waits.touch()
        program = directory / "program"
        given = json.dumps({"Version": 1, "AccessKeyId": CREDENTIALS["access_key_id"], "SecretAccessKey": "s3cret"})
        program.write_text(f"#!/bin/sh\necho $$ >>{self._asked}\n[ -e {self._waits} ] && sleep 3000\necho '{given}'\n")
        program.chmod(0o755)
        (directory / "config").write_text(f"[profile slow]\ncredential_process = {program}\n")
        monkeypatch.setenv("AWS_CONFIG_FILE", str(directory / "config"))
        self.settings: dict[str, Any] = {"access_key_id": None, "secret_access_key": None, "profile": "slow"}

    @property
    def asked(self) -> list[int]:
        return [int(line) for line in self._asked.read_text().split()]

    def answer(self) -> None:
        """From now on."""
        self._waits.unlink()

    def ended(self) -> bool:
        """Whether none of its processes is left, nor one that they started."""
        return not any(_session_of(each) in self.asked for each in psutil.process_iter())


def _session_of(process: psutil.Process) -> int:
    """0 where it has ended."""
    with suppress(ProcessLookupError, psutil.NoSuchProcess):
        return 0 if process.status() == psutil.STATUS_ZOMBIE else os.getsid(process.pid)
    return 0


@pytest.fixture
def program(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> CredentialProgram:
    return CredentialProgram(tmp_path, monkeypatch)


@pytest.mark.parametrize("case", ["sqs"], indirect=True)
def test_a_program_that_gives_no_credentials_is_ended_and_asked_again(
    case: AwsCase, program: CredentialProgram
) -> None:
    settings: dict[str, Any] = {**program.settings, "request_timeout": 1}
    sink = case.open(**settings)
    said: list[str] = []

    def lives() -> bool:
        """The relay opens a sink that has ended again."""
        nonlocal sink
        try:
            told = list(sink.receipts(0.05))
        except Retryable as why:
            said.append(str(why))
            sink.close()
            sink = case.open(**settings)
            publish_all(sink, keyed(case, 1, "a"))
            return False
        said.append(sink.trouble())
        return bool(told)

    try:
        publish_all(sink, keyed(case, 1, "a"))
        wait_until(lambda: lives() or len(program.asked) > 1, 30, "the program to be asked again")
        assert any("the program has given none for 1 s, and was ended" in each for each in said), said
        program.answer()
        wait_until(lives, 30, "a receipt")
    finally:
        sink.close()
    wait_until(program.ended, 10, "the programs to end")
    assert numbers(case.arrived()) == [1]


@pytest.mark.parametrize("case", ["sqs"], indirect=True)
def test_close_leaves_no_program_behind(case: AwsCase, program: CredentialProgram) -> None:
    with closing(case.open(**program.settings)) as sink:
        wait_until(lambda: not [*sink.receipts(0.02)] and program.asked, 30, "the program to be asked")
        assert not program.ended()
    wait_until(program.ended, 5, "the program to end")


@pytest.mark.parametrize("case", ["sqs"], indirect=True)
def test_the_doctor_does_not_wait_for_credentials_without_end(case: AwsCase, program: CredentialProgram) -> None:
    (found,) = findings(case, [case.topic], **program.settings, request_timeout=1)
    assert found.verdict == "problem"
    assert "the program has given none for 1 s" in found.detail
    wait_until(program.ended, 5, "the program to end")


@pytest.fixture(scope="module")
def encrypted(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Authority, MotoServer]]:
    authority = Authority(tmp_path_factory.mktemp("certificates"))
    certificate, key = authority.sign("aws")
    with MotoServer(certificate, key, trusted=authority.certificate) as server:
        yield authority, server


def test_a_certificate_is_checked(encrypted: tuple[Authority, MotoServer]) -> None:
    authority, server = encrypted
    case = SqsCase(server)
    with closing(case.open(ca_file=str(authority.certificate))) as sink:
        publish_all(sink, keyed(case, 1, "a"))
        settle(sink, 1)
    with closing(case.open()) as stranger:
        publish_all(stranger, keyed(case, 2, "a"))
        complains(stranger, "certificate verify failed")
    assert numbers(case.arrived()) == [1]


@pytest.mark.parametrize("case", ["sqs"], indirect=True)
@pytest.mark.parametrize("breaks", ["stall", "half_open", "refuse"])
def test_a_connection_that_breaks_ends_the_run_and_the_next_one_repeats(
    case: AwsCase, proxy: ProxyMaker, breaks: str
) -> None:
    between = proxy(case.server.port)
    settings: dict[str, Any] = {"endpoint_url": f"http://127.0.0.1:{between.port}", "request_timeout": 1}
    url = f"http://127.0.0.1:{between.port}/{ACCOUNT}/{case.topic}"
    with closing(case.open(**settings, queue=url)) as sink:
        settle(sink, 1, publish(sink, case, range(1)))
        getattr(between, breaks)()
        publish_all(sink, keyed(case, 1, "a"), keyed(case, 2, "a"))
        began = monotonic()
        said = complains(sink)
        assert "has not answered for 1 s" in said or "cannot be reached" in said
        assert monotonic() - began < 10
    between.cut()
    between.resume()
    with closing(case.open(**{**settings, "request_timeout": 30}, queue=url)) as sink:
        settle(sink, 2, publish(sink, case, range(1, 3)))
    assert numbers(case.arrived()) == [0, 1, 2]


@pytest.mark.parametrize("case", ["sqs"], indirect=True)
def test_close_ends_the_threads_that_wait_for_an_answer(case: AwsCase, proxy: ProxyMaker) -> None:
    between = proxy(case.server.port)
    sink = case.open(endpoint_url=f"http://127.0.0.1:{between.port}", queue=f"http://127.0.0.1:{between.port}/q.fifo")
    between.stall()
    publish_all(sink, *(keyed(case, number, str(number)) for number in range(30)))
    wait_until(lambda: not [*sink.receipts(0.02)] and between.accepted, 30, "a request")
    sink.close()

    def ended() -> bool:
        return not any(each.name == "walrelay-sink" and each.is_alive() for each in threading.enumerate())

    wait_until(ended, 5, "the threads to end")


def findings(case: AwsCase, topics: list[str], **settings: Any) -> list[Finding]:
    made = case.plugin.settings.model_validate({**access(case.server), **case.settings, **settings})
    return [*case.plugin.examine(made, topics)]


def test_the_doctor_says_what_is_missing_and_init_makes_it(case: AwsCase) -> None:
    missing = f"new-{case.topic}"
    found = findings(case, [case.topic, missing])
    assert [each.verdict for each in found[:1]] == ["ok"]
    (problem,) = [each for each in found if each.verdict == "problem"]
    assert "does not exist" in problem.detail
    assert problem.fix.startswith(f"walrelay init --topics {missing}\n# or correct sink.")
    assert case.plugin.make_topics is not None
    made = case.plugin.settings.model_validate({**access(case.server), **case.settings})
    topics = [case.topic, missing]
    assert [new for _, new in case.plugin.make_topics(made, topics, 2, None)] == [False, True]
    assert [new for _, new in case.plugin.make_topics(made, topics, 2, None)] == [False, False]
    assert [each for each in findings(case, topics) if each.verdict == "problem"] == []


def test_the_doctor_says_that_nobody_is_there(case: AwsCase) -> None:
    found = findings(case, [case.topic], endpoint_url="http://127.0.0.1:9")
    assert found[0].verdict == "problem"
    assert "cannot be asked" in found[0].detail
    nowhere = findings(case, [case.topic], profile="nobody", access_key_id=None, secret_access_key=None)
    assert nowhere[0].verdict == "problem"
    assert "nobody" in nowhere[0].detail


def test_the_doctor_asks_where_no_place_is_known(case: AwsCase) -> None:
    """Rows say where messages go: reach and credentials can be asked about all the same."""
    template = {
        name: "{header.place}" for name in ("queue", "stream", "bus") if name in case.plugin.settings.model_fields
    }
    if not template:
        template = {"topic_arn": f"arn:aws:sns:{REGION}:{ACCOUNT}:{{header.place}}"}
    answered, *_ = findings(case, [case.topic], **template)
    assert answered.verdict == "ok"
    assert "answers, and accepts the credentials; where messages go is known when they come" in answered.detail
    away, *_ = findings(case, [case.topic], **template, endpoint_url="http://127.0.0.1:9")
    assert away.verdict == "problem"
    assert "cannot be asked" in away.detail


@pytest.mark.parametrize("case", ["sqs"], indirect=True)
def test_the_doctor_says_that_credentials_are_not_accepted_where_no_place_is_known(case: AwsCase) -> None:
    for code, verdict in (("ExpiredTokenException", "problem"), ("AccessDeniedException", "ok")):
        case.server.fail(Fault("whole ListQueues", code, status=403))
        found, *_ = findings(case, [case.topic], queue="{header.place}.fifo")
        assert found.verdict == verdict, found


def test_the_doctor_warns_of_what_loses_events_or_order(stoppable_moto: MotoServer) -> None:
    sqs, sns, bus = SqsCase(stoppable_moto), SnsCase(stoppable_moto), EventbridgeCase(stoppable_moto)
    stoppable_moto.sqs.create_queue(QueueName="unordered", Attributes={"MessageRetentionPeriod": "3600"})
    (problem,) = findings(sqs, ["unordered"])
    assert "keeps no order" in problem.detail
    told = [each.detail for each in findings(sqs, ["unordered"], ordering="none") if each.verdict == "warning"]
    assert "drops what nobody has received for 1 hours" in told[0]
    assert "no order" in told[1]
    stoppable_moto.client("sns").create_topic(Name="lonely.fifo", Attributes={"FifoTopic": "true"})
    assert "has no subscription" in findings(sns, ["lonely.fifo"])[1].detail
    stoppable_moto.client("events").create_event_bus(Name="lonely")
    assert "has no rule" in findings(bus, ["lonely"])[1].detail
    assert "keeps no order" in findings(bus, [bus.topic])[-1].detail


def test_the_doctor_tells_rights_from_credentials(stoppable_moto: MotoServer) -> None:
    case = SqsCase(stoppable_moto)
    stoppable_moto.fail(Fault("whole GetQueueAttributes", "AccessDeniedException"))
    (found,) = findings(case, [case.topic])
    assert (found.verdict, "cannot be asked about" in found.detail) == ("warning", True)
    stoppable_moto.fail(Fault("whole GetQueueUrl", "InvalidClientTokenId", status=403))
    (found,) = findings(case, [case.topic])
    assert (found.verdict, "does not accept the credentials" in found.detail) == ("problem", True)
    stoppable_moto.fail()
