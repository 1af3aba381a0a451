"""Makes the pictures of a court's page that stand in the README and in `court.md`.

`python docs/tools/court.py` plays the dispute of `moot demo`, opens its replay in the browser of
the tests, and writes `court-search.png`, `court-page.png` and `court-dark.png` into
`docs/pictures`.
"""

import subprocess
import sys
import tempfile
from pathlib import Path

from PIL import Image
from playwright.sync_api import Page

HERE = Path(__file__).parents[1] / "pictures"
sys.path.insert(0, str(HERE.parents[1]))

from tests.browser.chromium import run_chromium  # noqa: E402 - found by the line above
from tests.browser.pages import open_file  # noqa: E402 - likewise

DISPUTE = ("--program", "gpt2", "--size", "small", "--steps", "8", "--checkpoint-every", "4")
CHEAT = "wrong-output:step=6,operator=mm_17"
WIDTH, HEIGHT = 1360, 860
NARROW = 860
COLOURS = 96
PAST = 9
"""How many moves before the end the dark picture is taken."""


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


def main() -> None:
    """Make the pictures."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "dispute.html")
        play(path)
        with run_chromium() as browser, open_file(browser, path, WIDTH) as seen:
            take_pictures(seen.page)
    for path in HERE.glob("court-*.png"):
        shrink(path)


if __name__ == "__main__":
    main()
