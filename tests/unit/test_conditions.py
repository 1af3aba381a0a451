"""Conditions: what a job locks and costs is bounded before anything of it is fetched or run."""

from dataclasses import fields, replace
from typing import Any

import pytest

from contracts.model.types import MAX_BLOCKS, Address, Job, Terms
from offchain.arithmetic.base import Arithmetic
from offchain.arithmetic.exact import EXACT
from offchain.arithmetic.functions import DType, Function
from offchain.arithmetic.logged import LOGGED
from offchain.arithmetic.ordered import ORDERED
from offchain.disputes.conditions import (
    Conditions,
    Finding,
    bound_locked_blocks,
    check_cost,
    check_size,
    check_terms,
    check_worth,
    describe_problems,
    estimate_run,
)
from offchain.disputes.terms import Stakes, make_terms
from offchain.programs.graph import Kind, Node, Operand, Origin, Program, Row, Slot, immediate
from offchain.programs.legality import check_program
from offchain.programs.limits import MAX_OPERATORS, MAX_SLOTS, MAX_STEPS
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
