"""The page of a market in a real browser, while the market runs, and when a slider is moved."""

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from urllib.request import urlopen

import pytest
from playwright.sync_api import Browser, Page, expect

from moot.sim.economy.config import Config, load_config, replace_keys
from moot.sim.live.charts import CHARTS
from moot.sim.live.site import serve
from tests.browser.contrast import measure_contrasts
from tests.browser.layout import WIDTHS, Fault, check_faults, look, set_width
from tests.browser.pages import Seen, open_page
from tests.quick import only

expect.set_options(timeout=60_000)  # a machine may have much else to do

_MARKET = """
seed = 3
jobs = 400
burn_in = 0.25

[entry]
per_1000_blocks = 5.0

[[providers]]
strategy = "honest"
count = 6
capital_eth = 3.0

[[providers]]
strategy = {strategy}
count = 3
capital_eth = 3.0

[[watchers]]
strategy = "watcher"
count = 2
"""
_STRATEGY = """
from dataclasses import dataclass

from moot.sim.economy.strategies.base import Strategy


@dataclass
class Cheat(Strategy):
    def decide(self, job, own, stream):
        return "lazy"
"""
_HOSTILE = Path("<b>a<", "script><script>hacked=1<", "script><img src=x onerror=hacked=1>.py")
"""A path that leaves a script, if any part of a page takes it as it is written."""


def make_market(folder: Path, strategy: str = "lazy") -> Config:
    """Return a small market with a burn-in, in which some providers have a strategy."""
    path = folder / "market.toml"
    path.write_text(_MARKET.format(strategy=f"'{strategy}'"), encoding="utf-8")
    return load_config(path)


@dataclass(frozen=True)
class Shown:
    """A page of a market that is done, and its address."""

    seen: Seen
    url: str

    @property
    def page(self) -> Page:
        """The page."""
        return self.seen.page


@pytest.fixture(scope="module")
def opened(browser: Browser, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shown]:
    """The page of a small market, opened once, when all jobs are done."""
    config = make_market(tmp_path_factory.mktemp("market"))
    with serve("my-market.toml", config) as (url, _), open_page(browser, url, 1200) as seen:
        expect(seen.page.locator("#status")).to_contain_text("done: 400 jobs")
        yield Shown(seen, url)


@pytest.fixture
def shown(opened: Shown) -> Shown:
    """That page, as it is when it has been opened."""
    opened.seen.console.clear()
    opened.page.emulate_media(color_scheme="light")
    return opened


def read(url: str) -> dict[str, object]:
    """Return what the server says of the run."""
    with urlopen(f"{url}market", timeout=30) as answer:  # noqa: S310 - ours, on loopback
        told: dict[str, object] = json.loads(answer.read())
    return told


def check_quiet(seen: Seen, url: str) -> None:
    """The console is empty, and nobody but the page's own server was asked."""
    assert seen.console == []
    assert all(request.startswith(url) for request in seen.requests)


def test_a_market_is_drawn(shown: Shown) -> None:
    """Each chart has its lines and its burn-in, and the tables have what the server says."""
    page = shown.page
    for chart in CHARTS:
        section = page.locator(f"#{chart.name}")
        lines = len(chart.lines) or 2
        expect(section.locator(".plot path.line")).to_have_count(lines)
        assert section.locator(".plot rect.burn-in").count() == 1
        assert section.locator(".legend li").count() == lines
        words = str(section.locator(".plot svg").get_attribute("aria-label"))
        assert words.startswith(f"{chart.title}, {chart.unit}, now: ")
        for path in section.locator(".plot path.line").all():
            assert str(path.get_attribute("d")).count("L") > 20
    counts = read(shown.url)["counts"]
    assert isinstance(counts, dict)
    assert counts["jobs"] == 300
    sums = page.locator("#sums").inner_text()
    assert f"{counts['right']:,}, {counts['wrong']:,}" in sums
    means = page.locator("#numbers tbody tr", has_text="jobs cheated in").inner_text()
    shares = [float(it) for it in re.findall(r"([\d.]+)%", means)]
    assert shares[1] == pytest.approx(100 * counts["cheated"] / counts["jobs"], abs=0.06)
    assert "burn-in" in page.locator("#means").inner_text()
    check_quiet(shown.seen, shown.url)
    fetched = "fetch('https://example.org/').then(() => 'answered', () => 'refused')"
    assert page.evaluate(fetched) == "refused"


@pytest.mark.slow
def test_a_slider_begins_the_market_again(browser: Browser, tmp_path: Path) -> None:
    """By the keyboard alone: the same seed, another value, and the run before is drawn faintly.

    A bond that nobody has is one line on the page, and the way back is another run.
    """
    config = make_market(tmp_path)
    with serve("market", config) as (url, _), open_page(browser, url) as seen:
        page = seen.page
        expect(page.locator("#status")).to_contain_text("done")
        slider = page.get_by_label("Bond")
        slider.focus()
        page.keyboard.press("ArrowRight")
        assert slider.get_attribute("aria-valuetext") == "1.05 ETH"
        expect(page.locator("#settings")).to_contain_text("--set bond.eth=1.05")
        expect(page.locator("#status")).to_contain_text("done")
        found = read(url)
        assert (found["run"], found["seed"]) == (2, 3)
        assert found["values"]["bond.eth"] == 1.05  # type: ignore[index] # a dict
        assert page.locator("#fraud path.before").count() == 3
        page.keyboard.press("End")
        expect(page.locator("#problem")).to_contain_text(
            "a bond is 4 ETH at least, and no provider"
        )
        expect(page.locator("#status")).to_have_text("failed")
        page.locator("#reset").click()
        expect(page.locator("#status")).to_contain_text("done")
        expect(page.locator("#problem")).to_be_hidden()
        expect(page.locator("#settings")).to_be_hidden()
        assert slider.input_value() == "1"
        assert read(url)["run"] == 4
        check_quiet(seen, url)


@pytest.mark.slow
def test_a_market_is_drawn_while_it_runs(browser: Browser, tmp_path: Path) -> None:
    """Points come one after the other; a program that is gone is said, and what is there stays."""
    config = replace_keys(make_market(tmp_path), {"jobs": 10**6})
    with serve("market", config) as (url, _), open_page(browser, url) as seen:
        page = seen.page
        expect(page.locator("#status")).to_have_text("runs")
        line = page.locator("#queue .plot path.line")
        expect(line).to_have_attribute("d", re.compile(r"L.*L"))
        assert 0 < page.locator("#progress").evaluate("it => it.value / it.max") < 1
        expect(page.locator("#no-sums")).to_be_visible()
        page.route("**/market", lambda route: route.abort())
        expect(page.locator("#status")).to_have_text("no answer")
        expect(page.locator("#problem")).to_contain_text("does not answer")
        expect(line).to_have_attribute("d", re.compile(r"L.*L"))
        page.unroute("**/market")
        expect(page.locator("#status")).to_have_text("runs")
        expect(page.locator("#problem")).to_be_hidden()


@pytest.mark.slow
def test_a_refused_move_puts_the_slider_back(browser: Browser, tmp_path: Path) -> None:
    """A value that the server refuses is one line, and the slider stands where the market is."""
    with serve("market", make_market(tmp_path)) as (url, _), open_page(browser, url) as seen:
        page = seen.page
        slider = page.get_by_label("Bond")
        slider.evaluate("it => { it.max = 9 }")
        slider.fill("9")
        expect(page.locator("#problem")).to_contain_text("bond.eth = 9 is not on its slider")
        expect(slider).to_have_value("1")
        assert read(url)["run"] == 1


@pytest.mark.slow
def test_hostile_names_stay_texts(browser: Browser, tmp_path: Path) -> None:
    """A strategy whose name is markup is shown as it is written, and runs nothing."""
    path = tmp_path / _HOSTILE
    path.parent.mkdir(parents=True)
    path.write_text(_STRATEGY, encoding="utf-8")
    config = make_market(tmp_path, f"{path}:Cheat")
    name = "</title><script>hacked=1</script>"
    with serve(name, config) as (url, _), open_page(browser, url) as seen:
        page = seen.page
        expect(page.locator("#status")).to_contain_text("done")
        assert page.evaluate("window.hacked") is None
        assert page.locator("img, script[src], iframe").count() == 0
        assert "<img src=x" in page.locator("#reputation .legend").inner_text()
        set_width(page, min(WIDTHS))
        assert set(look(page)) <= {"broken numbers"}  # those of the path
        check_quiet(seen, url)


def test_the_keyboard_reaches_all_sliders(shown: Shown) -> None:
    """With Tab alone one comes to the skip link, each slider, the button and the table."""
    page = shown.page
    page.locator("body").evaluate("() => document.activeElement.blur()")
    page.evaluate("scrollTo(0, 0)")
    found = []
    for _ in range(page.locator("#sliders input").count() + 3):
        page.keyboard.press("Tab")
        found.append(page.evaluate("document.activeElement.id || document.activeElement.className"))
    sliders = [it for it in found if it.startswith("slider-")]
    assert len(set(sliders)) == page.locator("#sliders input").count() >= 5
    assert found[0] == "skip"
    assert found[-2:] == ["reset", "scroll"]
    style = "getComputedStyle(document.activeElement).outlineStyle"
    assert page.evaluate(style) == "solid"


def test_a_screen_reader_is_told(shown: Shown) -> None:
    """There is one of each landmark, sliders have names with units, and headings follow levels."""
    page = shown.page
    for role in ("banner", "main", "complementary"):
        assert page.get_by_role(role).count() == 1  # type: ignore[arg-type]
    for slider in page.get_by_role("slider").all():
        unit = str(slider.get_attribute("data-unit"))
        assert str(slider.get_attribute("aria-valuetext")).endswith(unit)
        assert slider.evaluate("it => it.labels.length") == 1
    assert page.locator("[role=status], [role=alert]").count() == 2
    levels = page.eval_on_selector_all("h1, h2, h3, h4", "all => all.map(it => +it.tagName[1])")
    assert levels[0] == 1
    assert all(later - earlier <= 1 for earlier, later in pairwise(levels))


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_texts_can_be_read_in_both_schemes(shown: Shown, scheme: str) -> None:
    """In light and dark every text has WCAG's contrast of 4.5."""
    shown.page.emulate_media(color_scheme=scheme)  # type: ignore[arg-type]
    chosen = "h1, h2, p, dt, dd, label, output, .unit, th, td, .legend li, code, .plot text"
    contrasts = measure_contrasts(shown.page, chosen)
    assert len(contrasts) > 80
    assert min(contrasts) >= 4.5


FAULTS = (
    Fault("broken numbers", "#about { width: 9px; word-break: break-all; }"),
    Fault("overflow", "#sums { width: 2000px; }"),
    Fault("no hint", "#numbers table { width: 2000px; } .hint { display: none; }"),
    Fault("overlaps", "#sums { margin-top: -60px; }"),
    Fault("overlaps", ".plot { margin-top: -40px; }"),
    Fault("small", ".legend { font-size: 10px; }"),
    Fault("cut", ".plot text { font-size: 60px; }"),
    Fault("cut", "h1 { width: 20px; overflow: hidden; white-space: nowrap; }"),
)
"""A style for each property of a layout, which breaks it."""


@pytest.mark.parametrize("width", only(WIDTHS, [*WIDTHS, 1600, 1000, 700, 360]))
def test_every_width_can_be_read(shown: Shown, width: int) -> None:
    """Whole numbers, hints at hidden columns, no text on another or cut off, none too small."""
    set_width(shown.page, width)
    assert look(shown.page) == {}


@pytest.mark.parametrize("width", only({min(WIDTHS)}, WIDTHS))
def test_a_look_finds_what_is_spoilt(shown: Shown, width: int) -> None:
    """Each property that a look is about is found where a style breaks it."""
    check_faults(shown.page, width, FAULTS)


def test_a_page_without_javascript_says_so(browser: Browser, shown: Shown) -> None:
    """A note says what is missing."""
    context = browser.new_context(java_script_enabled=False)
    page = context.new_page()
    page.goto(shown.url)
    assert "switched off" in page.locator("noscript").inner_text()
    context.close()
