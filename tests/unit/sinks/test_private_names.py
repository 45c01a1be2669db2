"""Names of client libraries that are not public and that sinks need: a release without them is noticed here."""

import inspect
from importlib import import_module
from typing import Any

import boto3
import botocore.credentials
import pika.adapters.base_connection
import pytest
from azure.servicebus._pyamqp.aio import _client_async, _link_async
from azure.servicebus.aio import ServiceBusClient
from azure.servicebus.exceptions import ServiceBusError
from pulsar import _pulsar

_CONNECTION = "Endpoint=sb://localhost/;SharedAccessKeyName=a;SharedAccessKey=b"


def client() -> Any:
    return boto3.client("sqs", region_name="eu-west-1", aws_access_key_id="a", aws_secret_access_key="b")


def test_azure_servicebus_has_what_the_service_bus_sink_needs() -> None:
    sender = ServiceBusClient.from_connection_string(_CONNECTION).get_queue_sender("a")
    assert hasattr(sender, "_max_message_size_on_link")
    for owner, name in (
        (type(sender), "_handler"),
        (_client_async.AMQPClientAsync, "_link"),
        (_link_async.Link, "_error"),
        (ServiceBusError, "_condition"),
    ):
        assert f"self.{name} =" in inspect.getsource(owner), f"{owner.__name__}.{name}"
    assert callable(_client_async.AMQPClientAsync.client_ready_async)


def test_pika_has_what_the_rabbitmq_sink_needs() -> None:
    source = inspect.getsource(pika.adapters.base_connection.BaseConnection)
    assert "self._transport =" in source or "self._transport:" in source


def test_botocore_has_what_the_sinks_of_aws_need() -> None:
    made = client()
    assert {"http", "https"} <= {*made._endpoint.http_session._pool_classes_by_scheme}
    assert hasattr(made._request_signer, "_credentials")
    assert hasattr(boto3.Session(), "_session")
    assert "popen" in inspect.signature(botocore.credentials.ProcessProvider).parameters
    assert "ProcessProvider(" in inspect.getsource(botocore.credentials.ProfileProviderBuilder)


@pytest.mark.parametrize(
    ("owner", "names"),
    [
        ("Client", ["create_producer_async_v2", "get_topic_partitions_async", "close_async", "shutdown"]),
        ("Producer", ["send_async", "close_async", "is_connected"]),
        ("ProducerConfiguration", ["initial_sequence_id", "send_timeout_millis", "message_router", "schema"]),
        ("ClientConfiguration", ["operation_timeout_seconds", "connection_timeout", "set_file_logger"]),
        ("Result", ["MessageTooBig", "TopicTerminated", "ProducerBlockedQuotaExceededException", "Timeout"]),
    ],
)
def test_pulsar_has_what_its_sink_needs(owner: str, names: list[str]) -> None:
    assert [name for name in names if not hasattr(getattr(_pulsar, owner), name)] == []


@pytest.mark.parametrize(("module", "name"), [("json_schema", "_retrieve_via_httpx"), ("protobuf", "_init_pool")])
def test_confluent_kafka_has_what_schemas_need(module: str, name: str) -> None:
    assert callable(getattr(import_module(f"confluent_kafka.schema_registry.common.{module}"), name))
