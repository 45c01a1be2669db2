"""Certificates of an authority of the tests' own, for servers and clients on the loopback interface."""

import shutil
import subprocess
from pathlib import Path

from tests.servers.choose import Missing, give_up
from tests.servers.ports import LOOPBACK


class Authority:
    """Its files are in `directory`; its own certificate is `ca.crt`."""

    def __init__(self, directory: Path) -> None:
        if shutil.which("openssl") is None:
            give_up(Missing("openssl makes certificates, and is not installed"))
        self.directory, self.certificate = directory, directory / "ca.crt"
        self._openssl("req -x509 -nodes -newkey ec -pkeyopt ec_paramgen_curve:P-256 -subj /CN=test"
                      " -addext basicConstraints=critical,CA:TRUE -keyout ca.key -out ca.crt")  # fmt: skip

    def sign(self, name: str, address: str = LOOPBACK) -> tuple[Path, Path]:
        """A certificate for localhost and the address, and its key."""
        self._openssl(
            f"req -x509 -nodes -newkey ec -pkeyopt ec_paramgen_curve:P-256 -subj /CN={name} -CA ca.crt -CAkey ca.key"
            f" -addext subjectAltName=DNS:localhost,IP:{address},email:{name}@localhost"
            f" -addext basicConstraints=CA:FALSE -keyout {name}.key -out {name}.crt"
        )
        return self.directory / f"{name}.crt", self.directory / f"{name}.key"

    def _openssl(self, command: str) -> None:
        subprocess.run(["openssl", *command.split()], cwd=self.directory, check=True, capture_output=True)
