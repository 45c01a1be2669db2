"""The processes that are there all the time: the writer and the consumer."""

import json
import os
import signal
import sys
from collections.abc import Mapping
from contextlib import ExitStack
from typing import IO, Any, NamedTuple

from walrelay.lab.bench.latency.journal import Journal
from walrelay.lab.bench.names import TOPIC
from walrelay.lab.servers.backstage import Backstage, Child


class Crew(NamedTuple):
    """`orders` takes the writer's; the journals are what either notes."""

    writer: Child
    orders: IO[str]
    commits: Journal
    consumer: Child
    receipts: Journal


def start(
    backstage: Backstage, stack: ExitStack, environment: Mapping[str, str], consumer_options: Mapping[str, Any]
) -> Crew:
    """Returns when the consumer will miss nothing. The stack ends them and closes the files."""
    commits, receipts = Journal(backstage.home / "commits"), Journal(backstage.home / "receipts")
    stack.callback(commits.close)
    stack.callback(receipts.close)
    fifo = backstage.home / "orders"
    os.mkfifo(fifo, 0o600)
    # For reading too, so that opening it does not wait for the writer.
    orders = stack.enter_context(os.fdopen(os.open(fifo, os.O_RDWR), "w"))
    arguments = [TOPIC, str(receipts.path), json.dumps(dict(consumer_options))]
    consumer = backstage.start("the consumer", _module("consumer", *arguments), environment=environment, output=True)
    writer = backstage.start("the writer", _module("writer", str(fifo), str(commits.path)), environment=environment)
    for child in (consumer, writer):  # before topic and tables are removed
        stack.callback(child.end, signal.SIGTERM)
    if not consumer.output.readline():
        raise consumer.failure("did not start")
    return Crew(writer, orders, commits, consumer, receipts)


def _module(name: str, *arguments: str) -> list[str]:
    return [sys.executable, "-m", f"walrelay.lab.bench.latency.{name}", *arguments]
