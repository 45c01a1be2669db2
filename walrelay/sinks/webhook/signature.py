"""Signatures of Standard Webhooks, `v1`: what a receiver checks to know who sent a request, and that it is fresh."""

import hmac
from base64 import b64decode, b64encode
from binascii import Error
from collections.abc import Sequence

_PREFIX = "whsec_"
_BYTES = range(24, 65)  # of a secret, by the specification


def secret(text: str) -> bytes:
    """ValueError for what is no secret of Standard Webhooks."""
    try:
        decoded = b64decode(text.removeprefix(_PREFIX), validate=True)
    except Error:
        decoded = b""
    if len(decoded) not in _BYTES:
        raise ValueError("a secret is whsec_ and 24 to 64 bytes in base64, as of: openssl rand -base64 32")
    return decoded


def signature(secrets: Sequence[bytes], event_id: str, timestamp: int, body: bytes) -> str:
    """The header `webhook-signature`: one for each secret. `timestamp`: of the attempt, Unix time in seconds."""
    signed = f"{event_id}.{timestamp}.".encode() + body
    return " ".join(f"v1,{b64encode(hmac.digest(each, signed, 'sha256')).decode()}" for each in secrets)
