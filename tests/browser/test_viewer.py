"""The page of a court in a real browser, while a dispute is played under it, and as one file."""

from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import msgspec
import pytest
from playwright.sync_api import Browser, Page, expect

from moot.offchain.chain import connect
from moot.offchain.disputes.play.game import Game
from moot.offchain.record.referee_log import RefereeLog
from moot.offchain.record.schema import Record, make_record
from moot.sim.viewer.follower import Follower
from moot.sim.viewer.page import make_page
from moot.sim.viewer.server import serve
from tests.browser.contrast import measure_contrasts
from tests.browser.layout import WIDTHS, Fault, check_faults, look, set_width
from tests.browser.pages import Seen, open_file, open_page
from tests.chain_helpers import LoopbackNode, open_node
from tests.end_to_end.command import moot
from tests.quick import only
from tests.record_helpers import (
    SCALAR,
    SILENT,
    SINK,
    make_hostile,
    make_small_record,
    open_chain,
    stretch,
)

DISPUTE = ("--program", "mlp", "--steps", "4", "--checkpoint-every", "2", "--trust-capture")
CHEAT = ("--cheat", "wrong-output", "--seed", "3")
expect.set_options(timeout=60_000)  # a machine may have much else to do
HOSTILE = "</script><script>hacked=1</script><img src=x onerror=hacked=1>\u202e"
LATE = (SCALAR, SINK, SILENT)
PERIOD_S = 0.1
"""How often a follower reads the chain."""
HASTEN = "() => { const set = setTimeout; window.setTimeout = (call, ms) => set(call, ms / 10) }"
"""Makes a page ask its server ten times as often: each turn of a game waits for that."""


@pytest.fixture(scope="module")
def record() -> Record:
    """The record of a small dispute, for all tests that only look at it."""
    return make_small_record()


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory, record: Record) -> Path:
    """The page of that record."""
    return write_page(tmp_path_factory.mktemp("small"), record)


@pytest.fixture(scope="module")
def opened(browser: Browser, small: Path) -> Iterator[Seen]:
    """That page, opened once."""
    with open_file(browser, small, 1400) as seen:
        yield seen


@pytest.fixture
def seen(opened: Seen) -> Seen:
    """That page as it is when it has been opened, but for its place in the window."""
    opened.console.clear()
    opened.page.set_viewport_size({"width": 1400, "height": 900})
    opened.page.emulate_media(color_scheme="light")
    opened.page.locator("input[value=move]").check()
    opened.page.evaluate("document.getElementById('last').click()")
    return opened


@pytest.fixture
def node() -> Iterator[LoopbackNode]:
    """A node behind JSON-RPC."""
    with open_node("http") as node:
        yield node


def write_page(folder: Path, record: Record) -> Path:
    """Write the page of a record."""
    path = folder / "page.html"
    path.write_text(make_page(record), encoding="utf-8")
    return path


def count_rows(page: Page) -> int:
    """Return how many openings the picture shows."""
    return page.locator("#picture g.row").count()


def read_time(page: Page) -> tuple[int, int]:
    """Return where the slider stands, and where it ends."""
    slider = page.locator("#time")
    return int(slider.input_value()), int(str(slider.get_attribute("max")))


def check_quiet(seen: Seen, url: str) -> None:
    """The console is empty, and nobody but the page's own server was asked."""
    assert seen.console == []
    assert seen.requests
    assert all(request.startswith(url) for request in seen.requests)


@pytest.mark.slow
def test_a_dispute_is_played_under_the_page(browser: Browser, node: LoopbackNode) -> None:
    """From an empty court to the last payment each call appears, without the page being loaded."""
    with connect(node.url) as chain, connect(node.url) as own:
        game = open_chain(chain, (SCALAR,))
        address: Any = game.referee.address
        follower = Follower(RefereeLog.find(own, address), PERIOD_S)
        with serve(follower) as url, open_page(browser, url, 1400) as seen:
            page = seen.page
            expect(page.locator("#status")).to_have_class("live")
            expect(page.locator("#no-match")).to_contain_text("no job yet")
            page.evaluate("window.same = true")
            page.evaluate(HASTEN)
            watch(game, page, chain.block_number)
            check_end(page, sum(played.call.gas for played in read_frames(game)))
            chain.mine(7)
            expect(page.locator("#status")).to_have_text(f"live, block {chain.block_number()}")
            assert page.evaluate("window.same") is True
            check_quiet(seen, url)


def watch(game: Game, page: Page, get_head: Any) -> None:
    """Play a game to its end, and look at the page after every turn."""
    moves, stages = 0, set()
    while True:
        turn = game.take_turn()
        if turn is None:
            if not game.wait():
                return
            continue
        moves += len(turn)
        expect(page.locator("#calls tr")).to_have_count(moves)
        expect(page.locator("#now")).to_contain_text(f"move {moves} of {moves}")
        expect(page.locator("#status")).to_have_text(f"live, block {get_head()}")
        last = turn[-1]
        if last.call not in {"descend", "enter_claimed", "enter_tensor"}:
            continue
        stages.add(last.call)
        assert last.receipt is not None
        expect(page.locator("#calls tr.now td").first).to_have_text(str(last.receipt.block))
        expect(page.locator("#picture rect.open").first).to_be_visible()
        expect(page.locator("#news")).to_contain_text("opens")
        movers = page.locator(".side .turn", has_text="is to move")
        assert movers.count() == 1
        assert page.get_by_role("meter").count() == 2


def check_end(page: Page, gas: int) -> None:
    """The page shows what was found, who was right, and what everybody has in the end."""
    crumbs = page.locator("#crumbs").inner_text().split("\n")
    assert crumbs == [
        "checkpoint 1",
        "step 6",
        "operator 4, contract by fma",
        "element 77",
        crumbs[4],
    ]
    assert crumbs[4] == "term 33 of 70"
    verdict = page.locator("#verdict")
    assert "fma(1.1, \N{MINUS SIGN}0.3, " in verdict.inner_text()
    cards = verdict.locator(".value")
    expect(cards).to_have_count(3)
    assert [card.inner_text().split("\n")[0] for card in cards.all()][1] == "the contract computes"
    assert cards.locator(".right").count() == 1
    assert cards.locator(".wrong").count() == 1
    assert page.locator(".side.lost").count() == 1
    assert page.locator("#claims li.won").count() == 1
    members = page.locator("#members").inner_text()
    assert "is defeated" in members
    assert "bond lost" in members
    assert "is paid" in members
    facts = page.locator("#facts").inner_text()
    for item in ("won", "0.1 ETH", "2 ETH", "0.5 ETH", "1.6 ETH"):
        assert item in facts
    assert f"{gas:,}" in facts


def read_frames(game: Game) -> Any:
    """Return the frames of a game's court as somebody reads them who has read nothing."""
    referee: Any = game.referee
    follower = Follower(RefereeLog.find(referee.chain, referee.address), 3600)
    follower._read()
    return follower.film.frames


def test_a_chain_that_stops_is_said_and_goes_on(browser: Browser, node: LoopbackNode) -> None:
    """The page says that the chain has stopped, keeps what it shows, and goes on, not loaded."""
    with connect(node.url) as chain, connect(node.url) as own:
        game = open_chain(chain, (SCALAR,))
        address: Any = game.referee.address
        follower = Follower(RefereeLog.find(own, address), PERIOD_S)
        game.take_turn()

        def break_off(_: Any) -> Any:
            raise ConnectionError

        with serve(follower) as url, open_page(browser, url) as seen:
            status = seen.page.locator("#status")
            expect(status).to_have_class("live")
            seen.page.evaluate("window.same = true")
            seen.page.evaluate(HASTEN)
            node.replies["eth_blockNumber"] = break_off
            expect(status).to_have_class("stopped")
            expect(status).to_contain_text("no chain at")
            expect(seen.page.locator("#calls tr")).to_have_count(1)
            del node.replies["eth_blockNumber"]
            expect(status).to_have_class("live")
            game.take_turn()
            expect(seen.page.locator("#calls tr")).to_have_count(3)
            assert seen.page.evaluate("window.same") is True
            check_quiet(seen, url)


def test_a_record_is_one_file_that_asks_for_nothing(
    seen: Seen, small: Path, record: Record
) -> None:
    """The file from the disk shows a dispute and its end, with names, and asks nobody."""
    check_end(seen.page, sum(frame.call.gas or 0 for frame in record.frames))
    check_file(seen, small)


@pytest.mark.slow
def test_a_replay_is_one_file_that_asks_for_nothing(browser: Browser, tmp_path: Path) -> None:
    """The file that the command writes shows a real program's dispute, and its operators' names."""
    path = tmp_path / "dispute.html"
    done = moot("dispute", *DISPUTE, *CHEAT, "--replay", str(path))
    assert (done.status, done.stderr) == (0, "")
    with open_file(browser, path, 1400) as seen:
        operator = seen.page.locator("#crumbs li").nth(2).inner_text()
        assert operator.startswith("operator ")
        assert operator.endswith(")")
        check_file(seen, path)


def check_file(seen: Seen, path: Path) -> None:
    """A file shows who was wrong, asks for nothing, and could not."""
    page = seen.page
    assert page.locator("#match-title").inner_text().count("-1") == 2
    expect(page.locator("#verdict")).to_be_visible()
    assert page.locator("#verdict .wrong").count() == 1
    for button in ("first", "forward", "last", "back"):
        page.locator(f"#{button}").click()
    assert set(seen.requests) == {path.as_uri()}
    assert seen.console == []
    fetched = "fetch('https://example.org/').then(() => 'answered', () => 'refused')"
    assert page.evaluate(fetched) == "refused"
    assert any("Content Security Policy" in line for line in seen.console)


GO_ON = """
    moves => [...Array(moves)].map(() => {
        document.getElementById("forward").click();
        return document.querySelectorAll("#picture g.row").length;
    })
"""
"""Goes on move by move, and returns how many openings the picture shows after each."""


def test_the_slider_goes_through_the_past(seen: Seen, record: Record) -> None:
    """Move by move the picture grows by what each move opens; by blocks it shows the same."""
    page = seen.page
    assert read_time(page) == (len(record.frames) - 1,) * 2
    page.locator("#first").click()
    assert read_time(page)[0] == 0
    expect(page.locator("#match")).to_be_hidden()
    rows = [0, *page.evaluate(GO_ON, len(record.frames) - 1)]
    assert all(0 <= later - earlier <= 1 for earlier, later in pairwise(rows))
    assert rows[-1] >= 7
    expect(page.locator("#forward")).to_be_disabled()
    texts = page.locator("#calls button").all_inner_texts()
    assert texts == [frame.text for frame in record.frames]
    page.locator("#calls button").nth(9).click()
    assert (read_time(page)[0], count_rows(page)) == (9, rows[9])
    page.get_by_label("by block").check()
    assert read_time(page)[1] == record.head - record.frames[0].block
    assert count_rows(page) == rows[9]
    page.locator("#time").fill("0")
    expect(page.locator("#now")).to_contain_text("block 1 of")
    expect(page.locator("#match")).to_be_hidden()
    assert seen.console == []


def test_clocks_run_from_block_to_block(browser: Browser, tmp_path: Path) -> None:
    """Whose turn it is has a block less with each block; the other's clock stands still."""
    path = write_page(tmp_path, make_small_record((SILENT,)))
    with open_file(browser, path) as seen:
        page = seen.page
        page.get_by_label("by block").check()
        start = page.evaluate(FIND_METERS)
        before = read_clocks(page, start + 4)
        after = read_clocks(page, start + 9)
        assert sorted(before[side] - after[side] for side in (0, 1)) == [0, 5]
        page.locator("#last").click()
        assert page.get_by_role("meter").count() == 0
        assert "clock has run out" in page.locator("#verdict").inner_text()


FIND_METERS = """() => {
    const time = document.getElementById("time");
    return [...Array(Number(time.max)).keys()].find(place => {
        time.value = place;
        time.dispatchEvent(new Event("input"));
        return document.querySelectorAll("[role=meter]").length === 2;
    });
}"""
"""Finds the first place of the slider where a match is being played."""


def read_clocks(page: Page, place: int) -> list[int]:
    """Return what both clocks show at a place of the slider."""
    page.locator("#time").fill(str(place))
    meters = page.get_by_role("meter").all()
    return [int(str(meter.get_attribute("aria-valuenow"))) for meter in meters]


def test_the_keyboard_reaches_everything(browser: Browser, tmp_path: Path) -> None:
    """With Tab and arrows alone one moves in time and between matches, and sees the focus."""
    path = write_page(tmp_path, make_small_record(LATE))
    with open_file(browser, path, 1400) as seen:
        page = seen.page
        page.keyboard.press("Tab")
        assert page.evaluate("document.activeElement.className") == "skip"
        page.keyboard.press("Enter")
        missed, presses = {"search", "course", "first", "back", "play", "time"}, 0
        focused = "document.activeElement.id || document.activeElement.closest('[id]')?.id"
        while missed:
            assert presses < 60, missed
            page.keyboard.press("Tab")
            missed.discard(page.evaluate(focused))
            presses += 1
        check_arrows(page)
        tabs = page.get_by_role("tab")
        assert tabs.count() == 3
        tabs.locator("xpath=self::*[@aria-selected='true']").focus()
        shown = [page.locator("#match-title").inner_text()]
        for _ in range(3):
            page.keyboard.press("ArrowRight")
            assert page.evaluate("document.activeElement.getAttribute('role')") == "tab"
            shown.append(page.locator("#match-title").inner_text())
        assert len(set(shown[:3])) >= 2
        assert shown[3] == shown[0]
        style = "getComputedStyle(document.activeElement).outlineStyle"
        assert page.evaluate(style) == "solid"
        assert seen.console == []


def check_arrows(page: Page) -> None:
    """The slider and the picture take arrows, and say where they are."""
    end = read_time(page)[1]
    page.locator("#time").focus()
    page.keyboard.press("ArrowLeft")
    assert read_time(page)[0] == end - 1
    page.keyboard.press("Home")
    assert read_time(page)[0] == 0
    assert (
        page.locator("#time").get_attribute("aria-valuetext") == page.locator("#now").inner_text()
    )
    page.keyboard.press("End")
    page.locator("#search").focus()
    page.keyboard.press("ArrowLeft")
    page.keyboard.press("ArrowLeft")
    assert read_time(page)[0] == end - 2
    page.keyboard.press("ArrowRight")
    assert read_time(page)[0] == end - 1
    assert page.locator("#news").inner_text().startswith("Block ")


def test_a_screen_reader_is_told(seen: Seen) -> None:
    """There is one of each landmark, every control has a name, and the picture is in words."""
    page = seen.page
    for role in ("banner", "main", "contentinfo", "complementary"):
        assert page.get_by_role(role).count() == 1  # type: ignore[arg-type]
    assert page.get_by_role("navigation", name="Jobs").count() == 1
    named = "all => all.every(it => it.ariaLabel || it.textContent.trim() || it.labels?.length)"
    assert page.eval_on_selector_all("button, input", named)
    words = str(page.locator("#picture svg").get_attribute("aria-label"))
    assert "the first difference is in operator 4" in words
    assert page.locator("[aria-live=polite], [role=status]").count() == 2
    levels = page.eval_on_selector_all("h1, h2, h3, h4", "all => all.map(it => +it.tagName[1])")
    assert levels[0] == 1
    assert all(later - earlier <= 1 for earlier, later in pairwise(levels))


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_texts_can_be_read_in_both_schemes(seen: Seen, scheme: str) -> None:
    """In light and dark every text has WCAG's contrast of 4.5, and the grounds differ."""
    seen.page.emulate_media(color_scheme=scheme)  # type: ignore[arg-type]
    chosen = "h1, h2, h3, h4, p, dt, dd, .side span, #crumbs li, small, th, .legend li, code"
    contrasts = measure_contrasts(seen.page, chosen)
    assert len(contrasts) > 60
    assert min(contrasts) >= 4.5
    ground = seen.page.evaluate("getComputedStyle(document.body).backgroundColor")
    assert (ground == "rgb(245, 246, 248)") == (scheme == "light")


FAULTS = (
    Fault("broken numbers", "#verdict .number { width: 5em; overflow-wrap: anywhere; }"),
    Fault("overflow", "#facts { width: 2000px; }"),
    Fault("no hint", "#course table { width: 2000px; } .hint { display: none; }"),
    Fault("overlaps", "#claims { margin-top: -30px; }"),
    Fault("overlaps", "#picture { margin-top: -30px; }"),
    Fault("small", ".legend { font-size: 10px; }"),
    Fault("cut", "#picture .found { font-size: 90px !important; }"),
    Fault("cut", "#match-title { width: 20px; overflow: hidden; white-space: nowrap; }"),
)
"""A style for each property of a layout, which breaks it."""
NUMBERS = ("-1.1754944e-38", "-2.2250738585072014e-308, exactly kept")
"""The longest numbers of elements and of exact sums."""


@pytest.fixture(scope="module", params=NUMBERS)
def stretched(
    request: pytest.FixtureRequest,
    browser: Browser,
    tmp_path_factory: pytest.TempPathFactory,
    record: Record,
) -> Iterator[Page]:
    """The page of a record whose numbers are long."""
    path = write_page(tmp_path_factory.mktemp("stretched"), stretch(record, request.param))
    with open_file(browser, path) as seen:
        yield seen.page


@pytest.mark.parametrize("width", only(WIDTHS, [*WIDTHS, 1600, 1000, 700, 360]))
def test_every_width_shows_all(stretched: Page, width: int) -> None:
    """Whole numbers, hints at hidden columns, no text on another or cut off, none too small."""
    set_width(stretched, width)
    assert look(stretched) == {}
    assert stretched.locator("#picture rect").first.is_visible()


@pytest.mark.parametrize("width", only({min(WIDTHS)}, WIDTHS))
def test_a_look_finds_what_is_spoilt(stretched: Page, width: int) -> None:
    """Each property that a look is about is found where a style breaks it."""
    check_faults(stretched, width, FAULTS)


def test_a_table_that_the_keyboard_misses_is_found(stretched: Page) -> None:
    """What scrolls and has no place among those that Tab goes to is among a look's findings."""
    set_width(stretched, min(WIDTHS))
    for place in (-1, 0):
        stretched.eval_on_selector(
            "#course .scroll", "(it, place) => { it.tabIndex = place }", place
        )
        assert ("unreachable" in look(stretched)) == (place < 0)


def test_hostile_texts_stay_texts(browser: Browser, tmp_path: Path) -> None:
    """Names and texts that are markup are shown as they are written, and run nothing."""
    path = write_page(tmp_path, make_hostile(HOSTILE))
    with open_file(browser, path) as seen:
        page = seen.page
        assert seen.console == []
        assert set(seen.requests) == {path.as_uri()}
        assert page.evaluate("window.hacked") is None
        assert page.locator("img, script[src], iframe").count() == 0
        shown = page.locator("#calls").inner_text()
        assert "</script><script>hacked=1" in shown
        assert "\u202e" not in shown


def test_a_name_of_the_languages_own_is_no_name(browser: Browser, tmp_path: Path) -> None:
    """Accounts that nobody has named are shown by their addresses, whatever objects inherit."""
    record = make_small_record()
    frames = [
        msgspec.structs.replace(it, call=msgspec.structs.replace(it.call, sender="constructor"))
        for it in record.frames
    ]
    path = write_page(tmp_path, make_record(record.court, {}, record.head, frames))
    with open_file(browser, path) as seen:
        assert seen.page.locator("#calls tr td:nth-child(2)").first.inner_text() == "constructor"
        assert seen.console == []


def test_playing_goes_on_by_itself_and_stops(seen: Seen) -> None:
    """The button plays the moves one after another, and any step of one's own stops it."""
    page = seen.page
    page.locator("#play").click()
    expect(page.locator("#play")).to_have_attribute("aria-pressed", "true")
    expect(page.locator("#now")).to_contain_text("move 3 of")
    page.locator("#back").click()
    expect(page.locator("#play")).to_have_attribute("aria-pressed", "false")


def test_a_page_without_javascript_says_so(browser: Browser, small: Path) -> None:
    """A note says what is missing."""
    context = browser.new_context(java_script_enabled=False)
    page = context.new_page()
    page.goto(small.as_uri())
    assert "switched off" in page.locator("noscript").inner_text()
    context.close()
