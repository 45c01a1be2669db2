"""One browser for each module, and one shop for all tests here; each test has a page of its own, which must raise no
error.
"""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Protocol

import axe_playwright_python
import pytest
from playwright.sync_api import Browser, BrowserContext, ConsoleMessage, Page, expect, sync_playwright

from tests.browser.shop import Shop
from tests.servers import choose
from tests.servers.database import Postgres

_OPTIONS = (
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--disable-dev-shm-usage",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)
_PATIENCE = 15_000  # milliseconds: both cores may be busy

# Before anything of the page: what its policy refused, and how long each interaction took until the next picture.
_WATCH = """
window.refused = []; window.interactions = [];
addEventListener("securitypolicyviolation", (event) => {
  window.refused.push(`${event.violatedDirective} ${event.blockedURI}`);
});
new PerformanceObserver((list) => {
  for (const each of list.getEntries()) if (each.interactionId) window.interactions.push([each.name, each.duration]);
}).observe({type: "event", durationThreshold: 16, buffered: true});
"""


class OpenPage(Protocol):
    """Opens the console at a hash as a caller of that name (None: without a token)."""

    def __call__(self, hash_: str = "", caller: str | None = "admin", **options: Any) -> Page: ...


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """It ends with its module: as long as Playwright is there, its event loop runs in the thread of the tests, and no
    other test of this process could run one.
    """
    program = choose.found(choose.chromium_program)
    with sync_playwright() as playwright:
        expect.set_options(timeout=_PATIENCE)
        browser = playwright.chromium.launch(executable_path=program, args=_OPTIONS)
        yield browser
        browser.close()


@pytest.fixture(scope="session")
def shop(postgres: Postgres, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shop]:
    database = postgres.create_database()
    shop = Shop(tmp_path_factory.mktemp("shop"), database)
    yield shop
    shop.close()
    database.drop()


@pytest.fixture
def tolerated() -> list[str]:
    """Parts of what the browser may say on its console in this test: that an answer was 401, for example."""
    return []


@pytest.fixture
def open_page(browser: Browser, shop: Shop, tolerated: list[str]) -> Iterator[OpenPage]:
    contexts, errors = list[BrowserContext](), list[str]()

    def heard(said: ConsoleMessage) -> None:
        if said.type in ("error", "warning"):
            errors.append(f"{said.text} {said.location.get('url')}")

    def opened(hash_: str = "", caller: str | None = "admin", **options: Any) -> Page:
        context = browser.new_context(**{"viewport": {"width": 1280, "height": 860}, **options})
        context.set_default_timeout(_PATIENCE)
        contexts.append(context)
        context.add_init_script(_WATCH)
        if caller is not None:
            token = shop.tokens[caller].token
            context.add_init_script(f"sessionStorage.setItem('walrelay.token', '{token}')")
        page = context.new_page()
        page.on("console", heard)
        page.on("pageerror", lambda error: errors.append(f"{error}"))
        page.on("dialog", lambda dialog: errors.append(f"a dialog of the browser: {dialog.message}"))
        page.goto(f"{shop.url}{hash_}")
        return page

    yield opened
    pages = [page for context in contexts for page in context.pages]
    refused = [each for page in pages for each in page.evaluate("window.refused")]
    ran = [page.evaluate("window.hit") for page in pages]
    for context in contexts:
        context.close()
    assert refused == [], "the policy of the page refused something"
    assert [each for each in ran if each is not None] == [], "what an event holds was run"
    assert [each for each in errors if not any(part in each for part in tolerated)] == []


@pytest.fixture(scope="session")
def axe() -> Callable[[Page], list[str]]:
    """The violations that axe-core finds in what a page shows."""
    script = (Path(axe_playwright_python.__file__).parent / "axe.min.js").read_text()

    def violations(page: Page) -> list[str]:
        page.evaluate(f"window.axe || (() => {{ {script} }})()")
        found = page.evaluate("axe.run(document, {resultTypes: ['violations']})")
        return [
            f"{each['id']}: {each['nodes'][0]['html']} {each['nodes'][0]['failureSummary']}"
            for each in found["violations"]
        ]

    return violations
