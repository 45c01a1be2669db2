"""Costs of a relay that is paused: it looks at its pause, and else rests."""

from collections.abc import Callable
from itertools import pairwise
from time import monotonic

import pytest

from tests.integration.relaying.harness import Outbox
from tests.servers.database import Database
from walrelay.control.pausing import LeaderPause
from walrelay.control.relay import RelayControl
from walrelay.errors import Retryable
from walrelay.observe import Observers
from walrelay.postgres.catalog import Catalog

_INTERVAL = 0.2


def _not_readable(catalog: Catalog) -> None:
    catalog.run("ALTER TABLE walrelay.relays RENAME COLUMN paused_at TO elsewhere")


@pytest.mark.parametrize("change", [lambda _: None, _not_readable], ids=["a table", "a table that cannot be read"])
def test_a_paused_relay_looks_at_its_pause_no_more_often_than_it_should(
    database: Database, change: Callable[[Catalog], None]
) -> None:
    outbox = Outbox(database, "text")
    outbox.init()
    control = RelayControl("orders", outbox.wiring, lambda _: None)
    looks: list[float] = []

    def still_leads() -> None:
        looks.append(monotonic())

    with Catalog(database.dsn) as catalog:
        catalog.run(
            "INSERT INTO walrelay.relays (slot_name, name, paused) VALUES (%s, %s, true)", control.slot, control.name
        )
        pausing = LeaderPause(control, Observers())
        with pausing.while_leading(catalog):
            change(catalog)
            pausing.hold(catalog, still_leads, _INTERVAL, lambda: len(looks) == 6)
    waited = [later - earlier for earlier, later in pairwise(looks)]
    assert min(waited) >= _INTERVAL * 0.9, waited


def test_a_lead_whose_connection_breaks_as_it_takes_its_row_is_over(database: Database) -> None:
    """Or this instance would write over the reports of the one that leads."""
    outbox = Outbox(database, "text")
    outbox.init()
    with Catalog(database.dsn) as catalog:

        def attend(_: RelayControl) -> None:
            catalog.close()

        control = RelayControl("orders", outbox.wiring, attend)
        with pytest.raises(Retryable), LeaderPause(control, Observers()).while_leading(catalog):
            pass
    assert not control.leads
