"""Learning agents: a market asks step by step, conforms to both libraries, and never crashes."""

import subprocess
import sys
import threading
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env
from pettingzoo.test import api_test, seed_test

import moot
from moot.sim.economy.facts import Job, Own
from moot.sim.economy.strategies.table import make_strategy
from moot.sim.economy.streams import Stream
from moot.sim.learning.acting import read_action
from moot.sim.learning.asking import Game
from moot.sim.learning.setting import make_setting
from tests.economy_helpers import DrawnOutcomes, make_config, make_group, play

SMALL = {"jobs": 60, "providers.honest.count": 2, "providers.opportunist.count": 0}
TWO = {**SMALL, "jobs": 120, "providers.learner.count": 2, "watchers.learner-spy.count": 1}
SPIES = {"learner": "honest,lazy", "learner-spy": "watcher,free-ride"}


def make_two() -> moot.MarketEnvironment:
    """Return a market with two learning providers and a learning watcher."""
    return moot.MarketEnvironment("weak-audit", SPIES, set={**TWO, "audit.rate": 0.5})


@pytest.mark.filterwarnings("ignore:Observation numpy array is all zeros")
def test_it_passes_the_checker_of_pettingzoo() -> None:
    """PettingZoo's own checker finds nothing wrong, up to the end of a market and beyond."""
    api_test(make_two(), num_cycles=200)


def test_it_passes_the_seed_test_of_pettingzoo() -> None:
    """The same seed gives the same observations and rewards, in this and in another environment."""
    seed_test(make_two, num_cycles=40)


def test_it_passes_the_checker_of_gymnasium() -> None:
    """Gymnasium's own checker finds nothing wrong, and `gymnasium.make` makes it."""
    name = "MootTest/Market-v0"
    gymnasium.register(name, entry_point="moot:MarketGym", kwargs={"set": SMALL})
    try:
        check_env(gymnasium.make(name, disable_env_checker=True).unwrapped)
    finally:
        del gymnasium.registry[name]


def follow(seed: int, choose: Callable[[np.ndarray], Any]) -> tuple[bytes, float, Any]:
    """Return all observations of a market, all rewards together, and its counts."""
    market = moot.MarketGym("weak-audit", set={"jobs": 200})
    seen, info = market.reset(seed=seed)
    shown, total, is_over, is_cut = [seen.tobytes()], 0.0, False, False
    while not (is_over or is_cut):
        seen, reward, is_over, is_cut, info = market.step(choose(seen))
        assert not info
        shown.append(seen.tobytes())
        total += reward
    return b"".join(shown), total, market.counts


def test_the_same_seed_gives_the_same_bytes() -> None:
    """Observations depend on the seed and on the actions, and on nothing else."""
    assert follow(3, lambda _: 1) == follow(3, lambda _: 1)
    assert follow(3, lambda _: 1)[0] != follow(4, lambda _: 1)[0]
    assert follow(3, lambda _: 1)[0] != follow(3, lambda _: 2)[0]


def test_resets_without_a_seed_go_on() -> None:
    """A market after another has a seed that follows from the last that was given."""
    market = moot.MarketGym("weak-audit", set={"jobs": 200})
    first, second = (market.reset()[0] for _ in range(2))
    assert not np.array_equal(first, second)
    market.reset(seed=market._table._setting.config.seed)
    assert np.array_equal(market.reset()[0], second)


def test_rewards_are_the_change_of_wealth() -> None:
    """All rewards of a market are what the table of agents says, in values of a usual job."""

    @dataclass
    class Fixed(moot.Strategy):
        """A strategy that lies always."""

        def decide(self, job: Job, own: Own, stream: Stream) -> str | None:
            """Lie."""
            del job, own, stream
            return "lazy"

    _, total, _ = follow(1, lambda _: 2)
    like = {"strategy": Fixed(), "count": 1}
    groups = [("honest", 12), ("lazy", 4), ("opportunist", 4), like]
    results = moot.simulate("weak-audit", set={"jobs": 200, "providers": groups}, seed=1)
    (agent,) = (it for it in results.to_arrow("agents").to_pylist() if it["strategy"] == "Fixed")
    assert total * 0.5 == pytest.approx(agent["profit_gwei"] / 1e9, abs=1e-9)
    assert agent["cheated"] == agent["jobs"] > 0


def test_a_market_without_learners_is_as_it_was() -> None:
    """Learners that do what is agreed leave the market in which they are honest providers."""
    config = make_config(
        jobs=100, burn_in=0.0, providers=[make_group("honest", count=3), make_group("learner")]
    )
    game = Game(config, make_setting(config, {"learner": ""}, None).conducts, DrawnOutcomes())
    question = game.begin()
    while question is not None:
        question = game.answer(1)
    honest = make_config(
        jobs=100,
        burn_in=0.0,
        providers=[make_group("honest", count=4), make_group("lazy", count=0)],
    )
    _, counts = play(honest)
    assert game.counts is not None
    assert game.counts.honest_gwei + game.counts.cheat_gwei == counts.honest_gwei
    assert replace(game.counts, honest_gwei=0, cheat_gwei=0) == replace(counts, honest_gwei=0)


@pytest.mark.parametrize("action", [3, -1, 1.0, float("nan"), None, "lazy", True, [1], object()])
def test_an_illegal_action_is_a_forfeit(action: object) -> None:
    """What is no action is a forfeit of its agent, with its reason; the market goes on."""
    market = moot.MarketGym("weak-audit", set=SMALL)
    market.reset(seed=1)
    observation, reward, is_over, is_cut, info = market.step(action)
    assert "no action; choose 0 to decline, 1 for honest, 2 for lazy" in info["forfeit"]
    assert market._table._seat("learner_1").agent.forfeits == 1
    assert np.isfinite([*observation, reward]).all()
    assert not is_over
    assert not is_cut
    assert market.step(1)[4] == {}


@pytest.mark.parametrize("action", [0, 1, 2, np.int64(2), np.int32(0), np.array(1)])
def test_a_legal_action_is_none(action: object) -> None:
    """Whole numbers of Python's and numpy's are actions, and no forfeit."""
    market = moot.MarketGym("weak-audit", set=SMALL)
    market.reset(seed=1)
    assert market.step(action)[4] == {}
    assert market._table._seat("learner_1").agent.forfeits == 0


def test_actions_without_a_text_are_refused() -> None:
    """Whatever an action is, it has a reason in one short line."""

    class Mute:
        def __repr__(self) -> str:
            raise ValueError

    for action in (Mute(), "x" * 9999, np.full((99, 99), np.nan)):
        conduct, problem = read_action(action, ("honest",))
        assert conduct is None
        assert problem.startswith("answers ")
        assert "\n" not in problem
        assert len(problem) < 300
    assert read_action(0, ("honest",)) == (None, "")
    assert read_action(1, ("honest",)) == ("honest", "")


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (lambda: moot.MarketGym("weak-audit", "honest,lzy"), "did you mean 'lazy'"),
        (lambda: moot.MarketGym("weak-audit", "lazy,lazy"), "one twice"),
        (lambda: moot.MarketGym("weak-audit", "honest,free-ride"), "unknown conduct"),
        (lambda: moot.MarketEnvironment("weak-audit", {"lazy": ""}), "no name of a learner"),
        (lambda: moot.MarketEnvironment("weak-adit"), "did you mean 'weak-audit'"),
        (lambda: moot.MarketGym(set={"providers.learner.count": 0}), "nobody learns"),
        (lambda: moot.MarketGym(set={"providers.learner.count": 2}), "2 agents learn"),
        (lambda: moot.MarketGym(set={"bnd.eth": 1}), "unknown table"),
        (
            lambda: moot.MarketEnvironment(set={"providers.learner-x.count": 1}),
            "unknown learner 'learner-x'",
        ),
        (
            lambda: moot.MarketEnvironment(
                set={"providers.learner.count": 1, "watchers.learner.count": 1}
            ),
            "two groups are called learner",
        ),
        (lambda: moot.MarketGym(set=SMALL).reset(seed=-1), "the seed is -1"),
        (lambda: moot.MarketGym(set=SMALL).step(1), "reset it before"),
        (lambda: moot.MarketEnvironment(set=SMALL).step(1), "reset it first"),
        (lambda: moot.MarketEnvironment(set=SMALL).last(), "reset it first"),
        (lambda: moot.simulate(set={**SMALL, "providers.learner.count": 1}), "by an environment"),
        (lambda: make_strategy("providers", "learner", {}), "by an environment"),
    ],
)
def test_what_makes_no_sense_is_refused(make: Callable[[], object], says: str) -> None:
    """Unknown conducts and names, nobody who learns, and a step before the first are one line."""
    with pytest.raises(moot.UsageError, match=says) as caught:
        make()
    assert "\n" not in str(caught.value)


def test_after_the_end_there_is_no_step() -> None:
    """An environment that is stepped after its end, or after it was closed, says what to do."""
    market = moot.MarketGym("weak-audit", set=SMALL)
    market.reset(seed=1)
    while not any(market.step(1)[2:4]):
        pass
    with pytest.raises(moot.UsageError, match="reset it before"):
        market.step(1)
    market.reset(seed=1)
    market.close()
    market.close()
    with pytest.raises(moot.UsageError, match="reset it before"):
        market.step(1)
    several = make_two()
    several.reset(seed=1)
    for agent in several.agent_iter():
        observation, _, is_over, is_cut, _ = several.last()
        assert several.observation_space(agent).contains(observation)
        several.step(None if is_over or is_cut else 1)
    assert several.counts.jobs
    with pytest.raises(moot.UsageError, match="reset it before"):
        several.step(1)
    several.reset(seed=1)
    several.close()
    with pytest.raises(moot.UsageError, match="reset it first"):
        several.step(1)


def test_whoever_is_ruined_is_terminated() -> None:
    """A learner that loses all of its money is terminated at the end, and one that is there cut."""
    ruined = {"providers.learner.count": 2, "providers.learner.capital_eth": 2.0, "audit.rate": 1.0}
    market = moot.MarketEnvironment("weak-audit", set={"jobs": 400, **ruined})
    market.reset(seed=1)
    ends = {}
    for agent in market.agent_iter():
        _, _, is_over, is_cut, _ = market.last()
        if is_over or is_cut:
            ends[agent] = (is_over, is_cut)
        market.step(None if is_over or is_cut else 2 if agent == "learner_1" else 1)
    assert ends == {"learner_1": (True, False), "learner_2": (False, True)}


def test_a_market_that_asks_nobody_ends() -> None:
    """A market in which a learner gets no job is over after one step."""
    poor = {"jobs": 5, "providers.learner.capital_eth": 0.0}
    market = moot.MarketGym("weak-audit", set=poor)
    market.reset(seed=1)
    observation, reward, is_over, is_cut, _ = market.step(1)
    assert (reward, is_over, is_cut) == (0.0, False, True)
    assert (observation[:10] == 0).all()


def test_newcomers_of_a_group_of_learners_are_honest() -> None:
    """Who enters later is not among the agents, and does what is agreed."""
    entering = {"jobs": 300, "entry.per_1000_blocks": 50.0, "providers.learner.count": 8}
    market = moot.MarketEnvironment("weak-audit", set=entering)
    market.reset(seed=1)
    for _ in market.agent_iter():
        _, _, is_over, is_cut, _ = market.last()
        market.step(None if is_over or is_cut else 2)
    agents = market._table._open().seats.values()
    assert len(agents) == len(market.possible_agents) == 8


def test_another_thread_is_refused() -> None:
    """A market goes on in its own thread alone, and another one is told so in one line."""
    market = moot.MarketGym("weak-audit", set=SMALL)
    market.reset(seed=1)
    told: list[str] = []

    def step() -> None:
        try:
            market.step(1)
        except moot.UsageError as error:
            told.append(str(error))

    thread = threading.Thread(target=step)
    thread.start()
    thread.join()
    assert len(told) == 1
    assert "in the thread in which it has begun" in told[0]
    assert market.step(1)[4] == {}


def test_two_markets_do_not_disturb_each_other() -> None:
    """Two environments that are stepped by turns see what each would see alone."""
    alone, _, _ = follow(5, lambda _: 1)
    one, other = (moot.MarketGym("weak-audit", set={"jobs": 200}) for _ in range(2))
    shown = [one.reset(seed=5)[0].tobytes()]
    other.reset(seed=6)
    while True:
        other.step(2)
        seen, _, is_over, is_cut, _ = one.step(1)
        shown.append(seen.tobytes())
        if is_over or is_cut:
            break
        if not other._is_open:
            other.reset()
    assert b"".join(shown) == alone


def test_without_the_packages_the_extra_is_named() -> None:
    """Without PettingZoo and Gymnasium one line says what to install."""
    code = (
        "import sys; sys.modules['pettingzoo'] = sys.modules['gymnasium'] = None\nimport moot\n"
        "for name in ('MarketEnvironment', 'MarketGym'):\n"
        "    try: getattr(moot, name)\n    except moot.UsageError as error: print(error)"
    )
    command = [sys.executable, "-c", code]
    done = subprocess.run(command, capture_output=True, text=True, check=True)  # noqa: S603 - our own code
    line = "gymnasium is not installed; pip install 'moot[learn]' installs it"
    assert done.stdout.splitlines() == [line, line]


def test_a_failure_of_the_market_comes_out() -> None:
    """What fails in a market fails the step, and the market is over."""

    class Broken(DrawnOutcomes):
        def judge(self, *_: Any) -> Any:
            raise moot.MootError("the table is gone")

    config = make_config(providers=[make_group("honest"), make_group("learner")])
    setting = make_setting(config, None, None)
    game = Game(setting.config, setting.conducts, Broken())
    with pytest.raises(moot.MootError, match="the table is gone"):
        game.begin()
    with pytest.raises(moot.UsageError, match="the market is over"):
        game.answer(1)
