"""Recent events, and the life of one: from its transaction to where it is."""

from playwright.sync_api import expect

from tests.browser.conftest import OpenPage
from tests.browser.shop import HOSTILE, Shop
from tests.servers.waiting import wait_until


def test_events_come_as_they_are_published_and_can_be_held_still(open_page: OpenPage, shop: Shop) -> None:
    page = open_page("#/relays/orders/events")
    first = shop.emit(kind=HOSTILE, key=HOSTILE)
    table = page.get_by_role("region", name="Table of recent events")
    expect(table).to_contain_text(first)
    expect(table).to_contain_text(HOSTILE)
    page.get_by_role("button", name="Hold still").click()
    second = shop.emit()
    page.get_by_role("button", name="Go on").click()
    expect(table).to_contain_text(second)


def test_an_events_life_is_told_from_commit_to_confirmation(open_page: OpenPage, shop: Shop) -> None:
    id_ = shop.emit()
    confirmed = "SELECT 1 FROM pg_replication_slots WHERE slot_name = %s AND confirmed_flush_lsn >= %s::pg_lsn"
    ((end,),) = shop.database.execute("SELECT pg_current_wal_lsn()::text")
    slot = f"{shop.database.name}_orders"
    wait_until(lambda: shop.database.execute(confirmed, [slot, end]), 60, "the event to be confirmed")
    page = open_page("#/relays/orders/events")
    page.get_by_label("Id of the event").fill(id_)
    page.keyboard.press("Enter")
    life = page.get_by_role("region", name="An event's life")
    expect(life).to_contain_text(id_)
    expect(life.get_by_role("listitem").filter(has_text="Acknowledged")).to_contain_text("ago")
    expect(life).to_contain_text("published")


def test_an_event_is_found_by_what_it_is_about(open_page: OpenPage, shop: Shop) -> None:
    id_ = shop.emit(key="find-me")
    page = open_page("#/relays/orders/events")
    page.get_by_role("region", name="Find an event").get_by_role("radio", name="aggregate").check()
    page.get_by_label("Aggregate type").fill("order")
    page.get_by_label("Aggregate id").fill("find-me")
    page.keyboard.press("Enter")
    page.get_by_role("region", name="Rows that were found").get_by_role("link", name=id_).click()
    expect(page.get_by_role("region", name="An event's life")).to_contain_text(id_)
