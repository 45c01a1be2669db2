"""A relay's page: the flow, the charts, who leads, what is wrong, and what can be done with it."""

import re

from playwright.sync_api import Page, expect

from tests.browser.conftest import OpenPage
from tests.browser.shop import HOSTILE, Shop
from tests.servers.waiting import wait_until


def test_the_flow_is_a_picture_that_moves_and_that_words_tell(open_page: OpenPage, shop: Shop) -> None:
    page = open_page("#/relays/orders")
    picture = page.get_by_role("img", name=re.compile("Flow of orders: PostgreSQL"))
    expect(picture).to_be_visible()
    shop.emit()
    expect(page.get_by_role("heading", level=1)).to_contain_text("flows")
    expect(page.get_by_role("main")).to_contain_text("leads")


def test_the_last_hours_are_charts_with_one_cursor_and_a_table(open_page: OpenPage, shop: Shop) -> None:
    shop.emit()
    page = open_page("#/relays/orders")
    charts = page.locator(".chart")
    expect(charts).to_have_count(6, timeout=45_000)  # a step of the history is 15 s
    expect(charts.locator("canvas")).to_have_count(6)
    expect(page.get_by_text("Events a second in the last 1 h.")).to_be_attached()
    page.get_by_role("radio", name="15 min").check()
    expect(page.get_by_text("Events a second in the last 15 min.")).to_be_attached()
    page.get_by_role("button", name="As a table").click()
    expect(page.get_by_role("region", name="The numbers of the charts").get_by_role("row").nth(1)).to_be_visible()


def test_who_asks_for_less_motion_sees_none(open_page: OpenPage) -> None:
    page = open_page("#/relays/orders", reduced_motion="reduce")
    expect(page.locator(".flow svg")).to_be_visible()
    moving = page.evaluate("document.getAnimations().filter((each) => each.playState === 'running').length")
    assert moving == 0


def test_the_doctor_has_fixes_to_copy(open_page: OpenPage) -> None:
    page = open_page("#/relays/invoices/doctor", permissions=["clipboard-read", "clipboard-write"])
    finding = page.locator(".finding").filter(has=page.locator(".fix")).first
    fix = finding.locator("pre").inner_text()
    finding.get_by_role("button", name="Copy").click()
    expect(finding.get_by_text("Copied")).to_be_visible()
    assert page.evaluate("navigator.clipboard.readText()") == fix


def pause(page: Page, reason: str) -> None:
    page.get_by_role("button", name="Pause …").click()
    dialog = page.get_by_role("dialog", name="Pause orders")
    expect(dialog).to_contain_text("WAL held now")
    expect(dialog).to_contain_text("More each minute")
    dialog.get_by_label("Reason").fill(reason)
    dialog.get_by_role("button", name="Pause", exact=True).click()
    expect(dialog).to_have_count(0)


def test_a_pause_says_what_it_costs_and_wants_a_reason_and_ends_by_resuming(open_page: OpenPage, shop: Shop) -> None:
    page = open_page("#/relays/orders", caller="operate")
    page.get_by_role("button", name="Pause …").click()
    dialog = page.get_by_role("dialog", name="Pause orders")
    dialog.get_by_role("button", name="Pause", exact=True).click()
    expect(dialog).to_contain_text("Say why")
    dialog.get_by_text("end it when the slot holds too much WAL").click()
    expect(dialog.get_by_label("give the slot up")).to_be_disabled()
    page.keyboard.press("Escape")
    expect(dialog).to_have_count(0)
    pause(page, HOSTILE)
    expect(page.get_by_role("heading", level=1)).to_contain_text("paused")
    expect(page.get_by_role("region", name="What is wrong", exact=True)).to_contain_text(f"Reason: {HOSTILE}")
    ((reason, until),) = shop.database.execute(
        "SELECT pause_reason, paused_until > now() + interval '50 min' FROM walrelay.relays WHERE name = 'orders'"
    )
    assert (reason, until) == (HOSTILE, True)
    page.get_by_role("button", name="Resume").click()
    page.get_by_role("dialog").get_by_role("button", name="Resume", exact=True).click()
    expect(page.get_by_role("heading", level=1)).to_contain_text("flows")
    id_ = shop.emit()
    wait_until(lambda: any(id_ in str(each) for each in shop.messages("orders")), 30, "the event to be published")


def test_a_restart_is_a_job_and_a_drain_ends_in_a_pause(open_page: OpenPage, shop: Shop) -> None:
    page = open_page("#/relays/orders/jobs", caller="operate")
    page.get_by_role("button", name="Restart …").click()
    page.get_by_role("dialog", name="Restart orders").get_by_role("button", name="Restart").click()
    job = page.get_by_role("table").get_by_role("row").nth(1)
    expect(job).to_contain_text("restart")
    expect(job).to_contain_text("done")
    page.get_by_role("button", name="Drain …").click()
    dialog = page.get_by_role("dialog", name="Drain orders")
    dialog.get_by_label("Reason").fill("the broker is moved")
    dialog.get_by_role("button", name="Drain and pause").click()
    expect(job).to_contain_text("drain")
    expect(job).to_contain_text("done")
    expect(page.get_by_role("heading", level=1)).to_contain_text("paused")
    page.get_by_role("button", name="Resume").click()
    page.get_by_role("dialog").get_by_role("button", name="Resume", exact=True).click()
    expect(page.get_by_role("heading", level=1)).to_contain_text("flows")


def test_rows_are_counted_before_they_are_replayed(open_page: OpenPage, shop: Shop) -> None:
    ids = [shop.emit(key="again") for _ in range(2)]
    wait_until(lambda: all(each in str(shop.messages("orders")) for each in ids), 30, "the events to be published")
    page = open_page("#/relays/orders/jobs", caller="operate")
    page.get_by_role("button", name="Replay rows …").click()
    dialog = page.get_by_role("dialog", name="Replay rows: orders")
    dialog.get_by_label("Aggregates").fill("order:again")
    dialog.get_by_role("button", name="Count them").click()
    expect(dialog.get_by_role("button", name="Replay 2")).to_be_enabled()
    dialog.get_by_label("Aggregates").fill("order:none")
    dialog.get_by_role("button", name="Count them").click()
    expect(dialog.get_by_role("button", name="Replay 0")).to_be_disabled()


def test_rules_are_tried_on_a_record_and_the_message_is_shown(open_page: OpenPage) -> None:
    page = open_page("#/relays/orders/route-test")
    record = page.get_by_role("textbox")
    record.fill("{")
    expect(page.get_by_text("This is not JSON yet")).to_be_visible()
    record.fill(
        '{"id": "7", "aggregate_type": "order", "aggregate_id": "42", "payload": {"big": 12345678901234567890}}'
    )
    page.get_by_role("button", name="Try the rules").click()
    result = page.get_by_role("region", name="What becomes of it")
    expect(result).to_contain_text("outbox.event.order")
    expect(result).to_contain_text("12345678901234567890")


def test_settings_have_no_secret_and_the_log_says_who_changed_what(open_page: OpenPage) -> None:
    page = open_page("#/relays/orders/settings")
    page.get_by_label("Filter settings").fill("source.slot")
    expect(page.get_by_role("main")).to_contain_text("_orders")
    page.get_by_role("link", name="Audit log").click()
    expect(page.get_by_role("region", name="Table of the audit log")).to_contain_text("pause")
