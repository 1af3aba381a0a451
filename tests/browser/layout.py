"""How a page is laid out in a browser: what a person would find wrong with it, measured."""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from playwright.sync_api import Page

WIDTHS = (1200, 820, 390)
"""Those of a desktop's window, a tablet and a telephone, in pixels."""
SMALLEST = 11
"""Pixels that a text's letters have at least."""
_LOOK = Path(__file__).with_name("layout.js").read_text("utf-8")
_REDRAWN = """() => [...document.querySelectorAll("#picture, .plot, .moves")].every(place => {
    const svg = place.querySelector("svg");
    return !svg || Math.abs(svg.getBoundingClientRect().width - place.clientWidth) < 1;
})"""
"""Whether each picture is as wide as its place."""
_ADD = """rules => {
    const [sheet] = document.styleSheets;
    sheet.insertRule(`@media all { ${rules} }`, sheet.cssRules.length);
}"""
_REMOVE = "() => document.styleSheets[0].deleteRule(document.styleSheets[0].cssRules.length - 1)"


@dataclass(frozen=True, slots=True)
class Fault:
    """A style that breaks a property, and the property's name among what a look finds."""

    name: str
    style: str


def set_width(page: Page, width: int) -> None:
    """Make a window so wide, unless it is, and wait until its pictures are."""
    size = page.viewport_size
    if size and size["width"] == width:
        return
    page.set_viewport_size({"width": width, "height": 900})
    page.wait_for_function(_REDRAWN)
    page.evaluate("() => new Promise(done => requestAnimationFrame(() => setTimeout(done, 50)))")


def look(page: Page) -> dict[str, list[str]]:
    """Return what is wrong with a page's layout: sentences by property, none of them if empty.

    No number is broken between two lines; nothing goes beyond the window but in containers that
    scroll, which say so and which the keyboard reaches; no text lies on another one or on a
    picture; no letters are too small; nothing is cut off.
    """
    found = page.evaluate(_LOOK, SMALLEST)
    assert found.pop("texts") > 50
    return {name: faults for name, faults in found.items() if faults}


@contextmanager
def spoil(page: Page, fault: Fault) -> Iterator[None]:
    """Add a fault's style to a page for as long as the context lasts."""
    page.evaluate(_ADD, fault.style)
    try:
        yield
    finally:
        page.evaluate(_REMOVE)


def check_faults(page: Page, width: int, faults: Iterable[Fault]) -> None:
    """Each style that breaks a property of a layout is found, and none of them stays."""
    set_width(page, width)
    for fault in faults:
        with spoil(page, fault):
            assert fault.name in look(page), fault
    assert look(page) == {}
