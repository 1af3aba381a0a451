"""Burn-in, spans and stationarity: what no sum counts, and what is said of markets that change."""

import math
from pathlib import Path

import numpy as np
import pytest

import moot
from moot.offchain.errors import UsageError
from moot.sim.analysis.stationarity import LEAST_SPANS, LEVEL, Verdict, find_trend, judge
from moot.sim.analysis.trials import Laboratory
from moot.sim.analysis.twins import follow, make_contest, try_pairs
from moot.sim.economy.config import Config, parse_config
from moot.sim.economy.simulate import simulate
from moot.sim.economy.spans import SPANS, count_burn_in, find_first
from moot.sim.estimates import Floats
from moot.sim.experiments.engines import Here
from moot.sim.experiments.parts import ignore
from tests.economy_helpers import make_config, make_group, play

EXPERIMENTS = 500
LEARNERS = {
    "bond_eth": 0.5,
    "audit_rate": 0.75 * 0.034,
    "providers": [("opportunist", 8)],
    "set": {"providers.opportunist.slots": 20, "providers.opportunist.weight": 1.0},
}
"""Opportunists who have to learn that lies pay, at three quarters of the rate that stops them."""


def draw(rng: np.random.Generator, kind: str, spans: int, rise: float = 0.0) -> Floats:
    """Return the means of spans in which nothing changes, but for a rise."""
    if kind == "normal":
        means: Floats = rng.normal(size=spans)
    elif kind == "rare":
        means = rng.binomial(200, 0.02, size=spans) / 200.0
    else:
        noise, value, values = rng.normal(size=spans * 50), 0.0, []
        for one in noise:
            value = 0.8 * value + one
            values.append(value)
        means = np.array(values).reshape(spans, 50).mean(axis=1)
    return means + rise * np.arange(spans) / spans


@pytest.mark.parametrize(("kind", "spans"), [("normal", 10), ("rare", 20), ("remembers", 10)])
def test_markets_that_do_not_change_are_rarely_said_to(kind: str, spans: int) -> None:
    """Of experiments in which nothing changes about one in twenty is said to, and no more."""
    rng = np.random.default_rng(5)
    count = EXPERIMENTS // 3 if kind == "remembers" else EXPERIMENTS
    wrong = sum(bool(judge({"rate": draw(rng, kind, spans)}).trends) for _ in range(count))
    assert abs(wrong / count - LEVEL) < 4 * math.sqrt(LEVEL * (1 - LEVEL) / count)
    found = sum(bool(judge({"rate": draw(rng, kind, spans, 6.0)}).trends) for _ in range(50))
    assert found > 45


def test_several_measures_are_one_question() -> None:
    """With several measures the chance that one of them is said to change is still one in 20."""
    rng = np.random.default_rng(6)
    names = ("cheated", "right", "checked", "gain")
    wrong = sum(
        bool(judge({name: draw(rng, "normal", 10) for name in names}).trends) for _ in range(100)
    )
    assert wrong / 100 < LEVEL + 3 * math.sqrt(LEVEL / 100)


def test_verdicts_say_what_changes() -> None:
    """A measure that rises, one that falls, one that stays, and spans that are too few."""
    up = np.arange(20.0)
    verdict = judge({"a": up, "b": -up, "c": np.ones(20)})
    assert verdict.trends == {"a": "rises", "b": "falls"}
    assert verdict.describe().startswith("not stationary: a (rises, p = ")
    assert "a longer burn_in" in verdict.describe()
    assert judge({"a": np.concatenate((up[:10], np.ones(10)))}, 10).is_stationary
    few = judge({"a": up[: LEAST_SPANS - 1]})
    assert not few.is_known
    assert not few.is_stationary
    assert "can't be said" in few.describe()
    assert find_trend(np.full(20, np.nan)) is None
    assert Verdict({"a": 0.5}, {}).describe().endswith("p = 0.5")


def test_repetitions_show_a_trend_that_one_hides() -> None:
    """The mean over repetitions is tested, so that noise of one run hides no common trend."""
    rng = np.random.default_rng(7)
    rows = np.array([draw(rng, "normal", 20, 1.5) for _ in range(30)])
    assert not judge({"rate": rows[:1]}).trends
    assert judge({"rate": rows}).trends == {"rate": "rises"}


@pytest.mark.parametrize(
    ("values", "left_out"),
    [
        ({"providers": [{"strategy": "opportunist"}]}, 500),
        ({"providers": [{"strategy": "lazy"}]}, 0),
        ({"watchers": [{"strategy": "rational-watcher"}]}, 500),
        ({"watchers": [{"strategy": "rational-watcher", "count": 0}]}, 0),
        ({"providers": [{"strategy": "opportunist"}], "fidelity": "played"}, 0),
        ({"providers": [{"strategy": "opportunist"}], "burn_in": 0}, 0),
        ({"burn_in": 0.21}, 250),
        ({"burn_in": 0.2}, 200),
        ({"burn_in": 0.95}, 950),
    ],
)
def test_the_burn_in(values: dict[str, object], left_out: int) -> None:
    """Half of the jobs where somebody learns, none elsewhere, or whole twentieths as is said."""
    assert count_burn_in(parse_config({"jobs": 1000} | values, "a test")) == left_out


@pytest.mark.parametrize("burn_in", [-0.1, 0.96, 1, "half", True, float("nan")])
def test_a_burn_in_that_is_none(burn_in: object) -> None:
    """It is a share up to 0.95, or `auto`; anything else is one line that says so."""
    with pytest.raises(UsageError, match=r"burn_in|nan") as refused:
        parse_config({"burn_in": burn_in}, "a test")
    assert "\n" not in refused.value.message


def test_spans_are_twentieths() -> None:
    """Each job is in one span, and a span begins where the one before ends."""
    for jobs in (1, 7, 20, 999):
        spans = [job * SPANS // jobs for job in range(jobs)]
        for span in range(SPANS):
            own = [job for job, it in enumerate(spans) if it == span]
            assert own == list(range(find_first(span, jobs), find_first(span + 1, jobs)))


def test_no_sum_counts_the_burn_in() -> None:
    """Jobs of the burn-in are rows like others; sums are those of the jobs after it alone."""
    results = moot.simulate("baseline", jobs=400, burn_in=0.25, seed=3)
    (run,) = results.to_arrow("runs").to_pylist()
    jobs = results.to_arrow("jobs").to_pylist()
    late = [row for row in jobs if row["job"] >= 100]
    assert (run["jobs"], run["burn_in"], len(jobs)) == (300, 100, 400)
    assert run["cheated"] == sum(row["is_cheated"] for row in late)
    assert run["right"] == sum(row["outcome"] == "right" for row in late)
    for name in ("gas", "fees_gwei", "burned_gwei", "client_gwei"):
        assert run[name] == sum(row[name] for row in late)
    sums = {(row["role"], row["strategy"]): row for row in results.sum_strategies()}
    assert sums["provider", "honest"]["jobs"] + sums["provider", "lazy"]["jobs"] == 300
    assert sums["provider", "honest"]["profit_gwei"] == run["honest_gwei"]
    whole = moot.simulate("baseline", jobs=400, seed=3)
    assert whole.to_arrow("jobs") == results.to_arrow("jobs")
    assert whole.to_arrow("agents") == results.to_arrow("agents")
    assert whole.to_arrow("runs")["jobs"].to_pylist() == [400]


def test_spans_add_up_to_agents() -> None:
    """What an agent has of all spans is what it has in all, to the gwei, whatever it does."""
    providers = [make_group(name) for name in ("honest", "lazy", "shill", "sybil", "opportunist")]
    watchers = [make_group(name) for name in ("watcher", "griefer", "free-riding-watcher")]
    kept, counts = play(make_config(jobs=600, seed=2, providers=providers, watchers=watchers))
    sums: dict[int, dict[str, float]] = {}
    names = ("jobs", "cheated", "slashed", "work_gwei", "fees_gwei", "profit_gwei")
    for row in kept.read("spans"):
        own = sums.setdefault(row["agent"], {})
        for name in (*names, "locked_gwei_blocks"):
            own[name] = own.get(name, 0) + row[name]
    assert counts.burn_in == 300
    assert len(sums) == len(kept.read("agents"))
    for agent in kept.read("agents"):
        own = sums[agent["agent"]]
        assert [agent[name] for name in names if agent["role"] != "client" or name[0] == "p"] == [
            own[name] for name in names if agent["role"] != "client" or name[0] == "p"
        ]
        assert agent["role"] == "client" or agent["locked_gwei_blocks"] == own["locked_gwei_blocks"]


def test_a_warm_up_is_said_to_be_one() -> None:
    """3,000 jobs of opportunists still change; providers who learn nothing do not."""
    warming = moot.simulate("baseline", jobs=3000, burn_in=0, seed=1, **LEARNERS)
    (course,) = warming.follow()
    assert course is not None
    assert course.judge().trends["jobs cheated in"] == "rises"
    rows = course.list_rows()
    assert rows[0]["cheated"] < rows[-1]["cheated"]
    (settled,) = moot.simulate("baseline", jobs=3000, seed=1).follow()
    assert settled is not None
    assert settled.judge().is_stationary


def test_a_twin_has_its_markets_burn_in(tmp_path: Path) -> None:
    """Where attackers learn, their honest twins, who do not, are counted over the same jobs."""
    market: Config = parse_config(
        {
            "jobs": 200,
            "providers": [
                {"strategy": "honest", "count": 3},
                {"strategy": "opportunist", "count": 3},
            ],
        },
        "a test",
    )
    with Here().open() as player:
        laboratory = Laboratory(player, simulate, tmp_path, ignore)
        (pairs,) = try_pairs(laboratory, [make_contest(market, ("opportunist",))], 2)
    for pair in pairs:
        assert pair.attack.burn_in == pair.twin.burn_in == 100
        assert pair.attack.jobs.sum() == pair.twin.jobs.sum() > 50
        chosen = pair.span_gains[10:] * pair.twin.span_jobs[10:, list(pair.attackers)].sum(axis=1)
        assert np.nansum(chosen) == pytest.approx(pair.gain_eth)
    course = follow(pairs)
    assert (course.jobs, course.burn_in, course.first) == (200, 100, 10)
    assert set(course.series) == {"cheated", "right", "checked", "gain"}
