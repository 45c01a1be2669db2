"""Whoever watches a relay, as a probe and Prometheus do."""

import json
import urllib.error
import urllib.request
from typing import Any

from prometheus_client.parser import text_string_to_metric_families

from tests.acceptance.relay_process import RelayProcess
from tests.servers.waiting import NotInTime, wait_until


class Watcher:
    """Asks the endpoints of a relay."""

    def __init__(self, relay: RelayProcess) -> None:
        self._port = relay.wait_for("listening")["port"]

    def get(self, path: str) -> tuple[int, str]:
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{self._port}{path}", timeout=20) as answer:
                return answer.status, answer.read().decode()
        except urllib.error.HTTPError as error:
            return error.code, error.read().decode()

    def health(self, path: str = "/readyz") -> tuple[int, dict[str, Any]]:
        """The status, and what is said of the only relay."""
        status, text = self.get(path)
        (relay,) = json.loads(text)["relays"]
        return status, relay

    def all_ready(self) -> bool:
        return self.get("/readyz")[0] == 200

    def turns(self, status: int, side: str, path: str = "/readyz", *, state: str = "") -> dict[str, Any]:
        """Waits until the endpoint has that status because of that side; what it says then."""

        def turned() -> dict[str, Any] | None:
            now, relay = self.health(path)
            as_expected = (now, relay["waits_for"]) == (status, side) and state in ("", relay["state"])
            return relay if as_expected else None

        try:
            found = wait_until(turned, 60, f"{path} to be {status} because of {side}")
        except NotInTime as error:
            error.add_note(str(self.health(path)))
            raise
        assert found is not None
        return found

    def metric(self, name: str, **labels: str) -> float | None:
        """The value of the only sample with these labels."""
        values = [
            sample.value
            for family in text_string_to_metric_families(self.get("/metrics")[1])
            for sample in family.samples
            if sample.name == name and labels.items() <= sample.labels.items()
        ]
        assert len(values) < 2
        return values[0] if values else None
