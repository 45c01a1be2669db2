"""Topics that delete messages by their own times: what is too old for them is refused, or told."""

import pytest

from tests.integration.relaying.harness import Outbox
from tests.integration.relaying.test_recover import lose
from tests.servers.database import Database
from walrelay.errors import Fatal
from walrelay.publish import Expiry

pytestmark = pytest.mark.parametrize("way", ["text"])

DAY = 86_400.0


@pytest.fixture
def short(outbox: Outbox) -> Outbox:
    """Its topic keeps messages for seven days; the rows are 300 days old."""
    outbox.write(1, 2)
    outbox.database.execute("UPDATE outbox SET created_at = now() - interval '300 days'")
    outbox.broker.expiry["outbox.event.order"] = Expiry(7 * DAY, "longer --topic outbox.event.order")
    return outbox


def test_a_recovery_to_a_topic_that_would_delete_its_rows_is_refused(short: Outbox) -> None:
    lose(short)
    with pytest.raises(Fatal, match="deletes messages 7 days after their own time, and the oldest is of 20") as caught:
        short.recover()
    assert "longer --topic outbox.event.order" in caught.value.hint
    assert "--even-expired" in caught.value.hint
    assert short.broker.durable == []
    assert short.database.execute("SELECT backfill FROM walrelay.slots") == [(None,)], "nothing was begun"
    assert short.settings.source.slot not in short.database.server.slots()
    short.broker.expiry.clear()
    assert short.recover().rows == 2


def test_rows_that_the_topic_has_do_not_count_as_too_old(outbox: Outbox) -> None:
    outbox.write(1)
    with outbox.relay() as relay:
        relay.confirms(outbox.end_of_wal())
    lose(outbox)
    outbox.database.execute("UPDATE outbox SET created_at = now() - interval '300 days'")
    outbox.broker.expiry["outbox.event.order"] = Expiry(7 * DAY, "")
    assert outbox.recover().rows == 0


def test_a_backfill_to_a_topic_that_would_delete_its_rows_is_refused(database: Database, way: str) -> None:
    outbox = Outbox(database, way)
    outbox.init()
    lose(outbox)
    database.execute("DELETE FROM walrelay.slots")
    outbox.write(1)
    outbox.broker.expiry["outbox.event.order"] = Expiry(-1.0, "")
    with pytest.raises(Fatal, match="no consumer would see it"):
        outbox.backfill()
    assert outbox.broker.durable == []


def test_a_relay_says_which_event_is_older_than_its_topic_keeps(
    outbox: Outbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("walrelay.relay.expiry._OLD", -1.0)
    outbox.broker.expiry["outbox.event.order"] = Expiry(-1.0, "")
    outbox.write(1, 2)
    with outbox.relay() as relay:
        relay.wait_until(
            lambda: any("topic outbox.event.order deletes" in text for text in outbox.watcher.notices), "a notice"
        )
        outbox.messages(relay)
    (told,) = [text for text in outbox.watcher.notices if "outbox.event.order" in text]
    assert "the event at " in told
