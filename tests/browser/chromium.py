"""Headless Chromium, running."""

from collections.abc import Iterator
from contextlib import contextmanager

from playwright.sync_api import Browser, sync_playwright

from tests.browser.fetch import get_chromium


@contextmanager
def run_chromium() -> Iterator[Browser]:
    """Run a browser for as long as the context lasts; raises BrowserMissing."""
    chromium = get_chromium()
    with sync_playwright() as driver:
        environment: dict[str, str | float | bool] = dict(chromium.environment)
        yield driver.chromium.launch(
            executable_path=chromium.program, env=environment, args=["--disable-gpu"]
        )
