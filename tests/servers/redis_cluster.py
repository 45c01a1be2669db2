"""A Redis Cluster of the tests' own: masters, and a replica of each if it is wanted."""

from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any, NamedTuple, Self

import redis
from redis.crc import key_slot

from tests.servers.ports import LOOPBACK, free_port
from tests.servers.redis import RedisServer
from tests.servers.waiting import wait_until

_SLOTS = 16384


class RedisNode(RedisServer):
    """`node_timeout`: milliseconds after which the others give it up."""

    def __init__(self, program: Path, node_timeout: int, *options: str) -> None:
        super().__init__(program, *options)
        self._node_timeout, self.bus = node_timeout, free_port()

    def _arguments(self) -> Sequence[str | Path]:
        settings = {
            "enabled": "yes",
            "port": str(self.bus),
            "node-timeout": str(self._node_timeout),
            "replica-validity-factor": "0",
            "migration-barrier": "9",  # a replica stays where it is
        }
        own = (word for name, value in settings.items() for word in (f"--cluster-{name}", value))
        return [*super()._arguments(), *own]

    def ask(self, *command: Any) -> Any:
        with self.client(decode_responses=True) as client:
            return client.execute_command(*command)

    @property
    def name(self) -> str:
        return str(self.ask("CLUSTER", "MYID"))

    @property
    def is_master(self) -> bool:
        return bool(self.ask("ROLE")[0] == "master")

    @property
    def well(self) -> bool:
        """Whether it knows all of the cluster, and takes part in it."""
        return "cluster_state:ok" in str(self.ask("CLUSTER", "INFO"))


class SlotMove(NamedTuple):
    """A hash slot on its way to another master, step by step as redis-cli does it."""

    cluster: "RedisCluster"
    slot: int
    source: RedisNode
    target: RedisNode

    def begin(self) -> None:
        """The source still has its keys; others are for the target."""
        self.target.ask("CLUSTER", "SETSLOT", self.slot, "IMPORTING", self.source.name)
        self.source.ask("CLUSTER", "SETSLOT", self.slot, "MIGRATING", self.target.name)

    def move_keys(self) -> None:
        if keys := self.source.ask("CLUSTER", "GETKEYSINSLOT", self.slot, 1000):
            self.source.ask("MIGRATE", LOOPBACK, self.target.port, "", 0, 10_000, "KEYS", *keys)

    def end(self) -> None:
        """The target has the slot, and all masters know."""
        name = self.target.name
        others = [node for node in self.cluster.nodes if node not in (self.source, self.target)]
        for node in (self.target, self.source, *others):
            if node.running and node.is_master:
                node.ask("CLUSTER", "SETSLOT", self.slot, "NODE", name)


class RedisCluster:
    """Runs from when it is entered. `options`: of each server's command line."""

    def __init__(
        self, program: Path, *options: str, masters: int = 3, replicas: bool = False, node_timeout: int = 30_000
    ) -> None:
        count = masters * (2 if replicas else 1)
        self.nodes = [RedisNode(program, node_timeout, *options) for _ in range(count)]
        self._masters = masters
        self._stack = ExitStack()

    def __enter__(self) -> Self:
        with ExitStack() as stack:
            for node in self.nodes:
                stack.enter_context(node)
            self._form()
            self._stack = stack.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    @property
    def port(self) -> int:
        return self.nodes[0].port

    @property
    def url(self) -> str:
        return ", ".join(node.url for node in self.nodes)

    def client(self) -> "redis.RedisCluster":
        """The caller closes it."""
        return redis.RedisCluster(host=LOOPBACK, port=self.port)

    def kill(self) -> None:
        for node in self.nodes:
            node.kill()

    def start(self) -> None:
        for node in self.nodes:
            node.start()
        self.wait_until_well()

    def wait_until_well(self) -> None:
        """As far as the nodes run."""
        running = [node for node in self.nodes if node.running]
        wait_until(lambda: all(node.well for node in running), 60, "the cluster", ignoring=redis.RedisError)

    def master_of(self, key: str) -> RedisNode:
        """As the masters see it that run."""
        asked = next(node for node in self.nodes if node.running)
        for first, last, (_, port, *_rest), *_ in asked.ask("CLUSTER", "SLOTS"):
            if first <= key_slot(key.encode()) <= last:
                return next(node for node in self.nodes if node.port == port)
        raise LookupError(key)

    def replica_of(self, master: RedisNode) -> RedisNode:
        return next(
            node for node in self.nodes if node.running and node.ask("ROLE")[:3] == ["slave", LOOPBACK, master.port]
        )

    def move(self, key: str) -> SlotMove:
        """The hash slot of that key, to a master that does not have it."""
        source = self.master_of(key)
        target = next(node for node in self.nodes if node.running and node is not source and node.is_master)
        return SlotMove(self, key_slot(key.encode()), source, target)

    def _form(self) -> None:
        share = -(-_SLOTS // self._masters)
        masters, replicas = self.nodes[: self._masters], self.nodes[self._masters :]
        for number, node in enumerate(self.nodes):
            node.ask("CLUSTER", "SET-CONFIG-EPOCH", number + 1)
        for number, node in enumerate(masters):
            node.ask("CLUSTER", "ADDSLOTSRANGE", number * share, min(_SLOTS, (number + 1) * share) - 1)
        for node in self.nodes[1:]:
            node.ask("CLUSTER", "MEET", LOOPBACK, self.port, self.nodes[0].bus)
        self.wait_until_well()
        for node, master in zip(replicas, masters, strict=False):
            name = master.name
            wait_until(lambda name=name, node=node: name in node.ask("CLUSTER", "NODES"), 20, "the nodes to meet")  # type: ignore[misc]
            node.ask("CLUSTER", "REPLICATE", name)
        for node in replicas:
            wait_until(lambda node=node: node.ask("ROLE")[3] == "connected", 30, "the replica to follow")  # type: ignore[misc]
        count = f"cluster_known_nodes:{len(self.nodes)}"
        wait_until(lambda: all(count in node.ask("CLUSTER", "INFO") for node in self.nodes), 20, "the nodes to meet")
