"""A single Kafka broker (KRaft, from jars) of the tests' own, that they may stop, kill and start again."""

import re
import shutil
import signal
import subprocess
from base64 import urlsafe_b64encode
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol, Self
from uuid import uuid4

from confluent_kafka import KafkaException
from confluent_kafka.admin import (
    AclBinding,
    AclOperation,
    AclPermissionType,
    ResourcePatternType,
    ResourceType,
)

from tests.servers.kafka_jars import KafkaJars
from tests.servers.ports import LOOPBACK, free_port
from tests.servers.process import ServerProcess, memory, temporary_directory
from tests.servers.proxy import Proxy
from tests.servers.topics import Kafka
from tests.servers.waiting import wait_until

Properties = dict[str, Any]


class Listener(Protocol):
    """What clients connect to in the place of a broker."""

    @property
    def address(self) -> str: ...


class KafkaServer(Kafka):
    """A broker for clients, with a second listener for the tests themselves, which is never protected nor proxied.

    users: names and passwords; the clients' listener then asks for SASL/PLAIN, and a user may do what allow() grants.
    proxied: clients reach the broker through `proxy` only, also after they followed its metadata.
    through: the same with a listener of the caller's, who closes it: made for the broker's address, it has an own one.
    beside: the broker of which this is the second one of a cluster, without a controller of its own.
    properties: further broker settings, or others than the defaults.
    java_options: of the JVM, in the place of the archive of classes.
    """

    def __init__(
        self,
        jars: KafkaJars,
        *,
        auto_create_topics: bool = False,
        users: Mapping[str, str] | None = None,
        proxied: bool = False,
        through: Callable[[tuple[str, int]], Listener] | None = None,
        beside: "KafkaServer | None" = None,
        properties: Mapping[str, Any] | None = None,
        java_options: Sequence[str] = (),
    ) -> None:
        self._jars = jars
        self._java_options = java_options or [f"-XX:SharedArchiveFile={jars.classes}"]
        self._users = dict(users or {})
        self._process: ServerProcess | None = None
        self._clients_port, self._tests_port, self._controller_port = (free_port() for _ in range(3))
        self._beside = beside
        self._proxy = Proxy((LOOPBACK, self._clients_port)) if proxied else None
        listener = through((LOOPBACK, self._clients_port)) if through else self._proxy
        clients = listener.address if listener else f"{LOOPBACK}:{self._clients_port}"
        super().__init__(clients, for_tests=f"{LOOPBACK}:{self._tests_port}")
        self._home = temporary_directory("kafka", within=memory())
        self._log = self._home / "log"
        self._log.touch()
        shutil.copytree(jars.formatted, self._home / "data")
        if beside is not None:
            self._become_another()
        written = {**self._defaults(auto_create_topics), **self._protection(), **(properties or {})}
        (self._home / "server.properties").write_text("".join(f"{k}={v}\n" for k, v in written.items()))

    @property
    def proxy(self) -> Proxy:
        if self._proxy is None:
            raise RuntimeError("this broker was not made with proxied=True")
        return self._proxy

    @property
    def port(self) -> int:
        return self._clients_port

    @property
    def pid(self) -> int:
        if self._process is None:
            raise RuntimeError("the broker was never started, or stopped")
        return self._process.pid

    @property
    def running(self) -> bool:
        return self._process is not None and self._process.running

    def log(self) -> str:
        return self._log.read_text(errors="replace")

    def client_settings(self, user: str | None = None) -> dict[str, Any]:
        """What librdkafka needs to reach the clients' listener, as one of the users where there are some."""
        settings = {"bootstrap.servers": self.bootstrap_servers}
        if user is None:
            return settings
        return {
            **settings,
            "security.protocol": "SASL_PLAINTEXT",
            "sasl.mechanism": "PLAIN",
            "sasl.username": user,
            "sasl.password": self._users[user],
        }

    def allow(self, user: str, operation: AclOperation, topic: str) -> None:
        """Let the user do one thing with one topic."""
        who, pattern = f"User:{user}", ResourcePatternType.LITERAL
        acl = AclBinding(ResourceType.TOPIC, topic, pattern, who, "*", operation, AclPermissionType.ALLOW)
        admin = self.admin  # must live until the answer is there
        for grant in admin.create_acls([acl]).values():
            grant.result(15)

    def start(self, timeout: float = 60) -> None:
        """Returns when the broker answers a request for metadata."""
        if self.running:
            return
        self._process = ServerProcess(
            [
                self._jars.java,
                # Compiled quickly rather than well: a broker of the tests has little to do and does not live long.
                *("-Xmx384m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", *self._java_options),
                *("-cp", self._jars.class_path),
                *("kafka.Kafka", self._home / "server.properties"),
            ],
            log=self._log,
            cwd=self._home,
            last_signal=signal.SIGKILL,
        )
        try:
            admin = self.admin
            wait_until(lambda: self._answers(admin), timeout, "Kafka to answer", ignoring=KafkaException)
        except AssertionError as error:
            error.add_note(self.log()[-20_000:])
            raise

    def stop(self, timeout: float = 30) -> None:
        """SIGTERM; raises subprocess.TimeoutExpired when the broker does not end."""
        self._end(signal.SIGTERM, timeout)

    def kill(self) -> None:
        """SIGKILL: what was not written to disk by then stays in the kernel's cache and is not lost."""
        self._end(signal.SIGKILL, 10)

    def restart(self) -> None:
        self.stop()
        self.start()

    def remove(self) -> None:
        """Stop, at once if it must be, and delete the data."""
        try:
            self.stop(timeout=10)
        except subprocess.TimeoutExpired:
            self.kill()
        if self._proxy is not None:
            self._proxy.close()
        shutil.rmtree(self._home, ignore_errors=True)

    def __enter__(self) -> Self:
        try:
            self.start()
        except BaseException:
            self.remove()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.remove()

    def _end(self, number: signal.Signals, timeout: float) -> None:
        if self._process is None or not self._process.running:
            return
        self._process.signal(number)
        self._process.wait(timeout)
        self._process = None

    def _answers(self, admin: Any) -> bool:
        if not self.running:
            raise RuntimeError(f"Kafka ended while starting:\n{self.log()[-20_000:]}")
        return bool(admin.list_topics(timeout=0.5).brokers)

    def _defaults(self, auto_create_topics: bool) -> Properties:
        clients, tests = f"CLIENTS://{self.bootstrap_servers}", f"TESTS://{LOOPBACK}:{self._tests_port}"
        listeners = f"CLIENTS://{LOOPBACK}:{self._clients_port},{tests}"
        if self._beside is None:
            role = {"process.roles": "broker,controller", "node.id": 1}
            controller_port = self._controller_port
            listeners += f",CONTROLLER://{LOOPBACK}:{controller_port}"
        else:
            role = {"process.roles": "broker", "node.id": 2}
            controller_port = self._beside._controller_port
        return {
            **role,
            "controller.quorum.voters": f"1@{LOOPBACK}:{controller_port}",
            "controller.listener.names": "CONTROLLER",
            "inter.broker.listener.name": "TESTS",
            "listeners": listeners,
            "advertised.listeners": f"{clients},{tests}",
            "listener.security.protocol.map": "CLIENTS:PLAINTEXT,TESTS:PLAINTEXT,CONTROLLER:PLAINTEXT",
            "log.dirs": self._home / "data",
            # The tests' messages have times of 2023. With seven days' retention, which a broker enforces 30 s after
            # its start and then every 5 minutes, they would be deleted under the test.
            "log.retention.ms": -1,
            "auto.create.topics.enable": str(auto_create_topics).lower(),
            # A killed broker may register again when its old session is over: with the default 9 s every test that
            # kills one would wait that long.
            "broker.session.timeout.ms": 1500,
            "broker.heartbeat.interval.ms": 300,
            # Twice a second the controller would write that nothing happens: a quarter of what an idle broker costs.
            "metadata.max.idle.interval.ms": 0,
            # One broker, small and soon ready.
            "offsets.topic.replication.factor": 1,
            "offsets.topic.num.partitions": 1,
            "transaction.state.log.replication.factor": 1,
            "transaction.state.log.min.isr": 1,
            "transaction.state.log.num.partitions": 1,
            "group.initial.rebalance.delay.ms": 0,
            "log.cleaner.dedupe.buffer.size": 2 * 1024 * 1024,
            "num.network.threads": 2,
            "num.io.threads": 2,
        }

    def _become_another(self) -> None:
        """The data directory, which was formatted for the first broker, as the second one's."""
        meta = self._home / "data" / "meta.properties"
        own = urlsafe_b64encode(uuid4().bytes).decode().rstrip("=")
        text = re.sub("(?m)^node.id=.*$", "node.id=2", meta.read_text())
        meta.write_text(re.sub("(?m)^directory.id=.*$", f"directory.id={own}", text))

    def _protection(self) -> Properties:
        if not self._users:
            return {}
        module = "org.apache.kafka.common.security.plain.PlainLoginModule"
        accounts = " ".join(f'user_{name}="{password}"' for name, password in self._users.items())
        return {
            "listener.security.protocol.map": "CLIENTS:SASL_PLAINTEXT,TESTS:PLAINTEXT,CONTROLLER:PLAINTEXT",
            "listener.name.clients.sasl.enabled.mechanisms": "PLAIN",
            "listener.name.clients.plain.sasl.jaas.config": f"{module} required {accounts};",
            "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
            "super.users": "User:ANONYMOUS",  # whoever comes by the tests' own listener
        }
