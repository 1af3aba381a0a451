"""The plans of a program's operators and regions, made once for all who run the program."""

from collections.abc import Callable, Collection, Sequence
from functools import cached_property, partial
from typing import NamedTuple

from offchain.arithmetic.environment import standard_environment
from offchain.commitments.tensors import Array
from offchain.errors import ProgramError
from offchain.execution.engines import get_engine
from offchain.execution.grouping import Unit, group
from offchain.execution.logged.journals import Journal
from offchain.execution.logged.plans import Journaled
from offchain.execution.memory import estimate_peak
from offchain.execution.order import find_last_reads, reorder
from offchain.execution.plans import Plan
from offchain.execution.regions import FusedRegion
from offchain.execution.roles import Group
from offchain.execution.schedule import Task, find_ancestors, schedule
from offchain.execution.segments import Segmented, SegmentedReduction
from offchain.execution.selections import LargestElements, Selection
from offchain.execution.vertical import Vertical, VerticalReduction
from offchain.programs.graph import Operand, Program
from offchain.programs.legality import check_program


class Job(NamedTuple):
    """A task ready to run: its operands, and (tensors, step, journal) -> outputs of `task.kept`.

    Nobody reads `dead_slots` of the state after it, and the run may let them die. The journal is
    what a log of roundings is read from, or written to; None where there is no log.
    """

    task: Task
    dead_slots: Sequence[int]
    operands: tuple[Operand, ...]
    run: Callable[[Sequence[Array | None], int, Journal | None], Sequence[Array]]


class Ready(NamedTuple):
    """All tasks of a run, and the memory that their outputs take."""

    jobs: Sequence[Job]
    needed_bytes: int


class Preparation:
    """The ways to run a program: operator by operator, fused, and in the place of its state.

    No run changes it, so that executors may share it.

    Args:
        program: the program.

    Raises:
        ProgramError: the program is malformed, or its arithmetic can't compute an operator.
    """

    @standard_environment()
    def __init__(self, program: Program) -> None:
        check_program(program)
        self.program = program
        self.sinks = range(program.first_sink, len(program.nodes))
        self._engine = get_engine(program.arithmetic)
        self._plans = [self._plan(index) for index in range(len(program.nodes))]

    def _plan(self, index: int) -> Plan:
        try:
            return self._engine.plan(self.program.nodes[index])
        except ProgramError as error:
            name, line = self.program.names[index], self.program.lines[index]
            raise ProgramError(f"operator {name} ({line}): {error}") from error

    @cached_property
    def separate(self) -> Ready:
        """Every operator by itself, in order."""
        return self.prepare(range(len(self.program.nodes)), self.sinks, is_fused=False)

    @cached_property
    def fused(self) -> Ready:
        """Those operators that the sinks need, in regions."""
        needed = find_ancestors(self.program, self.sinks)
        return self.prepare(needed, self.sinks, is_fused=True)

    @cached_property
    def replacing(self) -> Ready:
        """The tasks of a step that replaces its state, whose tensors die as soon as they can."""
        tasks = [job.task for job in self.fused.jobs]
        places = reorder(self.program, [task.members for task in tasks], self.sinks)
        tasks = schedule(self.program, [tasks[place].unit for place in places], self.sinks)
        last_reads = find_last_reads(self.program, [task.members for task in tasks], self.sinks)
        return self._make_ready(tasks, last_reads)

    def prepare(self, needed: Sequence[int], wanted: Collection[int], *, is_fused: bool) -> Ready:
        """Return the tasks that run some operators, and keep the outputs of some of these."""
        order: Sequence[Unit] = needed
        if is_fused:
            order = group(self.program, needed, wanted, self._engine.is_fusible)
        tasks = schedule(self.program, order, wanted)
        return self._make_ready(tasks, [()] * len(tasks))

    def _make_ready(self, tasks: Sequence[Task], dead_slots: Sequence[Sequence[int]]) -> Ready:
        jobs = [self._make_job(task, dead) for task, dead in zip(tasks, dead_slots, strict=True)]
        return Ready(jobs, estimate_peak(self.program, tasks, dead_slots))

    def _make_job(self, task: Task, dead_slots: Sequence[int]) -> Job:
        if isinstance(task.unit, int):
            plan = self._plans[task.unit]
            operands = self.program.nodes[task.unit].operands
            return Job(task, dead_slots, operands, partial(_run_plan, plan, task.unit))
        fused = _plan_unit(task.unit, task.kept)
        return Job(task, dead_slots, fused.operands, lambda flats, *_: fused.run(flats))


def _run_plan(
    plan: Plan, operator: int, flats: Sequence[Array | None], step: int, journal: Journal | None
) -> Sequence[Array]:
    if journal is not None and isinstance(plan, Journaled):
        return (plan.run_journaled(flats, step, operator, journal),)
    return (plan.run(flats, step),)


def _plan_unit(
    unit: Group | Vertical | Segmented | Selection, kept: Sequence[int]
) -> FusedRegion | VerticalReduction | SegmentedReduction | LargestElements:
    """Return the plan of operators that one kernel computes."""
    if isinstance(unit, Selection):
        return LargestElements(unit, kept)
    if isinstance(unit, Vertical):
        return VerticalReduction(unit)
    return SegmentedReduction(unit) if isinstance(unit, Segmented) else FusedRegion(unit, kept)
