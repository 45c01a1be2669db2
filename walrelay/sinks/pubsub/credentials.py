"""Google's credentials as a header of each request: read when a sink is opened, fetched anew before they expire."""

from collections.abc import Sequence
from functools import partial
from typing import Any

import google.auth
from google.auth.exceptions import GoogleAuthError
from google.auth.transport.requests import Request
from google.oauth2.service_account import Credentials

from walrelay.errors import Retryable, SinkError

_SCOPES = ["https://www.googleapis.com/auth/pubsub"]
_PATIENCE = 10.0  # seconds for an answer of whoever gives them

Metadata = Sequence[tuple[str, str]]
"""What goes with a request."""


class AccessToken:
    """Of the file, or by Application Default Credentials."""

    def __init__(self, file: str | None) -> None:
        self._file = file
        self._credentials: Any = None
        self.metadata: Metadata = ()
        """As it was renewed last."""

    @property
    def valid(self) -> bool:
        """Whether the metadata will do for a request that is made now."""
        return self._credentials is not None and self._credentials.valid

    def renew(self) -> None:
        """Waits for whoever gives tokens. Fatal where the file cannot be read, Retryable where there is no token."""
        request = partial(Request(), timeout=_PATIENCE)
        if self._credentials is None:
            self._credentials = self._read(request)
        try:
            self._credentials.refresh(request)
        except (GoogleAuthError, ValueError) as why:
            raise Retryable(f"Google gives no token for the credentials of Pub/Sub: {said(why)}") from why
        headers: dict[str, str] = {}
        self._credentials.apply(headers)
        self.metadata = [(name.lower(), value) for name, value in headers.items()]

    def _read(self, request: Any) -> Any:
        account: Any = Credentials
        try:
            if self._file is not None:
                return account.from_service_account_file(self._file, scopes=_SCOPES, always_use_jwt_access=True)
            found, _ = google.auth.default(scopes=_SCOPES, request=request)
        except (GoogleAuthError, ValueError, OSError) as why:
            if self._file is None:  # the machine's server of credentials may come up after the relay
                raise Retryable(f"there are no default credentials for Pub/Sub: {said(why)}") from why
            raise SinkError(
                f"the credentials for Pub/Sub in {self._file} cannot be read: {said(why)}",
                hint="It has to be the key of a service account; GOOGLE_APPLICATION_CREDENTIALS may name another.",
            ) from why
        if hasattr(found, "with_always_use_jwt_access"):  # a service account signs its tokens itself
            found = found.with_always_use_jwt_access(True)
        return found


def no_token(seconds: float) -> str:
    """What is said where those who give credentials do not answer."""
    return (
        f"the credentials for Pub/Sub have not come for {seconds:g} s: look at sink.credentials_file, or at what"
        " GOOGLE_APPLICATION_CREDENTIALS names"
    )


def said(why: BaseException) -> str:
    """What went wrong, in one line and without what Google's library adds for programs."""
    text = str(why.args[0]) if isinstance(why, GoogleAuthError) and why.args else str(why)
    return " ".join(text.split())[:300] or type(why).__name__
