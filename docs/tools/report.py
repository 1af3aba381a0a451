"""Makes the pictures of a report that stand in the README and in `report.md`.

`python docs/tools/report.py` sweeps over the market of `report.toml`, makes a report on it, opens
that in the browser of the tests, and writes `report-plots.png` and `report-game.png` into
`docs/pictures`.
"""

import subprocess
import sys
import tempfile
from pathlib import Path

from playwright.sync_api import Page

HERE = Path(__file__).parent
PICTURES = HERE.parent / "pictures"
sys.path.insert(0, str(HERE.parents[1]))

from tests.browser.chromium import run_chromium  # noqa: E402 - found by the line above
from tests.browser.pages import open_file  # noqa: E402 - likewise

SETTINGS = ("bond.eth=0.1,0.25,0.5,1,1.5,2", "audit.rate=0.05,0.1,0.2,0.4")
REPETITIONS = 4
PLOTS = ("profit", "audits")
WIDTH = 1000


def run(*words: str) -> str:
    """Return what `moot` prints with these words."""
    program = Path(sys.executable).with_name("moot")
    command = [str(program), *words]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout  # noqa: S603 - ours


def take_pictures(page: Page) -> None:
    """Write the pictures of some plots, one below the other, and of a game."""
    kept = ", ".join(f"#{name}" for name in PLOTS)
    page.add_style_tag(content="section { margin-bottom: 12px !important; }")
    page.evaluate(
        f"document.querySelectorAll('main > section:not({kept})').forEach(s => s.hidden = true)"
    )
    main = page.locator("main")
    main.screenshot(path=PICTURES / "report-plots.png")
    page.evaluate(
        "document.querySelectorAll('main > section').forEach(s => s.hidden = s.id != 'games')"
    )
    main.screenshot(path=PICTURES / "report-game.png")


def main() -> None:
    """Make the pictures, and print what the report says of itself."""
    options = [word for setting in SETTINGS for word in ("--set", setting)]
    with tempfile.TemporaryDirectory() as folder:
        results = Path(folder, "results")
        run(
            "sweep",
            str(HERE / "report.toml"),
            *options,
            "--reps",
            str(REPETITIONS),
            "-o",
            str(results),
        )
        print(run("report", str(results)).replace(f"{folder}/", ""), end="")
        path = results / "report.html"
        with run_chromium() as browser, open_file(browser, path, WIDTH) as seen:
            take_pictures(seen.page)


if __name__ == "__main__":
    main()
