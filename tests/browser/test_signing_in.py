"""Who looks at the console: a token, kept in the tab alone, and what each scope may do."""

import pytest
from playwright.sync_api import Page, expect

from tests.browser.conftest import OpenPage
from tests.browser.shop import Shop


def refused_action(page: Page, name: str) -> None:
    """It is there, cannot be used, and says why."""
    button = page.get_by_role("button", name=name)
    expect(button).to_have_attribute("aria-disabled", "true")
    expect(button).to_have_attribute("title", 'This takes the scope "operate"; reader has "read".')
    button.click(force=True)
    expect(page.get_by_role("dialog")).to_have_count(0)


def test_a_token_is_asked_for_and_stays_in_the_tab(open_page: OpenPage, shop: Shop, tolerated: list[str]) -> None:
    tolerated.append("401 (Unauthorized)")
    page = open_page(caller=None)
    field = page.get_by_label("Token")
    field.fill("walrelay_wrong")
    page.get_by_role("button", name="Sign in").click()
    expect(page.get_by_role("alert")).to_contain_text("This token is not known.")
    token = shop.tokens["operate"].token
    field.fill(token)
    field.press("Enter")
    expect(page.get_by_text("operateer")).to_be_visible()
    assert page.evaluate("sessionStorage.getItem('walrelay.token')") == token
    assert token not in page.url
    assert page.evaluate("document.cookie + JSON.stringify(localStorage)") == "{}"
    page.get_by_role("button", name="Sign out").click()
    expect(page.get_by_label("Token")).to_be_visible()
    assert page.evaluate("sessionStorage.length") == 0


def test_what_the_scope_does_not_allow_is_shown_with_why(open_page: OpenPage) -> None:
    page = open_page("#/relays/orders", caller="read")
    for name in ("Pause …", "Restart …", "Drain …"):
        refused_action(page, name)
    page.get_by_role("link", name="Settings").click()
    expect(page.get_by_role("main")).to_contain_text('This takes the scope "admin"')


@pytest.mark.parametrize("view", ["dead-letters/1", "audit-log", "settings", "events/some-id"])
def test_nothing_that_a_reader_opens_by_its_address_asks_for_more_than_it_may(open_page: OpenPage, view: str) -> None:
    page = open_page(f"#/relays/orders/{view}", caller="read")
    expect(page.get_by_role("main")).to_contain_text("This takes the scope")


def test_a_stream_that_is_gone_is_told_and_comes_back(open_page: OpenPage, tolerated: list[str]) -> None:
    tolerated += ["net::ERR_FAILED", "/api/v1/stream"]
    page = open_page()
    expect(page.get_by_text("live", exact=True)).to_be_visible()
    page.route("**/api/v1/stream*", lambda route: route.abort())
    page.goto(page.url.partition("#")[0] + "#/relays/orders/jobs")
    expect(page.get_by_text("not live")).to_be_visible()
    page.unroute("**/api/v1/stream*")
    expect(page.get_by_text("live", exact=True)).to_be_visible()
