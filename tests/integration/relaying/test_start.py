"""What a relay asks before it streams: over a network each question costs a round trip."""

from typing import Any

import pytest

from tests.integration.relaying.harness import Outbox
from walrelay.compose import LiveFactories
from walrelay.postgres.catalog import Catalog


def test_the_questions_of_a_start_share_their_answers(outbox: Outbox, monkeypatch: pytest.MonkeyPatch) -> None:
    """Most of them begin with how the table is published: without that they send 33 statements."""
    sent = list[str]()
    with Catalog(outbox.wiring.dsn) as catalog:
        execute = catalog.connection.execute

        def counted(query: Any, *rest: Any) -> Any:
            sent.append(str(query))
            return execute(query, *rest)

        monkeypatch.setattr(catalog.connection, "execute", counted)
        LiveFactories(outbox.wiring, outbox.watcher).examine(catalog)
        assert len(sent) <= 20, "\n".join(sent)
        before = len(sent)
        assert catalog.in_recovery() is catalog.in_recovery() is False
        assert len(sent) == before + 2, "afterwards each question is asked"
