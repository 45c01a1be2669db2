"""Apache Pulsar: broker, bookie and metadata in one process of the tests' own."""

import hashlib
import hmac
import json
import subprocess
import urllib.request
from base64 import b64encode, urlsafe_b64encode
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from http import HTTPStatus
from pathlib import Path
from typing import Any, ClassVar
from urllib.error import HTTPError, URLError

from tests.servers.certificates import Authority
from tests.servers.ports import LOOPBACK, free_port
from tests.servers.process import memory
from tests.servers.proxy import Proxy
from tests.servers.single import SingleServer
from tests.servers.waiting import wait_until

_JAVA = [
    # Compiled quickly rather than well: a broker of the tests has little to do and does not live long.
    *("-Xms64m", "-Xmx512m", "-XX:MaxDirectMemorySize=256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1"),
    *("-Djava.net.preferIPv4Stack=true", "-Dio.netty.tryReflectionSetAccessible=true"),
    *("-Dorg.apache.pulsar.shade.io.netty.tryReflectionSetAccessible=true", "-Dio.netty.leakDetectionLevel=disabled"),
    *("-Dlog4j2.is.webapp=false", "-Dlog4j2.formatMsgNoLookups=true", "-Dbookkeeper.metadata.bookie.drivers="
      "org.apache.pulsar.metadata.bookkeeper.PulsarMetadataBookieDriver", "-Dbookkeeper.metadata.client.drivers="
      "org.apache.pulsar.metadata.bookkeeper.PulsarMetadataClientDriver"),
]  # fmt: skip
_OPENED = [
    *("java.base/java.io", "java.base/java.util.zip", "java.base/java.nio", "java.base/java.lang"),
    *("java.base/jdk.internal.misc", "java.base/jdk.internal.platform", "java.base/sun.net", "java.base/sun.nio.ch"),
    *("java.management/sun.management", "jdk.management/com.sun.management.internal"),
]
_LOG = """<?xml version="1.0" encoding="UTF-8"?>
<Configuration status="error">
  <Appenders>
    <RollingFile name="file" fileName="{home}/server.log" filePattern="{home}/server.log.%i">
      <PatternLayout pattern="%d %-5level %c{{1}} %msg%n%throwable{{short.2}}"/>
      <SizeBasedTriggeringPolicy size="20MB"/>
      <DefaultRolloverStrategy max="1"/>
    </RollingFile>
  </Appenders>
  <Loggers><Root level="info"><AppenderRef ref="file"/></Root></Loggers>
</Configuration>
"""


class PulsarServer(SingleServer):
    """The namespace public/default is ready before it answers. What nobody has read stays, also in topics without
    subscriptions. `settings`: further ones of standalone.conf, or others than these.
    """

    NAME = "Pulsar"
    PATIENT_WITH = OSError
    START_WITHIN: ClassVar[float] = 120

    def __init__(self, java: Path, distribution: Path, settings: Mapping[str, Any] | None = None) -> None:
        super().__init__(java, within=memory())
        self._distribution, self._settings = distribution, dict(settings or {})
        self._web_port, self._proxied_port = free_port(), free_port()
        self.proxy = Proxy((LOOPBACK, self._proxied_port))
        self.admin_headers: dict[str, str] = {}
        """With which the tests themselves may do everything."""

    @property
    def url(self) -> str:
        return f"pulsar://{LOOPBACK}:{self.port}"

    @property
    def proxied_url(self) -> str:
        """Whoever begins here is sent to no other address."""
        return f"pulsar://{self.proxy.address}"

    @property
    def admin_url(self) -> str:
        return f"http://{LOOPBACK}:{self._web_port}"

    @contextmanager
    def other_settings(self, **settings: Any) -> Iterator[None]:
        """When it is started in the block, it has these."""
        before, self._settings = self._settings, {**self._settings, **settings}
        try:
            yield
        finally:
            self._settings = before

    def admin(self, method: str, path: str, content: Any = None) -> Any:
        """Of the administrator's REST interface: what it answers; HTTPError where it refuses."""
        request = urllib.request.Request(
            f"{self.admin_url}/admin/v2/{path}",
            method=method,
            data=None if content is None else json.dumps(content).encode(),
            headers={"Content-Type": "application/json", **self.admin_headers},
        )
        answered = wait_until(lambda: self._answered(request), 60, "the bookie to be trusted again")
        assert answered is not None
        (text,) = answered
        try:
            return json.loads(text) if text else None
        except ValueError:
            return text.decode()

    def _answered(self, request: urllib.request.Request) -> tuple[bytes] | None:
        """None while the bookie, which was held or just began, counts as faulty."""
        try:
            with urllib.request.urlopen(request, timeout=30) as answer:
                return (answer.read(),)
        except HTTPError as error:
            if error.code == HTTPStatus.INTERNAL_SERVER_ERROR and "non-faulty bookies" in str(error):
                return None
            raise

    def __exit__(self, *_: object) -> None:
        super().__exit__()
        self.proxy.close()

    def _arguments(self) -> Sequence[str | Path]:
        settings = self._home / "standalone.conf"
        written = {
            "brokerServicePort": self.port,
            "webServicePort": self._web_port,
            "bindAddress": LOOPBACK,
            "advertisedAddress": LOOPBACK,
            "listeningInterface": "lo",
            "advertisedListeners": f"own:{self.url},proxied:{self.proxied_url}",
            "internalListenerName": "own",
            "bindAddresses": f"proxied:pulsar://{LOOPBACK}:{self._proxied_port}",
            "backlogQuotaCheckIntervalInSeconds": 1,
            "brokerDeleteInactiveTopicsEnabled": "false",
            "defaultRetentionTimeInMinutes": -1,
            "defaultRetentionSizeInMB": -1,
            "webSocketServiceEnabled": "false",
            **self._settings,
        }
        lines = (self._distribution / "conf" / "standalone.conf").read_text().splitlines()
        kept = [line for line in lines if line.partition("=")[0] not in written]
        settings.write_text("\n".join([*kept, *(f"{name}={value}" for name, value in written.items()), ""]))
        log = self._home / "log4j2.xml"
        log.write_text(_LOG.format(home=self._home))
        opened = [word for package in _OPENED for word in ("--add-opens", f"{package}=ALL-UNNAMED")]
        return [
            *_JAVA,
            *opened,
            *("-cp", f"{self._distribution / 'lib'}/*"),
            *(f"-Dlog4j.configurationFile={log}", f"-Dpulsar.config.file={settings}"),
            "org.apache.pulsar.PulsarStandaloneStarter",
            *("--config", settings, "--no-functions-worker", "--no-stream-storage"),
            *("--metadata-dir", self._home / "metadata", "--bookkeeper-dir", self._home / "bookkeeper"),
        ]

    def _answers(self) -> bool:
        try:
            return bool("public/default" in self.admin("GET", "namespaces/public"))
        except (HTTPError, URLError) as why:
            raise OSError(str(why)) from why


class ProtectedPulsar(PulsarServer):
    """Asks who somebody is, and what they may do: tokens, `user` with the password `secret`, and over TLS certificates
    of `authority`, whose common names are roles.
    """

    def __init__(self, java: Path, distribution: Path) -> None:
        super().__init__(java, distribution)
        self._secret = hashlib.sha256(self._home.name.encode()).digest()
        self._tls_port, self.authority = free_port(), Authority(self._home)
        certificate, key = self.authority.sign("broker")
        password = subprocess.run(
            ["openssl", "passwd", "-apr1", "secret"], check=True, capture_output=True, text=True
        ).stdout
        users = self._home / "users"
        users.write_text(f"user:{password}")
        self.admin_headers = {"Authorization": f"Bearer {self.token('admin')}"}
        provider = "org.apache.pulsar.broker.authentication.AuthenticationProvider"
        client = "org.apache.pulsar.client.impl.auth.AuthenticationToken"
        self._settings = {
            "authenticationEnabled": "true",
            "authenticationProviders": ",".join(provider + kind for kind in ("Token", "Basic", "Tls")),
            "tokenSecretKey": f"data:;base64,{b64encode(self._secret).decode()}",
            "basicAuthConf": f"file://{users}",
            "authorizationEnabled": "true",
            "superUserRoles": "admin",
            "brokerClientAuthenticationPlugin": client,
            "brokerClientAuthenticationParameters": f"token:{self.token('admin')}",
            "brokerServicePortTls": self._tls_port,
            "tlsCertificateFilePath": certificate,
            "tlsKeyFilePath": key,
            "tlsTrustCertsFilePath": self.authority.certificate,
            "advertisedListeners": "",
            "internalListenerName": "",
            "bindAddresses": "",
        }

    @property
    def tls_url(self) -> str:
        return f"pulsar+ssl://localhost:{self._tls_port}"

    def token(self, role: str) -> str:
        """With which a client has that role."""
        parts = [b'{"alg":"HS256"}', json.dumps({"sub": role}).encode()]
        signed = b".".join(urlsafe_b64encode(part).rstrip(b"=") for part in parts)
        signature = hmac.new(self._secret, signed, hashlib.sha256).digest()
        return b".".join([signed, urlsafe_b64encode(signature).rstrip(b"=")]).decode()

    def allow(self, role: str, namespace: str = "public/default") -> None:
        """To produce there."""
        self.admin("POST", f"namespaces/{namespace}/permissions/{role}", ["produce"])
