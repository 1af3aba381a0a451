"""The search for a policy: it finds what pays, goes on where it was, and says what it found."""

import csv
import json
from collections.abc import Iterator
from dataclasses import asdict, replace
from pathlib import Path

import numpy as np
import pytest

from moot.offchain.errors import UsageError
from moot.sim.analysis.trials import Laboratory
from moot.sim.economy import simulate as simulating
from moot.sim.economy.cases import Case, Lineup
from moot.sim.economy.config import load_config, parse_config, show_config
from moot.sim.economy.congested import Closed
from moot.sim.economy.simulate import DisagreementError, simulate
from moot.sim.economy.strategies.table import make_strategy
from moot.sim.experiments.engines import Here
from moot.sim.experiments.parts import ignore
from moot.sim.experiments.presets import list_presets, open_config
from moot.sim.learning import curve, folder, judging, training
from moot.sim.learning.comparing import Newcomer, admit, compare, list_built_in
from moot.sim.learning.linear import TERMS, expand, read_weights, write_weights
from moot.sim.learning.observing import HIGH
from moot.sim.learning.training import Scale, Search, State


@pytest.fixture
def laboratory(tmp_path: Path) -> Iterator[Laboratory]:
    """A place where trials are played in this process."""
    parts = tmp_path / "parts"
    parts.mkdir()
    with Here().open() as player:
        yield Laboratory(player, simulate, parts, ignore)


def make_search(rate: float = 0.0, **values: int) -> Search:
    """Return a small search in a market with this audit rate."""
    config = parse_config(
        {
            "jobs": 80,
            "cases": 1,
            "providers": [{"strategy": "honest", "count": 3}],
            "audit": {"name": "constant", "rate": rate},
        },
        "a test",
    )
    return replace(Search(config, rounds=2, candidates=4, kept=1, reps=1), **values)


def run(search: Search, laboratory: Laboratory) -> State:
    """Return where a search ends."""
    state = training.begin(search)
    training.go_on(search, state, laboratory, lambda _: None)
    return state


def test_a_search_finds_what_pays(laboratory: Laboratory) -> None:
    """Where nobody looks the policy lies, and where everybody does it does not."""
    for rate, pays in ((0.0, True), (1.0, False)):
        search = make_search(rate)
        found = search.name(run(search, laboratory).weights)
        (standing,) = compare(laboratory, search.config, [found], search.count, 1)
        assert (standing.gain.value > 0) == pays
        assert standing.gain.value < 0.03  # the work that is saved, and the slots that are free
        assert pays or standing.gain.value == 0 == standing.clients_loss.value


def test_a_search_goes_on_where_it_was(laboratory: Laboratory, tmp_path: Path) -> None:
    """A search that is interrupted after a round comes to the same, to the last digit."""
    search, place = make_search(), tmp_path / "found"
    whole = run(search, laboratory)
    assert folder.recall(place, search) is None
    first = training.begin(search)
    training.go_on(replace(search, rounds=1), first, laboratory, lambda _: None)
    folder.keep(place, search, first)
    state = folder.recall(place, search)
    assert state is not None
    assert len(state.rounds) == 1
    training.go_on(search, state, laboratory, lambda _: None)
    assert asdict(state) == asdict(whole)
    other = replace(search, seed=1)
    assert training.choose_seed(other, 1) != training.choose_seed(search, 1)
    with pytest.raises(UsageError, match="has another search"):
        folder.recall(place, other)


def test_what_is_found_is_a_market(laboratory: Laboratory, tmp_path: Path) -> None:
    """The folder's market is the one that was searched, with the policy as a group of it."""
    search = make_search(rounds=1)
    state = run(search, laboratory)
    place = tmp_path / "found"
    folder.recall(place, search)
    folder.keep(place, search, state)
    market = load_config(place / folder.MARKET)
    assert market == folder.find_market(search, state)
    assert market.providers[-1].strategy == "linear"
    assert market.providers[:-1] == search.config.providers
    rows = list(csv.DictReader((place / folder.CURVE).read_text().splitlines()))
    assert [row["round"] for row in rows] == ["1"]
    assert float(rows[0]["best"]) == state.rounds[0].best
    page = (place / folder.PLOT).read_text()
    assert page.count("<html>") == 1
    assert "the policy so far" in page
    assert len(curve.draw(state.rounds).data) == 4


def test_folders_of_others_are_refused(tmp_path: Path) -> None:
    """A folder with other files, and one whose state is damaged, are refused in one line."""
    search = make_search()
    (tmp_path / "notes.txt").write_text("mine")
    with pytest.raises(UsageError, match="has other files"):
        folder.recall(tmp_path, search)
    for text in ("{", "[]", json.dumps({"search": folder.describe(search), "state": {}})):
        (tmp_path / folder.STATE).write_text(text)
        with pytest.raises(UsageError, match="is not what a search leaves"):
            folder.recall(tmp_path, search)


def test_markets_of_all_kinds_can_be_written(tmp_path: Path) -> None:
    """Every preset, written as TOML, is read as itself; so is one without watchers."""
    for name in list_presets():
        config = open_config(name)
        path = tmp_path / f"{name}.toml"
        path.write_text(folder.write_toml(show_config(config)))
        assert load_config(path) == config


@pytest.mark.parametrize(
    ("values", "says"),
    [
        ({"kept": 6}, "of 4 candidates 6"),
        ({"kept": 0}, "of 4 candidates 0"),
        ({"conducts": ("honest", "lazy")}, "honest is what a policy does otherwise"),
        ({"conducts": ("lzy",)}, "did you mean 'lazy'"),
    ],
)
def test_searches_that_are_none(values: dict[str, int], says: str) -> None:
    """An unknown conduct, honesty as a lie, and more that are kept than there are, are refused."""
    with pytest.raises(UsageError, match=says):
        make_search(**values)


def test_a_market_without_jobs_for_newcomers_is_refused() -> None:
    """Newcomers that can't pay a bond have nothing to learn from."""
    search = make_search()
    poor = parse_config(
        {
            "jobs": 5,
            "providers": [
                {"strategy": "honest", "capital_eth": 0.5},
                {"strategy": "lazy", "capital_eth": 50.0},
            ],
        },
        "a test",
    )
    with pytest.raises(UsageError, match="newcomers get no job"):
        training.begin(replace(search, config=poor))


@pytest.mark.parametrize("text", ["1 2", "nan " * len(TERMS), "x " * len(TERMS), "1 " * 99])
def test_weights_that_are_none(text: str) -> None:
    """Too few, too many, and what is no finite number are refused."""
    with pytest.raises(UsageError, match=f"{len(TERMS)} finite numbers"):
        make_strategy("providers", "linear", {"weights": text})


def test_weights_are_text() -> None:
    """Weights survive as text, and those in standard units say the same of plain numbers."""
    rng = np.random.default_rng(1)
    theta = rng.normal(size=(2, len(TERMS)))
    assert np.allclose(read_weights(write_weights(theta), ("lazy", "copy")), theta, rtol=1e-5)
    terms = expand(HIGH)
    mean, deviation = rng.normal(size=len(TERMS)), rng.uniform(0.5, 2, size=len(TERMS))
    deviation[3] = 0.0
    mean[-1], deviation[-1] = 1.0, 0.0
    weights = Scale(mean, deviation).turn(theta)
    units = np.where(deviation > 0, (terms - mean) / np.where(deviation > 0, deviation, 1), 0)
    units[-1] = 1
    assert np.allclose(weights @ terms, theta @ units)


def test_newcomers_are_compared_with_their_twins(laboratory: Laboratory) -> None:
    """Newcomers that lie never gain exactly 0, and the best comes first."""
    config = make_search(0.5).config
    never = Newcomer("never", "lazy", {"rate": 0.0})
    always = Newcomer("always", "lazy", {"rate": 1.0})
    standings = compare(laboratory, config, [always, never], 1, 2)
    assert [it.name for it in standings] == ["never", "always"]
    assert standings[0].gain.value == 0 == standings[0].clients_loss.value
    assert standings[1].gain.value < 0
    contest = admit(config, always, 3)
    assert contest.attack.providers[-1].count == contest.twin.providers[-1].count == 3
    names = {it.name for it in list_built_in((0.5,))}
    assert {"lazy at 0.5", "opportunist", "reputation-farmer"} <= names
    assert "honest at 0.5" not in names


@pytest.mark.slow
def test_what_is_found_is_judged_on_the_contract() -> None:
    """Disputes of a market with a policy are played on the contract, and end as modelled there."""
    search = make_search(0.5)
    always = Newcomer("always", "lazy", {})
    market = admit(search.config, always, 2).attack
    judged = judging.judge(market, ignore, 40)
    assert 0 < judged.played == judged.disputes <= judged.cheated
    with pytest.raises(UsageError, match="nothing to judge"):
        judging.judge(market, ignore, 0)


def test_a_judgement_that_differs_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the contract ends a dispute otherwise, judging fails and says how many did."""

    class Lying(simulating.ModelledOutcomes):
        """Outcomes that are said to be played, and end otherwise."""

        def verify(self, lineup: Lineup, number: int, case: Case, closed: Closed) -> Case | None:
            """Turn the case around."""
            del lineup, number, closed
            return replace(case, outcome="void", seats=case.seats[::-1])

    real = simulating.make_outcomes
    monkeypatch.setattr(
        simulating, "make_outcomes", lambda config, progress: Lying(real(config, progress).runner)
    )
    market = admit(make_search(1.0).config, Newcomer("always", "lazy", {}), 2).attack
    with pytest.raises(DisagreementError, match="end otherwise on the chain"):
        judging.judge(market, ignore, 40)
