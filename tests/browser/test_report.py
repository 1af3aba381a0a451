"""The report in a real browser: everything is drawn, nothing is asked for, nothing complains."""

import re
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page

from moot.offchain.text import clean
from moot.sim.report.plots.table import PLOTS
from moot.sim.report.results import Results
from tests.browser.pages import open_file
from tests.end_to_end.command import moot
from tests.quick import only
from tests.report_helpers import EXAMPLE, make_hostile, make_sweep

DRAWN = """
    plots => plots.map(plot => [
        plot.closest("section").id,
        plot.querySelectorAll("svg.main-svg").length,
        plot.querySelectorAll(".trace, .bars .point, .hm image").length,
    ])
"""


@pytest.fixture(scope="session")
def swept(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a small sweep that has what every plot needs."""
    return make_sweep(tmp_path_factory.mktemp("swept"))


@pytest.fixture(scope="session")
def report(swept: Path) -> Path:
    """The report on it, with a user's plot."""
    path = swept / "report.html"
    done = moot("report", str(swept), "--plot", str(EXAMPLE))
    assert (done.status, done.stderr) == (0, "")
    return path


def test_every_plot_is_drawn(browser: Browser, report: Path) -> None:
    """Each plot has a picture with marks in it, below its title and above a caption."""
    with open_file(browser, report) as seen:
        drawn = {name: marks for name, *marks in seen.page.eval_on_selector_all(".plot", DRAWN)}
        assert list(drawn) == [*(plot.name for plot in PLOTS), "base-fee"]
        for pictures, marks in drawn.values():
            assert pictures
            assert marks
        for plot in PLOTS:
            section = seen.page.locator(f"#{plot.name}")
            assert section.locator("h2").inner_text() == plot.title
            assert section.locator(".caption").inner_text().endswith(".")
            assert "seed" in section.locator(".provenance").inner_text()


def test_the_network_is_not_asked_and_the_console_stays_empty(
    browser: Browser, report: Path
) -> None:
    """The file is the only request, whatever one looks at; a request would be seen and refused."""
    with open_file(browser, report) as seen:
        for link in seen.page.locator("nav a").all():
            link.click()
        seen.page.locator("#profit .plot").hover()
        seen.page.locator("#after").click()
        assert seen.requests[0] == report.as_uri()
        assert set(seen.requests) <= {report.as_uri()}
        assert seen.console == []
        fetched = "fetch('https://example.org/').then(() => 'answered', () => 'refused')"
        assert seen.page.evaluate(fetched) == "refused"
        assert any("Content Security Policy" in line for line in seen.console)


@pytest.mark.parametrize("width", only({420}, [1160, 1000, 420]))
def test_nothing_hides_a_caption(browser: Browser, report: Path, width: int) -> None:
    """However wide the window becomes, a picture ends above its caption, and inside the page."""
    with open_file(browser, report) as seen:
        seen.page.set_viewport_size({"width": width, "height": 800})
        for figure in seen.page.locator("figure").all():
            caption = figure.locator("figcaption").bounding_box()
            figure.locator(f"svg.main-svg[width='{round(caption['width'])}']").first.wait_for()
            picture = figure.locator("svg.main-svg").first.bounding_box()
            assert picture["y"] + picture["height"] <= caption["y"]
            assert picture["x"] + picture["width"] <= width


def read_moves(page: Page) -> list[list[str]]:
    """Return the texts of the table of moves."""
    cells = "rows => rows.map(row => [...row.cells].map(cell => cell.innerText))"
    found: list[list[str]] = page.eval_on_selector_all("#moves tbody tr", cells)
    return found


def test_games_are_shown_move_by_move(browser: Browser, swept: Path, report: Path) -> None:
    """Whichever game is chosen, its moves are those of the table `moves`, and its gas adds up."""
    columns = ["game", "move", "block", "stage", "player", "call", "gas"]
    rows = Results(swept).read("moves", columns).to_pylist()
    keys = sorted({(row["run"], row["game"]) for row in rows})
    with open_file(browser, report) as seen:
        page = seen.page
        assert page.locator("#before").is_disabled()
        page.locator("#after").click()
        page.locator("#after").click()
        page.locator("#before").click()
        for place in (1, 0, 3):
            if place != 1:
                page.locator("#game").select_option(str(place))
            run, game = keys[place]
            own = [row for row in rows if (row["run"], row["game"]) == (run, game)]
            wanted, total = [], 0
            for row in own:
                total += row["gas"]
                texts = [row["stage"], row["player"], row["call"]]
                numbers = (row["move"], row["block"], row["gas"], total)
                move, block, gas, sum_so_far = (f"{number:,}" for number in numbers)
                wanted.append([move, block, *texts, gas, sum_so_far])
            assert read_moves(page) == wanted
            assert page.locator("#title").inner_text().startswith(f"Run {run}, game {game} ")
            assert page.locator(".moves .bars .point").count() == len(own)
        assert seen.console == []


def test_hostile_text_stays_text(browser: Browser, tmp_path: Path) -> None:
    """A strategy whose name is markup is shown as it is written, and runs nothing."""
    folder, name = make_hostile(tmp_path)
    assert moot("report", str(folder)).status == 0
    with open_file(browser, folder / "report.html") as seen:
        assert seen.console == []
        assert set(seen.requests) == {(folder / "report.html").as_uri()}
        assert seen.page.evaluate("window.hacked") is None
        assert seen.page.locator("main img, main a").count() == 0
        assert clean(name) in str(seen.page.locator("#heat .plot").text_content())


def test_a_page_without_javascript_says_so(browser: Browser, report: Path) -> None:
    """The summary stands in the page itself, and a note says what is missing."""
    context = browser.new_context(java_script_enabled=False)
    page = context.new_page()
    page.goto(report.as_uri())
    assert page.locator("#summary tbody tr").count() > 1
    assert "switched off" in page.locator("noscript").inner_text()
    context.close()


@pytest.mark.slow
def test_a_report_prints_every_plot(browser: Browser, report: Path, tmp_path: Path) -> None:
    """On paper there are no controls, and the page still holds all sections."""
    with open_file(browser, report) as seen:
        seen.page.emulate_media(media="print")
        assert not seen.page.locator("#chooser").is_visible()
        assert all(plot.is_visible() for plot in seen.page.locator(".plot").all())
        path = tmp_path / "report.pdf"
        seen.page.pdf(path=path)
        assert len(re.findall(rb"/Type\s*/Page\b", path.read_bytes())) >= len(PLOTS) / 2
