"""The live page of a market: what it is told is the run's own, and no request does any harm."""

import json
import os
import signal
import socket
import subprocess
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, field
from email.message import Message
from statistics import fmean
from typing import Any
from urllib.parse import urlsplit

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from moot.offchain.errors import UsageError
from moot.sim.economy.config import Config, replace_keys, show_config
from moot.sim.economy.simulate import simulate
from moot.sim.experiments.presets import list_presets, open_config
from moot.sim.live.child import Voice
from moot.sim.live.child import play as play_run
from moot.sim.live.runner import Runner
from moot.sim.live.site import MARKET, TOKEN, MarketSite, serve
from moot.sim.live.sliders import KNOBS, MOST, Slider, find_value, list_sliders, move
from moot.sim.live.watch import POINTS, Point, Watch
from tests.economy_helpers import Kept, make_config, play
from tests.page_helpers import Answer, Get, ask, wait_for
from tests.quick import only

GWEI = 10**9
ENDLESS = 10**6
"""Jobs of a market that is not over before a test is."""


@dataclass
class Both:
    """A sink that keeps all rows, and shows them to a watch."""

    watch: Watch
    kept: Kept = field(default_factory=Kept)

    def add(self, table: str, row: tuple[object, ...]) -> None:
        """See Sink."""
        self.kept.add(table, row)
        self.watch.add(table, row)


def look(config: Config) -> tuple[Both, dict[int, Point], Any]:
    """Play a market under a watch; return its sink, its points and its counts."""
    points: dict[int, Point] = {}
    sink = Both(Watch(config.jobs, points.__setitem__))
    counts = simulate(config, sink)
    sink.watch.tell()
    return sink, points, counts


@pytest.mark.parametrize("jobs", only({37}, [37, 300]))
def test_a_watch_changes_nothing(jobs: int) -> None:
    """The rows and counts of a market are the same, whether somebody watches it or not."""
    config = replace_keys(open_config("baseline"), {"jobs": jobs})
    sink, points, counts = look(config)
    kept = Kept()
    assert simulate(config, kept) == counts
    assert sink.kept.rows == kept.rows
    assert sorted(points) == list(range(min(jobs, POINTS)))


def test_points_are_means_of_the_rows() -> None:
    """Weighted by what they are of, the points come to the means of the tables."""
    sink, found, _ = look(replace_keys(open_config("baseline"), {"jobs": 300}))
    points = [found[place] for place in sorted(found)]
    jobs, blocks = sink.kept.read("jobs"), sink.kept.read("ledger")
    assert [point["jobs"] for point in points] == [3] * POINTS
    served = [row for row in jobs if row["provider"] is not None]
    means = {
        ("cheated", "jobs"): fmean(row["is_cheated"] for row in jobs),
        ("right", "jobs"): fmean(row["outcome"] == "right" for row in jobs),
        ("checked", "jobs"): fmean(row["is_checked"] for row in jobs),
        ("price_eth", "served"): fmean(row["price_gwei"] for row in served) / GWEI,
        ("fees_eth", "served"): fmean(row["fees_gwei"] for row in served) / GWEI,
        ("open_jobs", "blocks"): fmean(row["open_jobs"] for row in blocks),
        ("base_fee_gwei", "blocks"): fmean(row["base_fee_wei"] for row in blocks) / GWEI,
    }
    for (name, whole), mean in means.items():
        total = sum(point[name] * point[whole] for point in points if point[whole])
        assert total / sum(point[whole] for point in points) == pytest.approx(mean)
    for name in ("honest", "lazy"):
        own = [it["strategies"][name] for it in points if name in it["strategies"]]
        rows = [row["reputation"] for row in served if row["strategy"] == name]
        assert sum(it["jobs"] for it in own) == len(rows)
        total = sum(it["jobs"] * it["reputation"] for it in own)
        assert total / len(rows) == pytest.approx(fmean(rows))


def test_a_job_has_the_reputation_of_its_provider() -> None:
    """The rows of jobs have the provider's reputation, and none where nobody has served."""
    kept, _ = play(make_config(clients={"jobs_per_block": 20.0}, bond={"name": "constant"}))
    rows = kept.read("jobs")
    assert all((row["reputation"] is None) == (row["provider"] is None) for row in rows)
    first = {row["provider"]: row["reputation"] for row in reversed(rows) if row["provider"]}
    last = {row["provider"]: row["reputation"] for row in rows if row["provider"]}
    assert set(first.values()) == {0.5}
    agents = {row["agent"]: row for row in kept.read("agents")}
    for number, reputation in last.items():
        assert (reputation > 0.5) == (agents[number]["strategy"] == "honest")


@pytest.mark.parametrize("preset", list_presets())
def test_presets_have_sliders(preset: str) -> None:
    """Each preset has some, each stands at its value, and goes to both its ends or says why not."""
    config = open_config(preset)
    sliders = list_sliders(config)
    assert 4 <= len(sliders) <= MOST
    assert move(config, sliders, {it.key: it.value for it in sliders}) == config
    for slider in sliders:
        assert slider.low <= slider.value <= slider.high
        for end in (slider.low, slider.high):
            if (preset, slider.key, end) in REFUSED:
                with pytest.raises(UsageError):
                    move(config, sliders, {slider.key: end})
                continue
            moved = move(config, sliders, {slider.key: end})
            found = [it.value for it in list_sliders(moved) if it.key == slider.key]
            assert found in ([end], [])


REFUSED = {("no-stake-floor", "audit.rate", 0)}
"""Sliders with an end at which another key of the preset forbids them to be."""


@example(0, 1.6165071477583286)
@given(st.integers(0, len(KNOBS) - 1), st.floats(0, 100))
def test_a_slider_can_stand_at_its_value(number: int, value: float) -> None:
    """Whatever value a configuration has is a place of its slider, a whole number of steps up."""
    slider = KNOBS[number].place(value)
    assert slider.low <= value + 1e-9
    assert value <= slider.high
    steps = (value - slider.low) / slider.step
    assert steps == pytest.approx(round(steps), abs=1e-5)


def test_what_is_on_no_slider_is_refused() -> None:
    """Values beyond the ends, halves of providers and keys without a slider are one line each."""
    config = open_config("baseline")
    sliders = list_sliders(config)
    refusals = {
        "bond.eth = 9 is not on its slider, which goes from 0 to 4": {"bond.eth": 9.0},
        "audit.rate = -0.1 is not on its slider": {"audit.rate": -0.1},
        "bond.eth = nan is not on its slider": {"bond.eth": float("nan")},
        "providers.lazy.count = 1.5 is no whole number": {"providers.lazy.count": 1.5},
        "unknown slider 'bond.et'; did you mean 'bond.eth'": {"bond.et": 1.0},
        "unknown slider 'seed'": {"seed": 1.0},
    }
    for line, values in refusals.items():
        with pytest.raises(UsageError) as refusal:
            move(config, sliders, values)
        assert str(refusal.value).startswith(line)
    assert find_value(config, "bond.multiple") is None
    assert isinstance(sliders[0], Slider)


def announce(url: str, length: str) -> bytes:
    """Return what the server says to a body of a length before it comes."""
    head = f"POST /market HTTP/1.1\r\nContent-Length: {length}\r\n\r\n"
    with socket.create_connection(("127.0.0.1", urlsplit(url).port or 0), 20.0) as connection:
        connection.sendall(head.encode())
        return connection.recv(1000)


def read(get: Get) -> dict[str, Any]:
    """Return what the server says of the run."""
    found: dict[str, Any] = json.loads(get("/market").content)
    return found


def send(get: Get, token: str, body: str | bytes) -> Answer:
    """Move sliders."""
    return get("/market", "POST", body, X_Moot_Token=token)


def test_a_page_has_the_run_and_its_server_takes_no_nonsense() -> None:
    """Its counts are those of the market itself; a refused request changes nothing."""
    config = replace_keys(open_config("baseline"), {"jobs": 300})
    with serve("baseline", config) as (url, token), ask(url) as get:
        page = get("/")
        assert page.status == 200
        assert b"connect-src &#39;self&#39;;" in page.content
        assert page.headers["X-Frame-Options"] == "DENY"
        assert get("/other").status == 404
        assert get("/", Host="evil.example").status == 403
        assert get("/", "POST", b"{}", X_Moot_Token=token).status == 404
        bodies = [b"", b"[]", b"{", b"\xff", b'{"bond.eth": "1"}', b'{"bond.eth": NaN}']
        bodies += [
            b'{"bond.eth": 1e999}',
            b'{"bond.eth": true}',
            b'{"bond.eth": 9}',
            b'{"seed": 3}',
        ]
        for body in bodies:
            answer = send(get, token, body)
            assert answer.status == 400, body
            assert len(json.loads(answer.content)["problem"].splitlines()) == 1
        fitting = b'{"bond.eth": 2}'
        for wrong in ("", "x", f"{token}x"):
            assert send(get, wrong, fitting).status == 403
        assert get("/market", "POST", fitting, X_Moot_Token=token, Host="evil").status == 403
        wait_for(lambda: read(get)["status"] == "done")
        found = read(get)
        assert found["counts"] == asdict(simulate(config, Kept()))
        assert (found["run"], found["seed"], found["settings"]) == (1, 1, [])
        assert len(found["points"]) == found["most_points"] == POINTS
        for length in ("5000", "-1", "x"):
            assert b" 413 " in announce(url, length)


POOR = {"providers.honest.capital_eth": 1.5, "providers.lazy.capital_eth": 1.5}
TOO_DEAR = (
    "a bond is 2 ETH at least, and no provider has more than 1.5 ETH; lower the bond, or raise "
    "`capital_eth`"
)


class Heard(Voice):
    """A voice whose words are kept."""

    def __init__(self) -> None:
        self.words: list[dict[str, Any]] = []

    def check(self) -> None:
        """Go on."""

    def is_due(self) -> bool:
        """Say all."""
        return True

    def say(self, **words: Any) -> None:
        """Keep what is said."""
        self.words.append(words)


def test_a_market_that_fails_says_why() -> None:
    """The last words about a run are its counts, or one line about why there are none."""
    config = replace_keys(open_config("baseline"), {"jobs": 40, **POOR})
    for values, told in (({}, "counts"), ({"bond.eth": 2.0}, "problem")):
        heard = Heard()
        play_run(heard, show_config(replace_keys(config, values)))
        assert list(heard.words[-1]) == [told]
    assert heard.words[-1]["problem"] == TOO_DEAR


@pytest.mark.slow
def test_a_move_ends_what_runs_and_a_failure_is_one_line() -> None:
    """One process is left whatever is asked meanwhile; a market that can't be says so, and goes."""
    config = replace_keys(open_config("baseline"), {"jobs": ENDLESS, **POOR})
    with Runner(config) as runner:
        sliders = list_sliders(config)
        first = find_child(runner)
        runner.play(move(config, sliders, {"bond.eth": 0.5}))
        second = find_child(runner)
        assert not is_alive(first)
        assert is_alive(second)
        runner.play(move(config, sliders, {"bond.eth": 2.0}))
        assert not is_alive(second)
        wait_for(lambda: runner.describe()["status"] == "failed")
        found = runner.describe()
        assert found["run"] == 3
        assert found["problem"] == TOO_DEAR
        assert found["points"] == []
    assert not is_alive(find_child(runner))


def find_child(runner: Runner) -> int:
    """Return the number of the process that plays."""
    assert runner._played is not None
    return runner._played._process.pid


def is_alive(process: int) -> bool:
    """Whether there is a process of ours with a number."""
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    return True


@pytest.mark.slow
def test_moves_at_once_leave_one_process(monkeypatch: pytest.MonkeyPatch) -> None:
    """Requests that come together are answered one after the other, and one market is played."""
    began: list[subprocess.Popen[str]] = []
    begin = subprocess.Popen

    def record(*words: Any, **given: Any) -> Any:
        began.append(begin(*words, **given))
        return began[-1]

    monkeypatch.setattr(subprocess, "Popen", record)
    config = replace_keys(open_config("baseline"), {"jobs": ENDLESS})
    with Runner(config) as runner:
        site = MarketSite("baseline", config, runner)
        bodies = [f'{{"bond.eth": {eth}}}'.encode() for eth in (0.5, 1.5, 2.5)]
        with ThreadPoolExecutor(len(bodies)) as pool:
            heads = Message()
            heads[TOKEN.lower()] = site.token
            answers = list(pool.map(lambda body: site.take(MARKET, heads, body), bodies))
        assert [it.status for it in answers if it is not None] == [200] * len(bodies)
        assert [it.poll() is None for it in began] == [False, False, False, True]
        found = site.describe()
        assert found["run"] == 4
        assert found["settings"] == [f"bond.eth={found['values']['bond.eth']:g}"]
    assert all(it.poll() is not None for it in began)


@pytest.mark.slow
def test_a_process_that_dies_is_told() -> None:
    """Where the process that plays is killed the page says so, and another market is played."""
    config = replace_keys(open_config("baseline"), {"jobs": ENDLESS})
    with Runner(config) as runner:
        os.kill(find_child(runner), signal.SIGKILL)
        wait_for(lambda: runner.describe()["status"] == "failed")
        assert "has ended with status -9" in runner.describe()["problem"]
        runner.play(replace_keys(config, {"jobs": 200}))
        wait_for(lambda: runner.describe()["status"] == "done")
        assert runner.describe()["problem"] is None
