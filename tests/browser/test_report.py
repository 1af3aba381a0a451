"""The report in a real browser: everything is drawn, nothing is asked for, nothing complains."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, expect

from moot.offchain.text import clean
from moot.sim.report.plots.table import PLOTS
from moot.sim.report.results import Results
from tests.browser.layout import WIDTHS, Fault, check_faults, look, set_width
from tests.browser.pages import Seen, open_file
from tests.end_to_end.command import moot
from tests.quick import only
from tests.report_helpers import EXAMPLE, OF_ANSWERS, make_hostile, make_sweep

ARROWS = "\N{LEFTWARDS ARROW}\N{RIGHTWARDS ARROW}"
DRAWN = """
    plots => plots.map(plot => [
        plot.closest("section").id,
        plot.querySelectorAll("svg.main-svg").length,
        plot.querySelectorAll(".trace, .bars .point, .hm image").length,
    ])
"""


@pytest.fixture(scope="module")
def swept(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a small sweep that has what every plot needs."""
    return make_sweep(tmp_path_factory.mktemp("swept"), reps=1)


@pytest.fixture(scope="module")
def report(swept: Path) -> Path:
    """The report on it, with a user's plot."""
    path = swept / "report.html"
    done = moot("report", str(swept), "--plot", str(EXAMPLE))
    assert (done.status, done.stderr) == (0, "")
    return path


@pytest.fixture(scope="module")
def opened(browser: Browser, report: Path) -> Iterator[Seen]:
    """The report, opened once: a browser reads its library of plots for a second."""
    with open_file(browser, report) as seen:
        yield seen


@pytest.fixture
def seen(opened: Seen) -> Seen:
    """The report as it is when it has been opened, but for its width and place in the window."""
    opened.console.clear()
    opened.page.locator("#game").select_option("0")
    return opened


def test_every_plot_is_drawn(seen: Seen) -> None:
    """Each plot of auctions has a picture with marks in it, below its title and above a caption."""
    plots = [plot for plot in PLOTS if plot.name not in OF_ANSWERS]
    drawn = {name: marks for name, *marks in seen.page.eval_on_selector_all(".plot", DRAWN)}
    assert list(drawn) == [*(plot.name for plot in plots), "base-fee"]
    for pictures, marks in drawn.values():
        assert pictures
        assert marks
    for plot in plots:
        section = seen.page.locator(f"#{plot.name}")
        assert section.locator("h2").inner_text() == plot.title
        assert section.locator(".caption").inner_text().endswith(".")
        assert "seed" in section.locator(".provenance").inner_text()


def test_the_network_is_not_asked_and_the_console_stays_empty(seen: Seen, report: Path) -> None:
    """The file is the only request, whatever one looks at; a request would be seen and refused."""
    seen.page.eval_on_selector_all("nav a", "links => links.forEach(link => link.click())")
    seen.page.locator("#profit .plot").hover()
    seen.page.locator("#after").click()
    assert seen.requests[0] == report.as_uri()
    assert set(seen.requests) <= {report.as_uri()}
    assert seen.console == []
    fetched = "fetch('https://example.org/').then(() => 'answered', () => 'refused')"
    assert seen.page.evaluate(fetched) == "refused"
    assert any("Content Security Policy" in line for line in seen.console)


FAULTS = (
    Fault("broken numbers", ".provenance { width: 9px; word-break: break-all; }"),
    Fault("overflow", "figcaption { width: 2000px; }"),
    Fault("no hint", "#summary table { width: 3000px; } .hint { display: none; }"),
    Fault("overlaps", ".caption { margin-top: -40px; }"),
    Fault("overlaps", ".xtick text { font-size: 60px !important; }"),
    Fault("small", "#summary th { font-size: 10px; }"),
    Fault("cut", ".xtitle { font-size: 90px !important; }"),
    Fault("cut", "h1 { width: 20px; overflow: hidden; white-space: nowrap; }"),
)
"""A style for each property of a layout, which breaks it."""


@pytest.mark.parametrize("width", only(WIDTHS, [*WIDTHS, 1160, 1000, 420]))
def test_every_width_can_be_read(seen: Seen, width: int) -> None:
    """Whole numbers, hints at hidden columns, no text on another or cut off, none too small."""
    set_width(seen.page, width)
    assert look(seen.page) == {}


@pytest.mark.parametrize("width", only({min(WIDTHS)}, WIDTHS))
def test_a_look_finds_what_is_spoilt(seen: Seen, width: int) -> None:
    """Each property that a look is about is found where a style breaks it."""
    check_faults(seen.page, width, FAULTS)


def test_a_hint_says_what_is_hidden(seen: Seen) -> None:
    """Above a table stand the counts of its hidden columns: of all, once it is scrolled."""
    set_width(seen.page, min(WIDTHS))
    box, hint = (seen.page.locator(f"#summary .{name}").first for name in ("scroll", "hint"))
    columns = box.locator("th").count()
    box.evaluate("it => { it.scrollLeft = 0 }")
    expect(hint).to_contain_text(re.compile(rf"Scroll for \d+ columns {ARROWS[1]}"))
    box.evaluate("it => { it.scrollLeft = 1e6 }")
    expect(hint).to_contain_text(re.compile(rf"Scroll for \d+ columns {ARROWS[0]}"))
    hidden = int(re.findall(r"\d+", hint.inner_text())[0])
    assert columns - 4 <= hidden < columns
    assert ARROWS[1] not in hint.inner_text()


def test_a_table_that_the_keyboard_misses_is_found(seen: Seen) -> None:
    """What scrolls and has no place among those that Tab goes to is among a look's findings."""
    set_width(seen.page, min(WIDTHS))
    for place in (-1, 0):
        seen.page.eval_on_selector(".scroll", "(it, place) => { it.tabIndex = place }", place)
        assert ("unreachable" in look(seen.page)) == (place < 0)


def read_moves(page: Page) -> list[list[str]]:
    """Return the texts of the table of moves."""
    cells = "rows => rows.map(row => [...row.cells].map(cell => cell.innerText))"
    found: list[list[str]] = page.eval_on_selector_all("#moves tbody tr", cells)
    return found


def test_games_are_shown_move_by_move(seen: Seen, swept: Path) -> None:
    """Whichever game is chosen, its moves are those of the table `moves`, and its gas adds up."""
    columns = ["game", "move", "block", "stage", "player", "call", "gas"]
    rows = Results(swept).read("moves", columns).to_pylist()
    keys = sorted({(row["run"], row["game"]) for row in rows})
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
