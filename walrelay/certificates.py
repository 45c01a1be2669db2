"""Certificates and keys in files, which are renewed while the process lives."""

import os
import ssl
from collections.abc import Mapping
from typing import NamedTuple

from walrelay.errors import SinkError

Stamp = tuple[tuple[int, int, int] | None, ...]
"""Differs from an earlier one once a file has other contents; None for a file that is not there."""

_read: "dict[CertificateFiles, tuple[Stamp, ssl.SSLContext]]" = {}


def stamp_of(*files: str | None) -> Stamp:
    """Of those files that are given."""
    return tuple(_state(file) for file in files if file)


def files_among(options: Mapping[str, object]) -> list[str]:
    """Those that options of librdkafka or of its registry's client name."""
    return [str(value) for name, value in options.items() if name.startswith("ssl.") and name.endswith(".location")]


class CertificateFiles(NamedTuple):
    """`authorities` None: the system's. `key` None: it is in the file of the certificate."""

    authorities: str | None = None
    certificate: str | None = None
    key: str | None = None

    @property
    def stamp(self) -> Stamp:
        """See `stamp_of`."""
        return stamp_of(self.authorities or ssl.get_default_verify_paths().cafile, self.certificate, self.key)

    def context(self, broker: str, hint: str = "Correct the files under sink.") -> ssl.SSLContext:
        """A client's, with what is in the files now; the same object as long as they are the same. Each connection asks
        for it. Files that cannot be read because they are being renewed count as they were: a certificate is there
        before its key. Fatal where they never could be read.
        """
        stamp = self.stamp
        known = _read.get(self)
        if known is not None and known[0] == stamp:
            return known[1]
        try:
            context = ssl.create_default_context(cafile=self.authorities)
            if self.certificate:
                context.load_cert_chain(self.certificate, self.key)
        except (OSError, ssl.SSLError) as why:
            if known is not None:
                return known[1]
            raise SinkError(f"the certificates for {broker} cannot be read: {why}", hint=hint) from why
        _read[self] = stamp, context
        return context


def tls_error(why: BaseException | None) -> str:
    """What TLS says of a connection that failed; empty where the error is of another kind. The number of such an error
    is the TLS library's own, and means something else to the system.
    """
    said = getattr(why, "strerror", None) or str(why or "")
    if not (isinstance(why, ssl.SSLError) or "[SSL" in said):
        return ""
    text = said.partition("] ")[2] or said.strip("[]") or "the connection failed"
    return f"TLS: {text.partition(' (_ssl')[0]}"


def _state(file: str) -> tuple[int, int, int] | None:
    try:
        found = os.stat(file)
    except OSError:
        return None
    return found.st_mtime_ns, found.st_size, found.st_ino
