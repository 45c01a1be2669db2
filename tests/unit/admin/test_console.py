"""The console's files: what its policy lets run, and the libraries as their authors built them."""

import re
from hashlib import sha256
from pathlib import Path

import pytest

CONSOLE = Path(__file__).parents[3] / "walrelay" / "admin" / "console"
VENDOR = CONSOLE / "vendor"
MODULES = sorted(CONSOLE.glob("*.js"))
VENDORED = re.findall(r"^\| (\S+) \|.*\| ([0-9a-f]{64}) \|$", (VENDOR / "README.md").read_text(), re.MULTILINE)


@pytest.mark.parametrize(("name", "expected"), VENDORED)
def test_a_library_is_the_one_that_its_page_names(name: str, expected: str) -> None:
    assert sha256((VENDOR / name).read_bytes()).hexdigest() == expected


def test_every_library_is_named_and_has_its_licence() -> None:
    files = {str(each.relative_to(VENDOR)) for each in VENDOR.rglob("*") if each.suffix in (".js", ".css")}
    assert files == {name for name, _ in VENDORED}
    for name in files:
        assert [*(VENDOR / name).parent.glob("LICENSE*")]


def test_the_page_has_no_script_or_style_of_its_own_and_nothing_from_elsewhere() -> None:
    page = (CONSOLE / "index.html").read_text()
    assert re.findall(r"<script(?![^>]* src=)", page) == []
    assert re.findall(r"<style|\sstyle=|\son\w+=|importmap|https?://", page) == []
    for address in re.findall(r'(?:src|href)="(/[^"]*)"', page):
        assert (CONSOLE / address.removeprefix("/console/")).is_file(), address


@pytest.mark.parametrize("module", MODULES, ids=lambda path: path.name)
def test_a_module_makes_no_markup_of_data_and_imports_only_what_is_here(module: Path) -> None:
    text = module.read_text()
    assert re.findall(r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|\beval\(|new Function", text) == []
    assert re.findall(r'style="', text) == []
    for imported in re.findall(r'from "([^"]+)"', text):
        assert (CONSOLE / imported).is_file(), imported
    assert len(text.splitlines()) <= 300


def test_every_module_is_part_of_the_page() -> None:
    loaded = {"app.js", "theme.js"}
    found = {"app.js"}
    while found:
        text = (CONSOLE / found.pop()).read_text()
        new = {each.removeprefix("./") for each in re.findall(r'from "(\./[^"/]+)"', text)} - loaded
        loaded |= new
        found |= new
    assert {each.name for each in MODULES} == loaded
