"""Conditions: what a job locks and costs is bounded before anything of it is fetched or run."""

import math
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from moot.contracts.model.types import MAX_BLOCKS, Address, Job, Terms
from moot.contracts.reasons import LeafMode, Status
from moot.offchain.arithmetic.base import Arithmetic
from moot.offchain.arithmetic.exact import EXACT
from moot.offchain.arithmetic.functions import DType, Function
from moot.offchain.arithmetic.logged import LOGGED
from moot.offchain.arithmetic.ordered import ORDERED
from moot.offchain.disputes.joining.conditions import (
    Conditions,
    Finding,
    bound_locked_blocks,
    check_cost,
    check_length,
    check_size,
    check_terms,
    check_time,
    check_worth,
    count_checkpoints,
    count_left,
    describe_problems,
    estimate_disk,
    estimate_run,
    find_if,
    get_memory,
    has_problem,
)
from moot.offchain.disputes.referee.terms import Stakes, make_terms
from moot.offchain.programs.cost import compute_least_memory, count_bytes
from moot.offchain.programs.graph import Kind, Node, Operand, Origin, Program, Row, Slot, immediate
from moot.offchain.programs.legality import check_program
from moot.offchain.programs.limits import MAX_OPERATORS, MAX_SLOTS, MAX_STEPS
from moot.offchain.providers.rates import estimate_timing
from tests.sim_helpers import make_task

F32 = DType.FLOAT32
YEAR_S = 365 * 86_400
ETHER = 10**18
USUAL = Conditions()
GREATEST: dict[str, int] = {
    **{it.name: MAX_BLOCKS for it in fields(Terms) if it.name.endswith("_blocks")},
    "operators": MAX_OPERATORS,
    "state_slots": MAX_SLOTS,
    "batch_slots": MAX_SLOTS,
    "steps": MAX_STEPS,
    "bond_wei": 100 * ETHER,
}
"""What the referee lets a client choose; an interval is never longer than the steps."""


def make_job(reward_wei: int = ETHER // 10, **changes: Any) -> Job:
    """Return an open job of a small program, some of whose terms are others."""
    terms = replace(make_terms(make_task(), Stakes()), **changes)
    return Job(Address("0x" + "c1" * 20), terms, reward_wei, opened_block=7, window_end=0)


def make_endless() -> Program:
    """Return a legal program of one number, whose step takes months at the best."""
    zero = immediate(F32, 0)
    long = Node(Kind.CONTRACT, Function.FMA, F32, (1,), (zero, zero, zero), (1 << 30, 1 << 30))
    made = Operand(Origin.NODE, F32, 0, rows=(Row(1, terms=((0, 1),)),))
    sink = Node(Kind.SINK, Function.COPY, F32, (1,), (made,))
    program = Program((Slot("w", F32, (1,)),), (), (long, sink), ("long", "w"), ("", ""))
    check_program(program)
    return program


def find_problems(job: Job, program: Program, wanted: Conditions = USUAL) -> list[Finding]:
    """Return all that is wrong with a job, of which nothing is there but terms and program."""
    findings = [*check_size(job.terms, wanted), *check_terms(job, wanted)]
    findings += check_cost(job.terms, program, wanted)
    findings += check_worth(job, program, wanted, block=job.opened_block)
    return [it for it in findings if it.problem]


def test_a_usual_job_is_taken() -> None:
    """The defaults of a client and those of a provider fit each other."""
    assert find_problems(make_job(), make_task().program) == []


def test_no_number_of_the_terms_is_unbounded() -> None:
    """Each that a client chooses is refused at the greatest value that the referee accepts."""
    numbers = {it.name for it in fields(Terms) if it.type is int}
    assert numbers - {"checkpoint_every"} == set(GREATEST)
    for name, value in GREATEST.items():
        problems = find_problems(make_job(**{name: value}), make_task().program)
        assert problems, name
        assert all("\n" not in str(it.problem) for it in problems)


@pytest.mark.parametrize("reward_wei", [0, 1])
def test_dust_locks_no_bond(reward_wei: int) -> None:
    """A bond is not locked for nothing, and a longer time asks for more."""
    program = make_task().program
    assert "yield" in {it.item for it in find_problems(make_job(reward_wei), program)}
    longer = make_job(10**14, clock_blocks=1_000)
    assert [it.item for it in find_problems(longer, program)] == ["yield"]
    assert find_problems(make_job(10**14), program) == []


def test_the_time_of_a_bond_grows_with_every_window_and_clock() -> None:
    """None of them is left out of the longest time that a bond is locked."""
    terms = make_job().terms
    first = bound_locked_blocks(terms, crowd=100)
    for name in ("commit_blocks", "reveal_blocks", "window_blocks", "clock_blocks"):
        more = replace(terms, **{name: getattr(terms, name) + 1})
        assert bound_locked_blocks(more, crowd=100) > first
    assert bound_locked_blocks(terms, crowd=1_000) > first


@pytest.mark.parametrize("arithmetic", [ORDERED, EXACT, LOGGED], ids=lambda it: it.name)
def test_a_program_that_never_ends_is_refused_by_its_shapes(arithmetic: Arithmetic) -> None:
    """It is legal, its tensors are one number each, and it is refused in a line."""
    program = replace(make_endless(), arithmetic=arithmetic)
    job = make_job(1_000 * ETHER, steps=MAX_STEPS, checkpoint_every=MAX_STEPS)
    assert estimate_run(program, job.terms) > 1e6 * YEAR_S
    problem = find_problems(job, program)[0]
    assert problem.item == "run_seconds"
    assert len(describe_problems([problem])) < 200


def test_what_does_not_fit_into_memory_is_refused_by_its_shapes() -> None:
    """Tensors that no machine holds are refused from the program alone."""
    size = (1 << 42,)
    node = Node(Kind.RANDOM, Function.UNIFORM, F32, size)
    made = Operand(Origin.NODE, F32, 0, rows=(Row(size[0], terms=((0, 1),)),))
    sink = Node(Kind.SINK, Function.COPY, F32, size, (made,))
    program = Program((Slot("w", F32, size),), (), (node, sink), ("r", "w"), ("", ""))
    check_program(program)
    found = {it.item for it in find_problems(make_job(), program)}
    assert {"memory_bytes", "disk_bytes"} <= found


def test_work_is_paid_for() -> None:
    """A run of hours asks for more than a run of seconds, and one above the limit is not begun."""
    program = make_task().program
    for steps, reward_wei, items in (
        (10**6, 10**10, {"yield", "hourly_wei"}),
        (10**6, ETHER, set()),
        (10**9, 10**3 * ETHER, {"run_seconds"}),
    ):
        job = make_job(reward_wei, steps=steps, checkpoint_every=steps, commit_blocks=1_000)
        found = {it.item for it in find_problems(job, program)} - {"commit_blocks", "disk_bytes"}
        assert found == items, (steps, found)


LIMITS: dict[str, tuple[str, Any]] = {
    "most_bond_wei": ("bond_wei", ETHER),
    "least_window_blocks": ("window_blocks", 16),
    "most_operators": ("size", 65_536),
    "most_slots": ("slots", 8_192),
    "most_checkpoints": ("checkpoints", 16_384),
    "most_locked_blocks": ("locked_blocks", 50_400),
    "most_disk_bytes": ("disk_bytes", 100_000_000_000),
    "most_run_seconds": ("run_seconds", 86_400.0),
    "least_hourly_wei": ("hourly_wei", 500_000_000_000_000),
    "least_yield": ("yield", 0.05),
    "least_reward_wei": ("reward_wei", 0),
    "crowd": ("", 100),
    "confirmations": ("", 8),
    "block_seconds": ("", 12.0),
    "most_memory_bytes": ("memory_bytes", 0),
    "joins_late": ("", False),
}
"""The conditions of who states none, and the item that each is about."""


def test_who_states_no_conditions_has_those_of_the_docs() -> None:
    """They are the limits that a careful provider would choose."""
    assert {name: getattr(Conditions(), name) for name in LIMITS} == {
        name: limit for name, (_, limit) in LIMITS.items()
    }


@pytest.mark.parametrize(
    ("condition", "changes"),
    [
        ("most_bond_wei", {"bond_wei": 77}),
        ("least_window_blocks", {"window_blocks": 77, "reveal_blocks": 77}),
        ("least_window_blocks", {"window_blocks": 78, "reveal_blocks": 77}),
        ("least_window_blocks", {"window_blocks": 77, "reveal_blocks": 78}),
        ("most_operators", {"operators": 77}),
        ("most_slots", {"state_slots": 77, "batch_slots": 76}),
        ("most_slots", {"state_slots": 76, "batch_slots": 77}),
        ("most_checkpoints", {"steps": 154, "checkpoint_every": 2}),
        ("most_checkpoints", {"steps": 153, "checkpoint_every": 2}),
    ],
)
def test_a_limit_itself_is_met_and_one_beyond_it_is_not(
    condition: str, changes: dict[str, Any]
) -> None:
    """The greatest and the least that is allowed is allowed."""
    job, (item, _) = make_job(**changes), LIMITS[condition]
    stricter = 76 if condition.startswith("most") else 78
    for limit, is_met in ((77, True), (stricter, False)):
        wanted = replace(USUAL, **{condition: limit})
        findings = [*check_terms(job, wanted), *check_size(job.terms, wanted)]
        problems = {it.item for it in findings if it.problem and "locked" not in it.item}
        assert bool(problems & {item, "reveal_blocks"}) is not is_met


def test_a_reward_is_enough_from_the_least_one_on() -> None:
    """So is it for its bond, for as long as that may be locked, and for its hours."""
    terms = make_job().terms
    years = bound_locked_blocks(terms, 100) * 12 / YEAR_S
    yielded = int(terms.bond_wei * 0.05 * years)
    program = make_task().program
    earned = int(estimate_run(program, terms) / 3_600 * ETHER)
    paid = replace(USUAL, least_hourly_wei=ETHER)
    for least, item, wanted in (
        (77, "reward_wei", replace(USUAL, least_reward_wei=77)),
        (yielded, "yield", USUAL),
        (earned, "hourly_wei", paid),
    ):
        for reward_wei, is_met in ((least, True), (least - 1, False)):
            job = make_job(reward_wei)
            findings = [*check_terms(job, wanted), *check_worth(job, program, wanted, 7)]
            problems = {it.item: str(it.problem) for it in findings if it.problem}
            assert (item not in problems) is is_met
            if item == "yield" and not is_met:
                assert f"locked for {bound_locked_blocks(terms, 100)} blocks" in problems[item]


def test_other_terms_than_the_agreed_ones_are_named() -> None:
    """Who decides, who verifies, how long it is, and whether it is open."""
    job = make_job(steps=6, checkpoint_every=2)
    assert not has_problem([*check_length(job, 6, 2), *check_terms(job, USUAL)])
    assert [it.problem for it in check_length(job, 5, 2)] == [
        "the job has 6, and 5 is right",
        None,
    ]
    assert [bool(it.problem) for it in check_length(job, 6, 3)] == [False, True]
    closed = replace(job, status=Status.WON)
    ruled = replace(USUAL, leaf_mode=LeafMode.OPERATOR)
    another = replace(USUAL, verifier=Address("0x" + "AB" * 20))
    for item, found, wanted in (
        ("status", closed, USUAL),
        ("leaf_mode", job, ruled),
        ("verifier", job, another),
    ):
        problems = [it for it in check_terms(found, wanted) if it.problem]
        assert [it.item for it in problems] == [item]
        assert has_problem(problems)
        assert describe_problems(problems * 2) == "; ".join([f"{item}: {problems[0].problem}"] * 2)
    named = make_job(verifier=Address("0x" + "ab" * 20))
    assert not has_problem([*check_terms(named, another)])
    assert not has_problem([find_if(is_met=True, item="a", problem="b")])
    assert describe_problems([Finding("a", None)]) == ""


@given(st.integers(1, 10**6), st.integers(0, 10**4), st.integers(0, 10**4))
def test_a_bond_is_locked_for_as_many_rounds_as_halve_the_crowd(
    crowd: int, blocks: int, more: int
) -> None:
    """Each has its window, two clocks, and the increments of both sides' moves."""
    terms = replace(
        make_job().terms,
        commit_blocks=blocks,
        reveal_blocks=more,
        window_blocks=5,
        clock_blocks=7,
        increment_blocks=2,
    )
    rounds = math.floor(math.log2(crowd)) + 1
    assert bound_locked_blocks(terms, crowd) == blocks + more + rounds * (5 + 14 + 2 * 22 * 2)


@example(5.5e-9, 0.0, 6)
@example(5.5e-9, 0.0, 7)
@given(st.floats(0, 1e6), st.floats(0, 100), st.integers(-5, 1_000))
def test_a_run_has_to_end_before_the_last_block_that_is_left(
    seconds: float, block_seconds: float, left: int
) -> None:
    """A block is left for the claim itself; without a time of blocks none is enough."""
    blocks = math.ceil(seconds / max(block_seconds, 1e-9))
    assert bool(check_time("a", seconds, block_seconds, left).problem) == (blocks >= max(0, left))


def test_time_is_left_until_the_deadline_of_what_is_to_be_done() -> None:
    """To commit, or to join until the window after reveals has ended."""
    job = make_job(commit_blocks=10, reveal_blocks=20, window_blocks=30)
    assert count_left(job, 9, joins_late=False) == 8
    assert count_left(job, 9, joins_late=True) == 58
    slow = replace(USUAL, block_seconds=1e-6)
    program = make_task().program
    found = [*check_worth(job, program, slow, 9)]
    assert [it.item for it in found if it.problem] == ["commit_blocks"]
    assert "8 are left" in str(found[-1].problem)
    late = [*check_worth(job, program, replace(slow, joins_late=True), 9)]
    assert "58 are left" in str(late[-1].problem)


@pytest.mark.parametrize(("steps", "every", "count"), [(7, 2, 4), (8, 2, 4), (3, 0, 3), (3, 9, 1)])
def test_a_job_costs_what_its_parts_cost(steps: int, every: int, count: int) -> None:
    """Steps with their batches, checkpoints with their states, and notes that grow with these."""
    program = make_task().program
    terms = replace(make_job().terms, steps=steps, checkpoint_every=every)
    assert count_checkpoints(terms) == count
    timing = estimate_timing(program)
    state = sum(4 * math.prod(it.shape) for it in program.state)
    batch = count_bytes(program.batch)
    assert state == count_bytes(program.state)
    assert batch
    seconds = timing.prepared_s + steps * (timing.step_s + batch / 1e9) + count * timing.state_s
    assert estimate_run(program, terms) == pytest.approx(seconds + 70e-9 * count**2, rel=1e-12)
    kept = steps * (batch + 32 * len(program.batch)) + (count + 1) * state
    assert estimate_disk(program, terms) == kept


def test_a_cost_that_is_allowed_is_allowed_and_no_greater_one() -> None:
    """Memory is this machine's where nothing else is said."""
    program, terms = make_task().program, make_job().terms
    memory, disk = compute_least_memory(program), estimate_disk(program, terms)
    seconds = estimate_run(program, terms)
    for name, found, less in (
        ("most_run_seconds", seconds, seconds * 0.99),
        ("most_memory_bytes", memory, memory - 1),
        ("most_disk_bytes", disk, disk - 1),
    ):
        for most, is_met in ((found, True), (less, False)):
            wanted = replace(USUAL, **{name: most})
            findings = [it for it in check_cost(terms, program, wanted) if it.problem]
            assert [it.item for it in findings] == ([] if is_met else [LIMITS[name][0]])
    total = int(Path("/proc/meminfo").read_text().split()[1]) * 1024
    assert get_memory() == pytest.approx(total, rel=0.1)
    assert not has_problem([*check_cost(terms, program, USUAL)])
