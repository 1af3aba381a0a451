"""The plans of a program's operators and regions, made once for all who run the program."""

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import cached_property, partial
from typing import Any, NamedTuple, cast

from moot.offchain.arithmetic.environment import standard_environment
from moot.offchain.arithmetic.functions import DType
from moot.offchain.backends.port import (
    Backend,
    FusedPlan,
    Journal,
    JournaledPlan,
    PackingBackend,
    Plan,
    ResidentBackend,
    SequencingBackend,
    Tensor,
)
from moot.offchain.backends.table import DEFAULT, get_backend
from moot.offchain.errors import ProgramError
from moot.offchain.execution.debugging import watch
from moot.offchain.execution.groups import GroupPlans
from moot.offchain.execution.residents import Resident
from moot.offchain.execution.sequencing import Job, Whole, join, make_steps
from moot.offchain.planning import preconditions
from moot.offchain.planning.grouping import Unit, group, group_alone
from moot.offchain.planning.keeping import choose_kept
from moot.offchain.planning.memory import estimate_peak, list_live_bytes
from moot.offchain.planning.order import find_last_reads, reorder
from moot.offchain.planning.packing import Packed, pack_factors
from moot.offchain.planning.readings import is_alias
from moot.offchain.planning.schedule import Task, find_ancestors, schedule
from moot.offchain.programs.graph import Node, Operand, Origin, Program
from moot.offchain.programs.legality import check_program

_COLD_RUNS = 3
"""Runs after which it is worth to compile kernels of small operators, and to join small tasks."""

_WHOLE_BYTES = 1 << 24
"""What a run takes at most that is one sequence from caller to caller, as others look at memory."""

_LARGE_BYTES = 1 << 25
"""Bytes of an output beyond which to fill fresh memory costs more than to read it once more."""

_KEPT_PART = 8
"""What a run that shows all its outputs keeps of them takes this part of its memory at most."""


class Ready(NamedTuple):
    """Prepared run: its tasks, the place of each output that it is run for, and the memory needed.

    `copies` are operators that the program does not have, which pack factors; `keeps` are those
    whose outputs are worth keeping, where somebody wants to.
    """

    jobs: Sequence[Job]
    places: Mapping[int, int]
    needed_bytes: int
    copies: Sequence[Node] = ()
    keeps: Collection[int] = ()


class Preparation:
    """The ways to run a program: operator by operator, fused, and in the place of its state.

    No run changes what another one computes, so that executors may share it.

    Args:
        program: the program.
        backend: what computes it, or its name.

    Attributes:
        program: the program.
        backend: what computes it.
        whole: how to run all of it as one sequence; None before it was run some times, and where
            that is not possible.

    Raises:
        ProgramError: the program is malformed, or its arithmetic can't compute an operator.
        UsageError: there is no such backend, or it does not compute the program's arithmetic.
    """

    @standard_environment()
    def __init__(self, program: Program, backend: str | Backend = DEFAULT) -> None:
        check_program(program)
        self.program = program
        self.sinks = range(program.first_sink, len(program.nodes))
        if isinstance(backend, str):
            backend = get_backend(backend, program.arithmetic)
        self.backend = backend
        # Asking takes microseconds; what is looked at runs task by task.
        self._joins = isinstance(self.backend, SequencingBackend) and not preconditions.IS_DEBUG
        slots = len(program.state), len(program.batch)
        self._starts = {Origin.STATE: 1, Origin.BATCH: 1 + slots[0], Origin.NODE: 1 + sum(slots)}
        known: dict[Node, Plan] = {}
        self._plans = [self._plan(index, known) for index in range(len(program.nodes))]
        self._groups = GroupPlans(self.backend, len(program.nodes))
        self._runs = 0
        self.whole: Whole | None = None

    def keep(self, tensors: Iterable[Tensor]) -> list[Any]:
        """Return the tensors of a state where the backend keeps them, or as arrays."""
        backend = self.backend
        if not isinstance(backend, ResidentBackend):
            return [*map(backend.fetch, tensors)]
        pairs = zip(tensors, self.program.state, strict=True)
        return [Resident(backend, tensor, slot) for tensor, slot in pairs]

    def _plan(self, index: int, known: dict[Node, Plan]) -> Plan:
        """Return the plan of an operator; those that differ in their tensors only share it."""
        node = forget_tensors(self.program.nodes[index])
        try:
            if node not in known:
                known[node] = self.backend.plan(node, self.program.arithmetic)
            return known[node]
        except ProgramError as error:
            name, line = self.program.names[index], self.program.lines[index]
            raise ProgramError(f"operator {name} ({line}): {error}") from error

    def choose(self, *, replaces: bool = False) -> Ready:
        """Return the tasks of one more run that nobody looks at.

        Args:
            replaces: whether it replaces its state, whose tensors die as soon as they can.
        """
        runs = self._runs = self._runs + 1
        if runs <= _COLD_RUNS or not self._joins:
            return self.replacing if replaces else self.fused
        if runs == _COLD_RUNS + 1:
            self.whole = self._find_whole()
        return self._replacing_joined if replaces else self._fused_joined

    @cached_property
    def fused(self) -> Ready:
        """Those operators that the sinks need, in regions."""
        return self.prepare(self.sinks)

    @cached_property
    def shown(self) -> Ready:
        """All operators, in regions after which the output of every member is there."""
        return self.show()

    @cached_property
    def replacing(self) -> Ready:
        """The tasks of a step that replaces its state, whose tensors die as soon as they can."""
        return self._replace(self.schedule())

    @cached_property
    def _small_tasks(self) -> Sequence[Task]:
        return self.schedule(least_elements=1)

    @cached_property
    def _fused_joined(self) -> Ready:
        return self._join(self._make_ready(self._small_tasks, [()] * len(self._small_tasks)))

    @cached_property
    def _replacing_joined(self) -> Ready:
        return self._join(self._replace(self._small_tasks))

    def schedule(self, least_elements: int | None = None) -> list[Task]:
        """Return the tasks that the sinks need; regions have so many elements, or as usual."""
        needed = find_ancestors(self.program, self.sinks)
        order = self._group(needed, self.sinks, (), least_elements)
        return schedule(self.program, order, self.sinks)

    def _replace(self, tasks: Sequence[Task]) -> Ready:
        """Return tasks in an order in which tensors die early, and those of the state do."""
        places = reorder(self.program, [task.members for task in tasks], self.sinks)
        tasks = schedule(self.program, [tasks[place].unit for place in places], self.sinks)
        last_reads = find_last_reads(self.program, [task.members for task in tasks], self.sinks)
        return self._make_ready(tasks, last_reads)

    def _join(self, ready: Ready) -> Ready:
        """Return the tasks of a run with small ones joined to sequences."""
        assert isinstance(self.backend, SequencingBackend)
        slots = (*self.program.state, *self.program.batch)
        sizes = [0, *(slot.elements * slot.dtype.width for slot in slots)]
        nodes = (*self.program.nodes, *ready.copies)
        sizes += [node.elements * node.dtype.width for node in nodes]
        jobs = join(ready.jobs, self.backend, nodes, sizes)
        more = max((job.needed_bytes for job in jobs), default=0)
        return ready._replace(jobs=jobs, needed_bytes=ready.needed_bytes + more)

    def _find_whole(self) -> Whole | None:
        """Return how to run all tasks as one sequence, if they are one, and a small one."""
        if isinstance(self.backend, ResidentBackend):
            return None
        slots, tasks = (*self.program.state, *self.program.batch), self._small_tasks
        has_flags = any(slot.dtype is DType.BOOL for slot in slots)  # whose bytes are looked at
        dead_slots: Sequence[Sequence[int]] = [()] * len(tasks)
        if has_flags or estimate_peak(self.program, tasks, dead_slots) > _WHOLE_BYTES:
            return None
        joined = self._fused_joined
        running = [job for job in joined.jobs if job.run]
        is_one = len(running) == 1 and running[0].plan is None
        if not is_one or joined.needed_bytes > _WHOLE_BYTES:
            return None
        assert isinstance(self.backend, SequencingBackend)
        ready = self._make_ready(tasks, dead_slots)
        steps = make_steps(ready.jobs, (*self.program.nodes, *ready.copies))
        kept = [joined.places[index] for index in self.sinks]
        plan = self.backend.plan_sequence(steps, range(1, 1 + len(slots)), kept, slots)
        return Whole(plan, (len(self.program.state), len(self.program.batch)))

    def prepare(
        self, wanted: Collection[int], alone: Collection[int] = (), known: Collection[int] = ()
    ) -> Ready:
        """Return the tasks that compute the outputs of some operators.

        Args:
            wanted: the operators whose outputs are kept.
            alone: operators that run by themselves, so that others read what becomes of them.
            known: operators whose outputs the run is given.
        """
        needed = find_ancestors(self.program, wanted, known)
        read = {*wanted, *(i for index in needed for i in self.program.nodes[index].inputs)}
        given = sorted(read.intersection(known))
        order = self._group(needed, wanted, alone, known=given)
        tasks = schedule(self.program, order, wanted)
        return self._make_ready(tasks, [()] * len(tasks), is_seen=bool(alone), known=given)

    def show(self, alone: Collection[int] = ()) -> Ready:
        """Return the tasks that compute all outputs, each of which is there after its task.

        Large outputs are computed one by one, since those of a region are all there at once. Some
        that are worth it may be kept until later, without taking more memory than the run does.
        """
        nodes = self.program.nodes
        every = range(len(nodes))
        large = {i for i in every if nodes[i].elements * nodes[i].dtype.width > _LARGE_BYTES}
        single = large.difference(alone)
        order = [
            self._find_kernel(unit) if isinstance(unit, int) and unit in single else unit
            for unit in self._group(every, every, large.union(alone))
        ]
        tasks = schedule(self.program, order, self.sinks, shows_all=True)
        dead_slots: Sequence[Sequence[int]] = [()] * len(tasks)
        ready = self._make_ready(tasks, dead_slots, is_seen=True)
        live = list_live_bytes(self.program, tasks, dead_slots)
        keeps = choose_kept(self.program, tasks, ready.needed_bytes // _KEPT_PART, live)
        return ready._replace(keeps=keeps)

    def _find_kernel(self, index: int) -> Unit:
        """Return an operator that runs by itself as a group, if it may be one."""
        is_fusible = self.backend.is_fusible(self.program.nodes[index], self.program.arithmetic)
        return (group_alone(self.program, index) if is_fusible else None) or index

    def _group(
        self,
        needed: Sequence[int],
        wanted: Collection[int],
        alone: Collection[int],
        least_elements: int | None = None,
        known: Collection[int] = (),
    ) -> Sequence[Unit]:
        nodes, arithmetic = self.program.nodes, self.program.arithmetic
        single = {
            i for i in needed if i in alone or not self.backend.is_fusible(nodes[i], arithmetic)
        }
        return group(self.program, needed, wanted, single.union(known), least_elements, known)

    def _make_ready(
        self,
        tasks: Sequence[Task],
        dead_slots: Sequence[Sequence[int]],
        *,
        is_seen: bool = False,
        known: Collection[int] = (),
    ) -> Ready:
        places = self._find_places(tasks, known, is_seen=is_seen)
        held = Counter(places.values())
        held.update(range(1, self._starts[Origin.NODE]))
        packed = self._pack([] if is_seen else tasks)
        first_copy, jobs = len(self.program.nodes), []
        numbers = range(first_copy, first_copy + len(packed.copies))
        places.update((number, self._starts[Origin.NODE] + number) for number in numbers)
        for task, slots in zip(tasks, dead_slots, strict=True):
            begun = packed.begins.get(task.members[0], ())
            jobs += [self._make_copy(packed.copies[i - first_copy], i, places) for i in begun]
            dead = [places[index] for index in task.dead]
            dead += [self._starts[Origin.STATE] + slot for slot in slots]
            held.subtract(dead)
            dead += [places[number] for number in packed.ends.get(task.members[0], ())]
            ends = tuple(place for place in dict.fromkeys(dead) if not held[place])
            jobs.append(self._make_job(task, places, ends, packed.readers))
        peak = estimate_peak(self.program, tasks, dead_slots)
        peak += sum(copy.elements * copy.dtype.width for copy in packed.copies)
        return Ready(jobs, places, peak, packed.copies)

    def _pack(self, tasks: Sequence[Task]) -> Packed:
        """Return the copies of factors that a run makes for its contractions."""
        backend, arithmetic = self.backend, self.program.arithmetic
        if not isinstance(backend, PackingBackend):
            return pack_factors(self.program, (), lambda _: None)
        return pack_factors(
            self.program, tasks, lambda node: backend.find_packing(node, arithmetic)
        )

    def _make_copy(self, copy: Node, number: int, places: Mapping[int, int]) -> Job:
        """Return the job that makes the copy of this number."""
        reads = tuple(self._find_place(operand, places) for operand in copy.operands)
        plan = self.backend.plan(copy, self.program.arithmetic)
        run = partial(_run_plan, plan, number)
        return Job((), (number,), reads, (places[number],), (), run, plan)

    def _find_places(
        self, tasks: Sequence[Task], known: Collection[int], *, is_seen: bool
    ) -> dict[int, int]:
        """Return the place of each output that is kept.

        Where nobody looks on, an alias of a whole tensor has that tensor's place, if its shape does
        not matter or is that tensor's.
        """
        first = self._starts[Origin.NODE]
        places = {index: first + index for index in known}
        shapes = [(), *(slot.shape for slot in (*self.program.state, *self.program.batch))]
        shapes += [node.shape for node in self.program.nodes]
        dying = {index for task in tasks for index in task.dead}
        for task in tasks:
            places.update((index, first + index) for index in task.kept)
            if not is_seen and isinstance(task.unit, int):
                node = self.program.nodes[task.unit]
                place = self._find_place(node.operands[0], places) if node.operands else 0
                is_free = task.unit in dying or node.shape == shapes[place]
                if is_alias(node) and is_free:
                    places[task.unit] = place
        return places

    def _find_place(self, operand: Operand, places: Mapping[int, int]) -> int:
        """Return the place of a tensor: constants at 0, then the state, the batch and outputs."""
        if operand.origin is Origin.IMMEDIATE:
            return 0
        if operand.origin is Origin.NODE:
            return places[operand.reference]
        return self._starts[operand.origin] + operand.reference

    def _make_job(
        self,
        task: Task,
        places: Mapping[int, int],
        ends: tuple[int, ...],
        readers: Mapping[int, Node],
    ) -> Job:
        """Return the job of a task; `readers` are contractions that read copies."""
        run: Callable[..., Sequence[Tensor]] | None = None
        plan: Plan | FusedPlan | None = None
        writes = tuple(places[index] for index in task.kept)
        if isinstance(task.unit, int):
            reader = readers.get(task.unit)
            operands = (reader or self.program.nodes[task.unit]).operands
            if writes == (self._starts[Origin.NODE] + task.unit,):
                plan = self._plans[task.unit]
                run = partial(_run_plan, plan, task.unit)
                if reader is not None:
                    plan = self.backend.plan(reader, self.program.arithmetic)
                    run = partial(_run_reader, plan, self.program.nodes[task.unit].shape)
        else:
            plan = fused = self._groups.plan(task.unit, task)
            operands, run = tuple(fused.operands), partial(_run_fused, fused)
        reads = tuple(self._find_place(operand, places) for operand in operands)
        if run is not None and preconditions.IS_DEBUG:
            run = watch(run, operands, [self.program.nodes[index] for index in task.kept])
        return Job(task.members, task.kept, reads, writes, ends, run, plan)


def forget_tensors(node: Node) -> Node:
    """Return an operator with its tensors numbered in the order in which it reads them."""
    numbers: dict[tuple[Origin, int], int] = {}
    operands = (
        replace(x, reference=numbers.setdefault((x.origin, x.reference), len(numbers)))
        for x in node.operands
    )
    return replace(node, operands=tuple(operands))


def _run_plan(
    plan: Plan, operator: int, flats: Sequence[Tensor | None], step: int, journal: Journal | None
) -> Sequence[Tensor]:
    if journal is not None and hasattr(plan, "run_journaled"):
        return (cast("JournaledPlan", plan).run_journaled(flats, step, operator, journal),)
    return (plan.run(flats, step),)


def _run_reader(
    plan: Plan,
    shape: tuple[int, ...],
    flats: Sequence[Tensor | None],
    step: int,
    _journal: Journal | None,
) -> Sequence[Tensor]:
    """Run a contraction that reads a packed factor, whose output may have a variable more."""
    return (plan.run(flats, step).reshape(shape),)


def _run_fused(
    fused: FusedPlan, flats: Sequence[Tensor | None], _step: int, _journal: Journal | None
) -> Sequence[Tensor]:
    return fused.run(flats)
