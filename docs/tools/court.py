"""Makes the pictures of the pages of a court and of a market, for the README and the how-tos.

`python docs/tools/court.py` plays the dispute of `moot demo`, opens its replay in the browser of
the tests, and writes `court-search.png`, `court-page.png` and `court-dark.png` into
`docs/pictures`; and it serves the page of a preset, moves a slider, and writes `market-page.png`.
`court` or `market` makes those of one of the two.
"""

import subprocess
import sys
import tempfile
from pathlib import Path

from PIL import Image
from playwright.sync_api import Browser, Page, expect

HERE = Path(__file__).parents[1] / "pictures"
sys.path.insert(0, str(HERE.parents[1]))

from tests.browser.chromium import run_chromium  # noqa: E402 - found by the line above
from tests.browser.pages import open_file, open_page  # noqa: E402 - likewise

DISPUTE = ("--program", "gpt2", "--size", "small", "--steps", "8", "--checkpoint-every", "4")
CHEAT = "wrong-output:step=6,operator=mm_17"
WIDTH, HEIGHT = 1360, 860
NARROW = 860
COLOURS = 96
DONE_MS = 120_000
PAST = 9
"""How many moves before the end the dark picture is taken."""
PRESET, KEY, VALUE = "weak-audit", "bond.eth", "2.5"
"""The market whose page is shown, and the slider that is moved."""


def play(path: Path) -> None:
    """Play the dispute, and write its replay."""
    program = Path(sys.executable).with_name("moot")
    command = [str(program), "dispute", *DISPUTE, "--cheat", CHEAT, "--replay", str(path)]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)  # noqa: S603 - ours


def take_pictures(page: Page) -> None:
    """Write the picture of the search alone, and those of the page as a window shows it."""
    page.set_viewport_size({"width": WIDTH, "height": HEIGHT})
    page.evaluate("scrollTo(0, 0)")
    page.screenshot(path=HERE / "court-page.png")
    page.emulate_media(color_scheme="dark")
    for _ in range(PAST):
        page.locator("#back").click()
    page.evaluate("scrollTo(0, 0)")
    page.screenshot(path=HERE / "court-dark.png")
    page.emulate_media(color_scheme="light")
    page.locator("#last").click()
    page.set_viewport_size({"width": NARROW, "height": HEIGHT})
    # Styles of others are forbidden by the page's policy, and the bar of time would lie over it.
    page.evaluate("document.querySelector('footer').hidden = true")
    page.locator("#match").screenshot(path=HERE / "court-search.png")


def shrink(path: Path) -> None:
    """Write a picture anew with few colours, which take a third of the bytes."""
    with Image.open(path) as picture:
        picture.convert("RGB").quantize(COLOURS, dither=Image.Dither.NONE).save(path, optimize=True)


def show_court(browser: Browser) -> None:
    """Make the pictures of a court's page."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "dispute.html")
        play(path)
        with open_file(browser, path, WIDTH) as seen:
            take_pictures(seen.page)


def show_market(browser: Browser) -> None:
    """Make the picture of a market's page, after a slider was moved."""
    from moot.sim.experiments.presets import open_config  # noqa: PLC0415 - of this function only
    from moot.sim.live.site import serve  # noqa: PLC0415 - likewise

    served = serve(PRESET, open_config(PRESET))
    with served as (url, _), open_page(browser, url, WIDTH) as seen:
        status = seen.page.locator("#status")
        expect(status).to_contain_text("done", timeout=DONE_MS)
        seen.page.locator(f"input[data-key='{KEY}']").fill(VALUE)
        expect(seen.page.locator("#settings")).to_contain_text(VALUE, timeout=DONE_MS)
        expect(status).to_contain_text("done", timeout=DONE_MS)
        seen.page.screenshot(path=HERE / "market-page.png", full_page=True)


MAKERS = {"court": show_court, "market": show_market}


def main() -> None:
    """Make the pictures, or those that are named."""
    names = sys.argv[1:] or list(MAKERS)
    with run_chromium() as browser:
        for name in names:
            MAKERS[name](browser)
    for name in names:
        for path in HERE.glob(f"{name}-*.png"):
            shrink(path)


if __name__ == "__main__":
    main()
