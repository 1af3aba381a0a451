"""Pages in a real browser, and what they do besides showing themselves."""

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from playwright.sync_api import Browser, Page


@dataclass
class Seen:
    """What was seen of a page.

    Attributes:
        page: the page.
        requests: the addresses that it asked for.
        console: what it said there, errors that nobody caught among it.
    """

    page: Page
    requests: list[str] = field(default_factory=list)
    console: list[str] = field(default_factory=list)


def open_file(browser: Browser, path: Path, width: int = 1160) -> AbstractContextManager[Seen]:
    """Open a file in a new page, as `open_page` does."""
    return open_page(browser, path.as_uri(), width)


@contextmanager
def open_page(browser: Browser, url: str, width: int = 1160) -> Iterator[Seen]:
    """Open an address in a new page, and watch it as long as the context lasts.

    Args:
        browser: where.
        url: the address.
        width: of the window, in pixels.
    """
    page = browser.new_page(viewport={"width": width, "height": 900}, reduced_motion="reduce")
    seen = Seen(page)
    page.on("request", lambda request: seen.requests.append(request.url))
    page.on("console", lambda message: seen.console.append(message.text))
    page.on("pageerror", lambda error: seen.console.append(str(error)))
    try:
        page.goto(url)
        yield seen
    finally:
        page.close()
