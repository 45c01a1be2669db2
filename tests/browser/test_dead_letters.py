"""Dead letters: found, looked at, edited with a diff, replayed and discarded, one, some and all of them."""

import json

from playwright.sync_api import Page, expect

from tests.browser.conftest import OpenPage
from tests.browser.shop import HOSTILE, PAYLOAD, Shop


def finish_job(page: Page, button: str, outcome: str) -> None:
    dialog = page.get_by_role("dialog")
    dialog.get_by_role("button", name=button).click()
    expect(dialog.get_by_role("status")).to_have_text(outcome)
    dialog.get_by_role("button", name="Close").last.click()
    expect(dialog).to_have_count(0)


def test_they_are_found_by_error_topic_and_id(open_page: OpenPage) -> None:
    page = open_page("#/relays/invoices/dead-letters")
    rows = page.get_by_role("table").get_by_role("row")
    expect(rows).to_have_count(101)
    expect(page.get_by_role("region", name="How many")).to_contain_text("100,000")
    page.get_by_role("region", name="By error").get_by_role("button", name="too_large").click()
    expect(rows.nth(1)).to_contain_text("invoice-3")
    assert "error=too_large" in page.url
    page.get_by_role("region", name="By topic").get_by_role("button", name="invoices.1").click()
    expect(page.get_by_text("None of this kind")).to_be_visible()
    page.get_by_role("button", name="Clear").click()
    page.keyboard.press("/")
    page.keyboard.type("invoice-4711")
    page.keyboard.press("Enter")
    expect(rows).to_have_count(2)
    expect(rows.nth(1)).to_contain_text("invoice-4711")


def test_a_page_follows_another_and_leads_back(open_page: OpenPage) -> None:
    page = open_page("#/relays/invoices/dead-letters")
    rows = page.get_by_role("table").get_by_role("row")
    page.get_by_role("button", name="Next").click()
    expect(page.get_by_text("101–200 of 100,000")).to_be_visible()
    expect(rows.nth(1)).to_contain_text("invoice-101")
    page.get_by_role("button", name="Before").click()
    expect(rows.nth(1)).to_contain_text("invoice-1")


def test_an_edit_shows_what_it_changes_and_a_replay_publishes_it(open_page: OpenPage, shop: Shop) -> None:
    letter = shop.add_letter(1)
    page = open_page("#/relays/returns/dead-letters")
    page.get_by_role("link", name="letter-1", exact=True).click()
    expect(page.get_by_role("main")).to_contain_text(HOSTILE)
    page.get_by_role("button", name="Edit …").click()
    editor = page.get_by_label("The record as JSON")
    text = editor.input_value()
    assert "12345678901234567890" in text
    assert '"id"' not in text
    editor.fill(text.replace('"12,50"', "12.50"))
    diff = page.get_by_role("region", name="What the edit changes")
    expect(diff.locator(".diff-removed")).to_contain_text('"amount": "12,50"')
    expect(diff.locator(".diff-added")).to_contain_text('"amount": 12.50')
    page.get_by_label("Reason").fill(f"a comma {HOSTILE}")
    page.get_by_role("button", name="Store the edit").click()
    expect(page.get_by_role("region", name="The edit", exact=True)).to_contain_text("Edited by adminer")
    page.get_by_role("button", name="Replay …").click()
    finish_job(page, "Replay 1", "1 replayed")
    assert shop.status(letter) == "replayed"
    (message,) = (each for each in shop.messages("returns") if "letter-1" in str(each["headers"]))
    assert message["value"] == PAYLOAD.replace('"12,50"', "12.50")


def test_an_edit_is_taken_back(open_page: OpenPage, shop: Shop) -> None:
    letter = shop.add_letter(2)
    page = open_page(f"#/relays/returns/dead-letters/{letter}")
    page.get_by_role("button", name="Edit …").click()
    editor = page.get_by_label("The record as JSON")
    editor.fill("{")
    expect(page.get_by_text("This is not a record yet")).to_be_visible()
    expect(page.get_by_role("button", name="Store the edit")).to_be_disabled()
    editor.fill(json.dumps({"payload": {"a": 1}, "type": "Other"}))
    page.get_by_label("Reason").fill("tried")
    page.get_by_role("button", name="Store the edit").click()
    page.get_by_role("button", name="Take it back").click()
    expect(page.get_by_role("region", name="The edit", exact=True)).to_have_count(0)
    expect(page.get_by_role("region", name="The record", exact=True)).to_contain_text('"12,50"')


def test_selected_ones_are_discarded_with_a_reason(open_page: OpenPage, shop: Shop) -> None:
    letters = [shop.add_letter(number) for number in (3, 4)]
    page = open_page("#/relays/returns/dead-letters")
    for letter in letters:
        page.get_by_label(f"Select dead letter {letter}").check()
    page.get_by_role("button", name="Discard selected").click()
    page.get_by_role("dialog").get_by_label("Reason").fill("settled by hand")
    finish_job(page, "Discard 2", "2 discarded")
    assert [shop.status(letter) for letter in letters] == ["discarded", "discarded"]


def test_all_that_match_are_counted_first_and_then_replayed(open_page: OpenPage, shop: Shop) -> None:
    letters = [shop.add_letter(number, error="too_large", reason="once") for number in (5, 6, 7)]
    page = open_page("#/relays/returns/dead-letters?error=too_large")
    page.get_by_role("button", name="Replay all that match …").click()
    expect(page.get_by_role("dialog", name="Replay 3 dead letters")).to_be_visible()
    finish_job(page, "Replay 3", "3 replayed")
    assert {shop.status(letter) for letter in letters} == {"replayed"}
    page.get_by_role("link", name="Jobs").click()
    expect(page.get_by_role("table").get_by_role("row").nth(1)).to_contain_text("3 of 3 · 3 replayed")


def test_a_payload_is_shown_laid_out_as_it_is_and_in_base64(open_page: OpenPage, shop: Shop) -> None:
    letter = shop.add_letter(8)
    page = open_page(f"#/relays/returns/dead-letters/{letter}")
    payload = page.get_by_role("region", name="Payload as text")
    expect(payload).to_contain_text('\n  "amount": "12,50"')
    form = page.get_by_role("group", name="Form of Payload")
    form.get_by_role("radio", name="raw").check()
    expect(payload).to_have_text(PAYLOAD)
    form.get_by_role("radio", name="base64").check()
    expect(payload).to_contain_text("eyJvcmRlciI6IDQ3MTEs")
