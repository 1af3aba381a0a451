"""What a preparation finds out once for all operators that are alike."""

from dataclasses import replace

import numpy as np
import pytest

from moot.offchain.arithmetic.functions import DType, Function
from moot.offchain.backends.cpu.regions import FusedRegion
from moot.offchain.commitments.tensors import Array
from moot.offchain.execution import preparation
from moot.offchain.execution.executor import Executor
from moot.offchain.execution.groups import GroupPlans
from moot.offchain.execution.preparation import Preparation, forget_tensors
from moot.offchain.planning.roles import Group
from moot.offchain.programs.graph import Kind, Node, Operand, Origin, Program, Row, Slot


def make_product(*sources: tuple[Origin, int]) -> Node:
    """Return the product of two vectors, given what they are."""
    rows = (Row(4, 0, ((0, 1),), 1),)
    operands = tuple(Operand(*source[:1], DType.FLOAT32, source[1], 0, rows) for source in sources)
    return Node(Kind.MAP, Function.MUL, DType.FLOAT32, (4,), operands)


def test_operators_that_read_other_tensors_are_alike() -> None:
    """What an operator is planned by tells its tensors apart, but not from those of others."""
    product = make_product((Origin.NODE, 3), (Origin.NODE, 5))
    assert forget_tensors(product) == forget_tensors(
        make_product((Origin.NODE, 9), (Origin.NODE, 7))
    )


def test_operators_that_differ_otherwise_are_not_alike() -> None:
    """A square is no product of two tensors, and a tensor of the state is none of an operator."""
    product = make_product((Origin.NODE, 3), (Origin.NODE, 5))
    others = [
        make_product((Origin.NODE, 3), (Origin.NODE, 3)),
        make_product((Origin.STATE, 3), (Origin.NODE, 5)),
        replace(product, shape=(3,)),
    ]
    assert forget_tensors(product) not in map(forget_tensors, others)


SIZE = 1 << 12


def make_chain() -> Program:
    """Return the doubles of a vector, the doubles of these, and a state of them."""

    def read(origin: Origin, reference: int) -> Operand:
        return Operand(origin, DType.FLOAT32, reference, rows=(Row(SIZE, terms=((0, 1),)),))

    def add(operand: Operand) -> Node:
        return Node(Kind.MAP, Function.ADD, DType.FLOAT32, (SIZE,), (operand, operand))

    first, second = add(read(Origin.STATE, 0)), add(read(Origin.NODE, 0))
    sink = Node(Kind.SINK, Function.COPY, DType.FLOAT32, (SIZE,), (read(Origin.NODE, 1),))
    slot = Slot("slot", DType.FLOAT32, (SIZE,))
    return Program((slot,), (), (first, second, sink), ("first", "second", "sink"), ("",) * 3)


def test_large_maps_that_are_shown_are_kernels_one_by_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """Large outputs are there one after the other; of maps each is a kernel, unless replaced."""
    together = [job.members for job in Preparation(make_chain()).shown.jobs]
    assert together == [(0, 1), (2,)]
    monkeypatch.setattr(preparation, "_LARGE_BYTES", 4 * SIZE - 1)
    prepared = Preparation(make_chain())
    first, second, _ = prepared.shown.jobs
    assert [first.members, second.members] == [(0,), (1,)]
    assert isinstance(first.plan, FusedRegion)
    assert isinstance(second.plan, FusedRegion)
    assert not isinstance(prepared.show({1}).jobs[1].plan, FusedRegion)
    shown: dict[int, Array] = {}
    start = np.arange(SIZE, dtype=np.float32)
    Executor(prepared).run([start], [], 0, shown.__setitem__)
    for index, factor in enumerate((2, 4, 4)):
        assert np.array_equal(shown[index], factor * start)


def test_runs_share_the_plans_of_groups_that_agree() -> None:
    """A group is planned once for what is kept of it, whatever another run does elsewhere."""
    prepared = Preparation(make_chain())
    first = prepared.shown.jobs[0]
    again = prepared.show({2}).jobs[0]
    assert again.members == first.members == (0, 1)
    assert again.plan is first.plan
    fused = prepared.fused.jobs[0]
    assert fused.members == first.members
    assert fused.kept != first.kept
    assert fused.plan is not first.plan
    assert prepared.prepare([1]).jobs[0].plan is fused.plan


def test_groups_are_told_apart_and_forgotten_in_time() -> None:
    """The same members in another form are another group, and only so many are remembered."""
    program = make_chain()
    (task, *_) = Preparation(program).schedule()
    assert isinstance(task.unit, Group)
    backend = Preparation(program).backend
    plans = GroupPlans(backend, 1)
    plan = plans.plan(task.unit, task)
    assert plans.plan(task.unit, task) is plan
    other = replace(task.unit, cuts=frozenset({1}))
    assert plans.plan(other, task) is not plan
    plan = plans.plan(task.unit, task)
    plans.plan(task.unit, task._replace(kept=task.members))
    assert plans.plan(task.unit, task) is not plan
