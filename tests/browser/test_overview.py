"""The first five seconds: one sentence, then all relays, the worst first."""

from playwright.sync_api import expect

from tests.browser.conftest import OpenPage
from tests.browser.shop import RELAYS, Shop


def test_one_sentence_says_what_is_wrong_and_what_to_do(open_page: OpenPage) -> None:
    page = open_page()
    verdict = page.get_by_role("region", name="In one sentence")
    expect(verdict).to_contain_text("invoices needs you: no instance leads it.")
    expect(verdict).to_contain_text("walrelay run")
    expect(page).to_have_title("NEEDS YOU: invoices · walrelay")
    assert "%23c81e1e" in str(page.locator("#favicon").get_attribute("href"))
    expect(page.get_by_text("live", exact=True)).to_be_visible()


def test_whoever_sees_one_relay_that_flows_reads_that_it_does(open_page: OpenPage, shop: Shop) -> None:
    shop.emit()
    page = open_page(caller="orders")
    expect(page.get_by_role("region", name="In one sentence")).to_contain_text("orders flows")
    expect(page.get_by_role("row")).to_have_count(2)
    expect(page).to_have_title("walrelay")


def test_the_worst_relay_comes_first_and_the_filter_finds_others(open_page: OpenPage) -> None:
    page = open_page()
    rows = page.get_by_role("row")
    expect(rows).to_have_count(RELAYS + 1)
    expect(rows.nth(1)).to_contain_text("invoices")
    expect(rows.nth(1)).to_contain_text("100,000")
    page.keyboard.press("/")
    page.keyboard.type("tenant-77")
    expect(rows).to_have_count(2)
    expect(rows.nth(1)).to_contain_text("not in this settings file")
    page.get_by_role("searchbox").fill("flows")
    expect(rows.nth(1)).to_contain_text("orders")
    page.get_by_role("link", name="orders", exact=True).click()
    expect(page.get_by_role("heading", level=1)).to_contain_text("orders")
