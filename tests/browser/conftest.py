"""The fixture that runs a real browser for tests."""

from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser

from tests.browser.chromium import run_chromium
from tests.browser.fetch import BrowserMissing


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    """Headless Chromium; without it the test is skipped."""
    try:
        with run_chromium() as running:
            yield running
    except BrowserMissing as missing:
        pytest.skip(str(missing))
