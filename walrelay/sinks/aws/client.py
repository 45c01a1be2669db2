"""Makes clients of boto3 that try once, and whose requests can be aborted: boto3 itself lets them run to their end."""

import socket
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import partial
from threading import Lock
from typing import Any
from weakref import WeakSet

import boto3
import botocore.session
from botocore.awsrequest import (
    AWSHTTPConnection,
    AWSHTTPConnectionPool,
    AWSHTTPSConnection,
    AWSHTTPSConnectionPool,
)
from botocore.config import Config
from botocore.credentials import AssumeRoleCredentialFetcher, DeferredRefreshableCredentials
from botocore.exceptions import (
    BotoCoreError,
    ClientError,
    CredentialRetrievalError,
    HTTPClientError,
    MetadataRetrievalError,
    NoCredentialsError,
    SSOError,
    TokenRetrievalError,
)
from botocore.exceptions import ConnectionError as NoConnection

from walrelay import __version__
from walrelay.errors import Retryable, SinkError
from walrelay.sinks.aws.contract import AwsApi
from walrelay.sinks.aws.programs import CredentialPrograms
from walrelay.sinks.aws.settings import AwsSettings

_CONNECT = 10.0  # seconds
_NO_CREDENTIALS = (
    *(ClientError, CredentialRetrievalError, HTTPClientError, MetadataRetrievalError, SSOError),
    *(TokenRetrievalError, NoConnection),
)
"""What says that those who give credentials give none now; the settings may be right."""


class AbortableConnections:
    """Those of clients, and programs that give them credentials. A thread that has a request in one learns that it is
    gone as soon as it reads or writes.
    """

    def __init__(self, patience: float) -> None:
        """`patience`: so many seconds for such a program."""
        self.programs = CredentialPrograms(patience)
        self._lock = Lock()
        self._aborted = False
        self._connections: WeakSet[Any] = WeakSet()
        self._pools = {"http": self._pool(AWSHTTPConnectionPool, AWSHTTPConnection)}
        self._pools["https"] = self._pool(AWSHTTPSConnectionPool, AWSHTTPSConnection)

    def watch(self, client: Any) -> None:
        """From now on, the connections of that client are made here."""
        client._endpoint.http_session._pool_classes_by_scheme.update(self._pools)

    def abort(self) -> None:
        """Nothing is sent any more, over these or others. Never raises."""
        with self._lock:
            self._aborted = True
            connections = [*self._connections]
        self.programs.end()
        for each in connections:
            if (made := getattr(each, "sock", None)) is not None:
                with suppress(OSError):
                    # Not that of TLS: it would let go of its keys first, and what is written then goes unencrypted.
                    socket.socket.shutdown(made, socket.SHUT_RDWR)

    def _pool(self, pool: Any, connection: Any) -> Any:
        def connect(made: Any) -> None:
            self._refuse_if_aborted()
            connection.connect(made)
            with self._lock:
                self._connections.add(made)
                aborted = self._aborted
            if aborted:
                made.close()
                self._refuse_if_aborted()

        watched = type(connection.__name__, (connection,), {"connect": connect})
        return type(pool.__name__, (pool,), {"ConnectionCls": watched})

    def _refuse_if_aborted(self) -> None:
        if self._aborted:
            raise ConnectionAbortedError("the sink is closed")


def make_client(api: AwsApi, settings: AwsSettings, connections: AbortableConnections) -> Any:
    """Fatal where the settings make none, Retryable where there are no credentials now. Takes a while."""
    return connections.programs.within(_made, api, settings, connections)


def renew_credentials(client: Any, connections: AbortableConnections) -> None:
    """Retryable where they cannot be had: that says nothing about the request that they are for."""
    connections.programs.within(_renew, client)


def no_credentials(seconds: float) -> str:
    """What is said where those who give credentials do not answer."""
    return (
        f"the credentials for AWS have not come for {seconds:g} s: look at sink.profile, or at what the environment of"
        " AWS names to ask for them"
    )


def _made(api: AwsApi, settings: AwsSettings, connections: AbortableConnections) -> Any:
    with _settings_are_wrong():
        found = boto3.Session(
            aws_access_key_id=settings.access_key_id,
            aws_secret_access_key=_text(settings.secret_access_key),
            aws_session_token=_text(settings.session_token),
            region_name=settings.region or api.region,
            profile_name=settings.profile,
        )
        if settings.role_arn is not None:
            found = _in_role(found, settings)
        client = found.client(
            api.service, endpoint_url=settings.endpoint_url, config=_config(settings), verify=settings.ca_file
        )
    connections.watch(client)
    return client


def _renew(client: Any) -> None:
    credentials = client._request_signer._credentials
    try:
        if credentials is None:
            raise NoCredentialsError
        credentials.get_frozen_credentials()
    except (BotoCoreError, ClientError) as why:
        raise Retryable(f"there are no credentials for AWS: {why}") from why


def _in_role(session: Any, settings: AwsSettings) -> Any:
    own = session._session
    asked = {"RoleSessionName": "walrelay"}
    if settings.external_id is not None:
        asked["ExternalId"] = settings.external_id.get_secret_value()
    source = own.get_credentials()
    if source is None:
        raise SinkError(
            "there are no credentials to assume the role of sink.role_arn with",
            hint="Set sink.access_key_id and sink.secret_access_key, sink.profile, or the environment of AWS.",
        )
    fetcher = AssumeRoleCredentialFetcher(
        partial(own.create_client, config=_config(settings), verify=settings.ca_file),
        source,
        settings.role_arn,
        extra_args=asked,
    )
    made = botocore.session.Session(profile=settings.profile)
    made._credentials = DeferredRefreshableCredentials(refresh_using=fetcher.fetch_credentials, method="assume-role")
    return boto3.Session(botocore_session=made, region_name=session.region_name)


def _config(settings: AwsSettings) -> Config:
    return Config(
        retries={"total_max_attempts": 1, "mode": "standard"},
        connect_timeout=min(settings.request_timeout, _CONNECT),
        read_timeout=settings.request_timeout,
        max_pool_connections=settings.max_connections,
        tcp_keepalive=True,
        user_agent_extra=f"walrelay/{__version__}",
    )


@contextmanager
def _settings_are_wrong() -> Iterator[None]:
    try:
        yield
    except _NO_CREDENTIALS as why:
        raise Retryable(f"there are no credentials for AWS: {why}") from why
    except (BotoCoreError, ValueError) as why:
        raise SinkError(
            f"boto3 makes no client of these settings: {why}",
            hint="Correct sink.region, sink.endpoint_url, sink.profile or the environment of AWS.",
        ) from why


def _text(secret: Any) -> str | None:
    text: str | None = None if secret is None else secret.get_secret_value()
    return text
