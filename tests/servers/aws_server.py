"""moto as a server, run as a program: PORT JOURNAL [CERTIFICATE KEY]. What a queue or stream takes is a line of the
journal before it is answered, so that a server that is killed loses nothing. One request at a time, in their order.

POST /_faults takes the faults that tests want: see `Fault` in tests/servers/aws.py.
"""

import json
import os
import ssl
import sys
from base64 import b64encode
from collections.abc import Callable, Iterable
from functools import cache
from io import BytesIO
from pathlib import Path
from typing import Any

import jsonpath_ng.ext
from moto.events.models import EventsBackend
from moto.kinesis.models import KinesisBackend, Stream
from moto.moto_server.werkzeug_app import DomainDispatcherApplication, create_backend_app
from moto.sns.models import SNSBackend
from moto.sqs.models import Queue, SQSBackend
from werkzeug.serving import run_simple
from werkzeug.test import Client
from werkzeug.wrappers import Request

_MAKING = {
    *("CreateQueue", "CreateTopic", "Subscribe", "CreateStream", "CreateEventBus", "PutRule", "PutTargets"),
}
faults: list[dict[str, Any]] = []


def fault_of(operation: str, text: str) -> dict[str, Any] | None:
    """The first that is for such a request or entry; it is used up a bit."""
    for each in faults:
        if each["operation"] == operation and each["containing"] in text and each["times"] > 0:
            each["times"] -= 1
            return each
    return None


def keep_a_journal(file: Path) -> None:
    """Patches moto where something is kept."""
    journal = file.open("ab", buffering=0)

    def note(place: str, **members: Any) -> None:
        journal.write(json.dumps({"place": place, **members}, default=_bytes).encode() + b"\n")

    add_message, put_record = Queue.add_message, Stream.put_record

    def add(self: Any, message: Any) -> None:
        before = len(self._messages)
        add_message(self, message)
        if len(self._messages) > before:
            attributes = message.message_attributes or {}
            ids = {"group": message.group_id, "repetition": message.deduplication_id}
            note(self.name, body=message.body, attributes=attributes, **ids)

    def put(self: Any, partition_key: str, explicit_hash_key: str, data: str) -> Any:
        sequence_number, shard = put_record(self, partition_key, explicit_hash_key, data)
        note(self.stream_name, data=data, key=partition_key, shard=shard, number=sequence_number)
        return sequence_number, shard

    Queue.add_message, Stream.put_record = add, put  # type: ignore[method-assign]


def be_quicker() -> None:
    """moto counts all messages of a queue, in three ways, a dozen times a request, and parses paths for each event."""
    jsonpath_ng.ext.parse = cache(jsonpath_ng.ext.parse)  # type: ignore[attr-defined]
    for name in ("messages", "messages_delayed", "messages_not_visible"):
        setattr(Queue, f"approximate_number_of_{name}", property(lambda self: 0))


def fail_entries() -> None:
    """Patches moto where requests of several entries are divided."""
    send, publish = SQSBackend.send_message_batch, SNSBackend.publish_batch
    put_records, put_events = KinesisBackend.put_records, EventsBackend.put_events

    def divided(operation: str, entries: list[Any]) -> tuple[list[Any], dict[int, dict[str, Any]]]:
        found = {number: fault_of(operation, str(each)) for number, each in enumerate(entries)}
        wrong = {number: fault for number, fault in found.items() if fault is not None}
        return [each for number, each in enumerate(entries) if number not in wrong], wrong

    def failed(entries: list[Any], wrong: dict[int, dict[str, Any]]) -> list[dict[str, Any]]:
        return [
            {"Id": entries[number]["Id"], "Code": fault["code"], "Message": "as told", "SenderFault": fault["senders"]}
            for number, fault in wrong.items()
        ]

    def send_batch(self: Any, queue_name: str, entries: dict[str, Any]) -> Any:
        all_entries = [*entries.values()]
        good, wrong = divided("SendMessageBatch", all_entries)
        kept = {key: each for key, each in entries.items() if each in good}
        sent, refused = send(self, queue_name, kept) if kept else ([], [])
        return sent, [*refused, *failed(all_entries, wrong)]

    def publish_entries(self: Any, topic_arn: str, publish_batch_request_entries: list[Any]) -> Any:
        good, wrong = divided("PublishBatch", publish_batch_request_entries)
        sent, refused = publish(self, topic_arn, good)
        return sent, [*refused, *failed(publish_batch_request_entries, wrong)]

    def put_all(self: Any, stream_arn: str, stream_name: str, records: list[Any]) -> Any:
        good, wrong = divided("PutRecords", records)
        answers = put_records(self, stream_arn, stream_name, good)["Records"] if good else []
        for number, fault in sorted(wrong.items()):
            answers.insert(number, {"ErrorCode": fault["code"], "ErrorMessage": "as told"})
        return {"FailedRecordCount": len(wrong), "Records": answers}

    def put_entries(self: Any, events: list[Any]) -> Any:
        good, wrong = divided("PutEvents", events)
        answers = put_events(self, good) if good else []
        for number, fault in sorted(wrong.items()):
            answers.insert(number, {"ErrorCode": fault["code"], "ErrorMessage": "as told"})
        return answers

    SQSBackend.send_message_batch = send_batch  # type: ignore[method-assign]
    SNSBackend.publish_batch = publish_entries  # type: ignore[method-assign]
    KinesisBackend.put_records = put_all  # type: ignore[method-assign]
    EventsBackend.put_events = put_entries  # type: ignore[method-assign]


Start = Callable[[str, list[tuple[str, str]]], Any]


class FaultyApplication:
    """moto, with requests that fail as a whole, as services of JSON say it."""

    def __init__(self, places: Path) -> None:
        self._moto = DomainDispatcherApplication(create_backend_app)
        self._places = places

    def make_again(self) -> None:
        """The queues and the like that were there before a kill, by the requests that made them."""
        lines = self._places.read_text().splitlines() if self._places.exists() else []
        for method, path, headers, body in map(json.loads, lines):
            assert Client(self._moto).open(path, method=method, headers=headers, data=body).status_code == 200, body

    def __call__(self, environ: dict[str, Any], start: Start) -> Iterable[bytes]:
        if environ["PATH_INFO"] == "/_faults":
            faults[:] = json.loads(environ["wsgi.input"].read(int(environ["CONTENT_LENGTH"])))
            start("204 No Content", [])
            return []
        operation = environ.get("HTTP_X_AMZ_TARGET", "").rpartition(".")[2]
        fault = fault_of(f"whole {operation}", "")
        self._note_if_it_makes(environ, operation)
        if fault is None:
            answer: Iterable[bytes] = self._moto(environ, start)
            return answer
        environ["wsgi.input"].read(int(environ["CONTENT_LENGTH"]))
        start(f"{fault['status']} as told", [("Content-Type", "application/x-amz-json-1.0")])
        return [json.dumps({"__type": fault["code"], "message": "as told"}).encode()]

    def _note_if_it_makes(self, environ: dict[str, Any], operation: str) -> None:
        if not operation or operation in _MAKING:
            request = Request(environ)
            body = request.get_data(parse_form_data=False, as_text=True)
            environ["wsgi.input"] = BytesIO(body.encode())
            if operation or any(f"Action={each}&" in body for each in _MAKING):
                with self._places.open("a") as file:
                    file.write(json.dumps([request.method, request.path, [*request.headers.items()], body]) + "\n")


def _bytes(value: Any) -> str:
    return b64encode(value).decode()


if __name__ == "__main__":
    port, file, *certificate = sys.argv[1:]
    os.environ["MOTO_PORT"] = port
    keep_a_journal(Path(file))
    be_quicker()
    fail_entries()
    context = None
    if certificate:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(*certificate)
    application = FaultyApplication(Path(f"{file}.places"))
    application.make_again()
    run_simple("127.0.0.1", int(port), application, threaded=False, ssl_context=context)
