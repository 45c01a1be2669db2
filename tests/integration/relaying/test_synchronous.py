"""A relay must not become a synchronous standby: every commit of the cluster would wait for the broker."""

from tests.integration.relaying.harness import Outbox
from tests.servers.postgres import PostgresServer


def test_a_relay_that_commits_would_wait_for_is_refused(own_server: PostgresServer, own_outbox: Outbox) -> None:
    own_server.configure(synchronous_standby_names="*")
    try:
        for _ in range(5):  # what the server says of a walsender changes while it starts
            error = own_outbox.failure()
            assert "synchronous standby" in str(error)
            assert "application_name" in error.hint
    finally:
        own_server.configure(synchronous_standby_names=None)
