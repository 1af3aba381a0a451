"""Scenarios: each ends as its name says, and always costs what the snapshot says."""

from functools import cache
from pathlib import Path
from statistics import fmean

import pytest

from moot.contracts.model.types import Facts
from moot.contracts.model.words import announce
from moot.contracts.reasons import Ending, Outcome, Status
from moot.offchain.chain.receipts import GAS_LIMIT
from moot.offchain.commitments import tree
from moot.offchain.errors import CompileError, UsageError
from moot.sim.gas.functions import FUNCTIONS, VECTORS, draw_operands
from moot.sim.gas.play import Measured, Stage
from moot.sim.gas.report import make_object
from moot.sim.gas.results import ALL_FUNCTIONS, NAMES, check_names, measure
from moot.sim.gas.rows import Spread
from moot.sim.gas.scenarios import ARITIES, PROGRAMS, REFERENCE, SCENARIOS, SPACES, place_lie
from moot.sim.gas.snapshot import NAME, Line, compare, make_lines, read, select
from moot.sim.gas.variants import ARITY_LOG2, agreeing, change_arity
from tests.quick import every

SNAPSHOT = Path(__file__).parents[2] / NAME
SLOW = {scenario.name for scenario in (*SPACES, *PROGRAMS, *ARITIES)} - {"small"}
"""Long, and much like others."""
FAST = [name for name in SCENARIOS if name not in SLOW]
ENDINGS = {
    "clock": Ending.CLOCK,
    "sink": Ending.SINK,
    "empty": Ending.EMPTY,
    "verifier": Ending.VERIFIER,
}


@cache
def get_stage() -> Stage:
    """Return a chain with a referee."""
    return Stage()


@cache
def play(name: str) -> Measured:
    """Return a scenario, played once."""
    return get_stage().measure(SCENARIOS[name])


def get_ends(measured: Measured) -> list[tuple[object, ...]]:
    """Return outcome and ending of all matches."""
    events = [event for played in measured.played for event in played.events]
    return [event.args[3:5] for event in events if event.name == "MatchEnded"]


def get_winners(measured: Measured) -> set[str]:
    """Return who was paid."""
    return {played.player for played in measured.played if played.call == "collect"}


@pytest.mark.parametrize("name", every(16, FAST))
def test_calls_cost_what_the_snapshot_says(name: str) -> None:
    """No call of a scenario costs one unit more or less; `moot gas report --write` accepts it."""
    changes = compare(select(read(SNAPSHOT), [name]), make_lines(play(name)))
    assert [str(change) for change in changes] == []


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(SLOW))
def test_calls_of_long_scenarios_cost_what_the_snapshot_says(name: str) -> None:
    """Likewise, where trees are large, programs real, and on referees with smaller openings."""
    changes = compare(select(read(SNAPSHOT), [name]), make_lines(play(name)))
    assert [str(change) for change in changes] == []


def test_a_fused_multiply_add_costs_what_the_snapshot_says() -> None:
    """Neither does the most frequent scalar function by itself; on average it is 1,500 gas."""
    costs = measure([REFERENCE.name], lambda *_: None, get_stage()).functions["fma"]
    (line,) = [line for line in read(SNAPSHOT) if line.key == (ALL_FUNCTIONS, "fma")]
    assert Line.of(*line.key, len(costs), Spread.of(costs)) == line
    assert fmean(costs) <= 1_500


@pytest.mark.slow
def test_the_functions_cost_what_the_snapshot_says() -> None:
    """Nor do all others; the dearest is below 150,000 gas."""
    found = measure([ALL_FUNCTIONS], lambda *_: None).lines
    assert [str(change) for change in compare(select(read(SNAPSHOT), [ALL_FUNCTIONS]), found)] == []
    assert [line.call for line in found] == list(FUNCTIONS)
    assert max(line.maximum for line in found) <= 150_000


def test_the_snapshot_is_of_all_scenarios() -> None:
    """Nothing is measured that is not checked, and nothing is left of what was measured once."""
    assert {line.scenario for line in read(SNAPSHOT)} == set(NAMES)


@pytest.mark.parametrize("name", every(6, ENDINGS))
def test_a_match_ends_as_it_is_called(name: str) -> None:
    """The honest member wins it, and is paid."""
    measured = play(f"ending-{name}")
    assert get_ends(measured) == [(Outcome.SECOND, ENDINGS[name])]
    assert get_winners(measured) == {"honest-1"}


def test_an_agreement_has_no_match() -> None:
    """Both members are paid."""
    measured = play("ending-agreement")
    assert get_ends(measured) == []
    assert get_winners(measured) == {"honest-1", "honest-2"}
    assert measured.played[-3].events[-1].args[1] is Status.WON


@pytest.mark.parametrize("name", every(16, [name for name in FAST if name.startswith("leaf-")]))
def test_a_leaf_is_computed(name: str) -> None:
    """The contract computes the honest member's bits, which are not the liar's."""
    measured = play(name)
    assert get_ends(measured) == [(Outcome.SECOND, Ending.SCALAR)]
    (call,) = [played for played in measured.played if played.call == "leaf"]
    found = [e.args[3] for p in measured.played for e in p.events if e.name == "Found"]
    assert isinstance(found[-1], Facts)
    first, second = (announce(found[-1], bits) for bits in found[-1].bits)
    assert second == call.events[-1].args[-1] != first


@pytest.mark.parametrize("name", ["two-members", "join-late"])
def test_two_members_play_the_liar_at_once(name: str) -> None:
    """Both matches begin, one of them ends, and both members are paid."""
    measured = play(name)
    calls = [played.call for played in measured.played]
    assert calls.count("start_match") == 2
    assert calls.count("join") == (name == "join-late")
    assert len(get_ends(measured)) == 1
    assert get_winners(measured) == {"honest-1", "honest-2"}


@pytest.mark.slow
def test_what_is_played_before_changes_nothing() -> None:
    """A scenario costs the same first, last, again, and on a chain of its own."""
    names = ["ending-sink", "ending-clock", "ending-agreement"]
    stage = Stage()
    first = [make_lines(stage.measure(SCENARIOS[name])) for name in names]
    again = [make_lines(stage.measure(SCENARIOS[name])) for name in names[::-1]]
    alone = [make_lines(Stage().measure(SCENARIOS[name])) for name in names]
    assert first == again[::-1] == alone


def test_the_figures_of_the_reference_add_up() -> None:
    """Totals are sums of phases and of calls, and calls of the parts of their gas."""
    measured = play(REFERENCE.name)
    figures = make_object(measured)
    gas = sum(played.receipt.gas_used for played in measured.played if played.receipt)
    assert figures["halvings"] == 64
    assert figures["total_gas"] + figures["open_job_gas"] == gas
    assert sum(figures["by_phase"].values()) == figures["total_gas"]
    assert sum(figures["by_call"].values()) == figures["total_gas"]
    assert figures["by_call"]["leaf"] == figures["leaf_gas"]
    assert figures["gas_per_halving_rounds"] == figures["rounds_gas"] / 64
    ends = {"commit", "reveal", "start_match", "leaf", "settle", "collect"}
    others = sum(gas for call, gas in figures["by_call"].items() if call not in ends)
    assert figures["rounds_gas"] == others
    for row in figures["calls"]:
        parts = row["calldata"]["total"] + row["execution"]["total"]
        assert row["gas"]["total"] == parts + 21_000 * row["moves"]


@pytest.mark.parametrize(
    ("figure", "limit"),
    [("total_gas", 1_700_000), ("gas_per_halving_rounds", 20_000), ("leaf_gas", 150_000)],
)
def test_the_reference_costs_no_more_than_it_should(figure: str, limit: int) -> None:
    """The reference dispute, in the largest space, costs no more than its limit."""
    assert make_object(play(REFERENCE.name))[figure] <= limit


def test_no_call_comes_near_the_limit_of_a_transaction() -> None:
    """Every call of every scenario stays far below the gas that a transaction may have."""
    assert max(line.maximum for line in read(SNAPSHOT)) < GAS_LIMIT // 16


def test_lies_are_where_they_can_be() -> None:
    """The place of a lie is inside the job, whatever its size."""
    for scenario in (REFERENCE, *SPACES, *ARITIES):
        size = scenario.size
        assert size is not None
        lie = place_lie(size)
        assert 0 <= lie.step < size.checkpoints * size.checkpoint_every
        assert 2 <= lie.operator < size.operators - 3
        assert 0 <= lie.element < size.rows * size.columns
        assert 0 <= lie.term < size.terms


def test_operands_are_drawn_alike_every_time() -> None:
    """Half of them are uniform, none has more than 32 bits, and those not needed are 0."""
    rows = list(draw_operands(2, VECTORS))
    assert rows == list(draw_operands(2, VECTORS))
    assert all(x < 1 << 32 and y < 1 << 32 and z == 0 for x, y, z in rows)
    assert len({row[0] for row in rows[::2]}) == VECTORS // 2


def test_players_open_less_only_for_a_while() -> None:
    """The arity is as before, even after an error."""
    with agreeing(1):
        assert tree.get_block(20) == 1
    with pytest.raises(KeyError), agreeing(2):
        raise KeyError
    assert tree.MAX_ARITY_LOG2 == ARITY_LOG2


def test_a_source_that_is_not_as_expected_is_refused() -> None:
    """A variant is never compiled from half of the changes."""
    with pytest.raises(CompileError, match="not once"):
        change_arity("ARITY_LOG2: constant(uint256) = 5\n", 2)


def test_an_unknown_scenario_is_refused() -> None:
    """The error suggests another name."""
    with pytest.raises(UsageError, match="reference"):
        check_names(["referense"])
    assert list(check_names([])) == list(NAMES)
