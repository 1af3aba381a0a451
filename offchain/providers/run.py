"""A provider's run: the states that it keeps, and the trees and tensors that disputes ask for.

The run hashes and stores the states at checkpoints only; the start is what everybody agrees on.
Intervals, traces and tensors are made again, from the latest of these before them, when somebody
disputes. A state is written while the next steps run.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from moot.offchain.backends.table import DEFAULT, get_folding
from moot.offchain.commitments.tags import Tag
from moot.offchain.commitments.tensors import (
    Array,
    TensorCommitment,
    TensorTree,
    commit_tensors,
    compute_history_root,
    compute_state_root,
)
from moot.offchain.commitments.tree import Digest, Tree
from moot.offchain.errors import DamagedFile, DeviceLost, NotInStore, StoreError
from moot.offchain.execution.executor import Executor
from moot.offchain.execution.residents import fetch_all
from moot.offchain.programs.graph import Origin, Program
from moot.offchain.programs.rounding.entries import StepLog
from moot.offchain.programs.rounding.journals import Journal, Reading
from moot.offchain.providers.audit import Audit
from moot.offchain.providers.behaviour import Behaviour
from moot.offchain.providers.recent import Recent
from moot.offchain.providers.roots import OutputRoots, TensorRoots
from moot.offchain.providers.sharing import Sharing
from moot.offchain.providers.store import Store
from moot.offchain.providers.task import Task

if TYPE_CHECKING:
    from moot.offchain.parallel.launch import Cost

Progress = Callable[[int], None]
"""Called with the number of steps that are done."""

MakeAudit = Callable[[Program, range], Audit]
"""(program, the steps that are to be run) -> their audit."""

NOTES = "run"

TREE_BYTES = 1 << 28
"""What remembered trees of a kind take: those of thousands of steps of a usual program."""

TENSOR_BYTES = 1 << 30
"""What the tensors that are remembered take, with their trees."""

LEAF_BYTES = 64
"""What a leaf takes with the nodes above it."""

REMEMBERED = 64
"""The number of states whose tensors' roots are remembered."""


class Run:
    """One provider's execution of a task, under a behaviour, on its own store.

    Args:
        task: what is agreed.
        behaviour: what the provider does differently.
        store: where its start and its checkpoints are kept.
        threads: threads of the kernels; the results do not depend on it.
        backend: the name of what computes; they don't depend on that either.
        workers: processes that share out each batch of an honest run; nor on that.
        hosts: the folder at which they wait, if torchrun has started them.

    Raises:
        UsageError, ParallelError: the batch is not one for so many workers.
    """

    def __init__(
        self,
        task: Task,
        behaviour: Behaviour,
        store: Store,
        threads: int | None = None,
        backend: str = DEFAULT,
        workers: int = 1,
        hosts: Path | None = None,
    ) -> None:
        self.task = task
        self.behaviour = behaviour
        self._store = store
        self._threads, self._backend = threads, backend
        self._sharing = None if workers == 1 else Sharing(task, workers, backend, hosts)
        behaviour.bind(task.program)
        self._program = behaviour.alter_program(task.program)
        self._executor = self._make_executor()
        self._roots: list[Digest] = []
        self._written: Future[None] | None = None
        self._tensor_roots = TensorRoots(self._executor.program, task.start_roots)
        self._recent: tuple[int, Sequence[Array]] | None = None
        self._latest: tuple[int, dict[int, Array]] | None = None
        self._traced: tuple[int, dict[int, Array]] | None = None
        self._state_roots: dict[int, Sequence[Digest]] = {0: task.start_roots}
        self._tensors = Recent(TENSOR_BYTES, _measure_tensor)
        self._traces, self._states, self._intervals = (
            Recent(TREE_BYTES, _measure_tree) for _ in range(3)
        )

    @property
    def shared(self) -> "Cost | None":
        """What it has cost to share the run out; None where it was not, or is not over."""
        return None if self._sharing is None else self._sharing.cost

    def _make_executor(self) -> Executor:
        """Return an executor, of the plans of the task where it does what they do."""
        is_shared = self._program is self.task.program
        program = self.task.prepare(self._backend) if is_shared else self._program
        return Executor(program, self._threads, self._backend)

    def compute(
        self,
        progress: Progress | None = None,
        *,
        waits: bool = True,
        audit: MakeAudit | None = None,
    ) -> None:
        """Run every step, or what is left of them, keeping the state of every checkpoint.

        Where a device is lost, the run goes on from its last checkpoint on the device as it starts
        anew.

        Args:
            progress: called after every step.
            waits: whether the last state is written when this is over, or else after `settle`.
            audit: makes the audit of the steps that are left; without one, nothing is audited.

        Raises:
            WrongComputation: the audit has found an element that is not what it is defined to be.
            DeviceLost: the device was lost twice without a checkpoint between.
        """
        lost_after = None
        while True:
            try:
                self._compute(progress, audit)
            except DeviceLost:
                if lost_after == len(self._roots):
                    raise
                lost_after = len(self._roots)
                self.task.forget(self._backend)
                self._executor = self._make_executor()
            else:
                break
        if waits:
            self.settle()

    def settle(self) -> None:
        """Wait until the latest state is written."""
        written, self._written = self._written, None
        if written is not None:
            written.result()

    def _compute(self, progress: Progress | None, make_audit: MakeAudit | None) -> None:
        """Run what is left of the steps."""
        self.settle()
        notes = self._read_notes()
        if notes["run"] != self._identity:
            raise StoreError(
                f"{self._store.path} holds another run ({notes['run']}); "
                "choose another directory, or empty this one"
            )
        self._roots = [bytes.fromhex(root) for root in notes["roots"]]
        self._recent = None  # so that its tensors may die
        done, kept = self._find_kept(self.task.steps)
        state = list(kept)
        del kept
        self._roots = self._roots[: sum(checkpoint <= done for checkpoint in self.task.checkpoints)]
        if done:
            self._tensor_roots.forget()
        self._require_room(sum(checkpoint > done for checkpoint in self.task.checkpoints))
        audit = make_audit and make_audit(self._program, range(done, self.task.steps))
        writer = ThreadPoolExecutor(1)
        try:
            for step in self._run_steps(done, state, audit):
                if step in self.task.checkpoints:
                    roots = self._remember(step, self._tensor_roots.hash(state))
                    self._roots.append(compute_state_root(roots))
                    self.settle()  # so that one state waits for the disk and no more
                    made, kept = self._tensor_roots.made, fetch_all(state)
                    self._written = writer.submit(
                        self.keep_checkpoint, kept, roots, made, [*self._roots]
                    )
                if progress is not None:
                    progress(step)
        except BaseException:
            writer.shutdown()
            raise
        writer.shutdown(wait=False)

    def _run_steps(self, done: int, state: list[Array], audit: Audit | None) -> Iterator[int]:
        """Run the steps that are left, and yield how many are done where the state is there."""
        if self._sharing is not None and type(self.behaviour) is Behaviour:
            yield from self._sharing.run(done, state, audit, self.make_step)
            return
        for step in range(done, self.task.steps):
            self.make_step(step, state, audit)
            yield step + 1

    def make_step(self, step: int, state: list[Array], audit: Audit | None) -> None:
        """Run a step, audited if it is drawn, and replace the state by the next one."""
        if audit is not None and step in audit.drawn:
            self._audit(audit, step, state)
        else:
            self._replace(step, state)

    def _require_room(self, checkpoints: int) -> None:
        """Refuse to run if so many more checkpoints do not fit on the disk."""
        sizes = [slot.elements * slot.dtype.width for slot in self.task.program.state]
        changing = sum(sizes) - sum(sizes[slot] for slot in self._tensor_roots.kept)
        needed_bytes = sum(sizes) + (checkpoints - 1) * changing if checkpoints else 0
        self._store.require_room(checkpoints, needed_bytes)

    def keep_checkpoint(
        self,
        state: Sequence[Array],
        tensor_roots: Sequence[Digest],
        made: dict[Digest, TensorCommitment],
        roots: Sequence[Digest],
    ) -> None:
        """Write the state of the latest checkpoint, and then that there are so many."""
        start = {commitment.root: commitment for commitment in self.task.start_commitments}
        self._store.put_state(state, tensor_roots, start | made)
        noted = [root.hex() for root in roots]
        self._store.put_json(NOTES, {"run": self._identity, "roots": noted})

    def _remember(self, step: int, roots: Sequence[Digest]) -> Sequence[Digest]:
        """Remember the roots of the tensors of the state before a step, for a while."""
        self._state_roots[step] = roots
        if len(self._state_roots) > REMEMBERED:
            del self._state_roots[next(iter(self._state_roots))]
        return roots

    def _hash_state(self, step: int) -> Sequence[Digest]:
        """Return the roots of the tensors of the state before a step."""
        known = self._state_roots.get(step)
        return known or self._remember(step, [it.root for it in commit_tensors(self.state(step))])

    @cached_property
    def _identity(self) -> str:
        """The text that tells this run from every other."""
        task = self.task
        roots = (task.commitment.header.root, task.start_root, task.data_root)
        every = f"a checkpoint after every {task.checkpoint_every} of {task.steps}"
        return " ".join([*(root.hex() for root in roots), every, self.behaviour.describe()])

    def _advance(self, step: int, state: Sequence[Array]) -> list[Array]:
        started = self.behaviour.alter_state(step, state)
        return self._executor.run(
            started,
            self._batch(step),
            step,
            patch=self.behaviour.patch(step, started),
            journal=self.begin_journal(step),
        )

    def find_log(self, step: int) -> StepLog | None:
        """Return the log of a step, if the arithmetic has logs and there is one already."""
        return None if self.task.logs is None else self.task.logs[step]

    def begin_journal(self, step: int) -> Journal | None:
        """Return the journal of a step, if the arithmetic has logs."""
        log = self.find_log(step)
        return None if log is None else Reading(self.behaviour.alter_log(step, log))

    def _replace(self, step: int, state: list[Array]) -> None:
        """Run a step and replace the state by the next one, which may stay on a device."""
        if type(self.behaviour) is not Behaviour:
            state[:] = fetch_all(state)  # which it may look into
        if self._is_plain(step, state):
            self._executor.advance(state, self._batch(step), step, journal=self.begin_journal(step))
        else:
            self._tensor_roots.forget()
            state[:] = self._advance(step, state)

    def _audit(self, audit: Audit, step: int, state: list[Array]) -> None:
        """Run a step with all outputs shown, for the audit, and then as ever."""
        before, batch = fetch_all(state), self._batch(step)
        audited = audit.begin(step, before, batch, self.find_log(step))
        run, journal = self._executor.run, self.begin_journal(step)
        audited.keep(run(before, batch, step, audited.observe, journal=journal))
        del before  # so that its tensors may die
        self._replace(step, state)
        audited.finish(fetch_all(state))

    def _is_plain(self, step: int, state: Sequence[Array]) -> bool:
        """Whether a step does to the state what the program says, and nothing else."""
        started = self.behaviour.alter_state(step, state)
        return started is state and self.behaviour.patch(step, state) is None

    def _batch(self, step: int) -> Sequence[Array]:
        return self.behaviour.alter_batch(step, self.task.batch(step))

    @property
    def roots(self) -> Sequence[Digest]:
        """The state roots of all checkpoints, as claimed."""
        return self.behaviour.alter_history(self._roots)

    @property
    def history(self) -> Tree:
        """The tree over the claimed history."""
        return Tree(Tag.HISTORY_NODE, self.roots)

    @property
    def history_root(self) -> Digest:
        """The root of the claimed history."""
        return compute_history_root(self.roots)

    @property
    def _kept(self) -> dict[int, Digest]:
        """The roots of the start and of the states in the store, by how many steps are done."""
        done = zip(self.task.checkpoints, self._roots, strict=False)
        return {0: self.task.start_root} | dict(done)

    def state(self, step: int) -> Sequence[Array]:
        """Return the state before a step (after the last one, for the number of steps)."""
        if self._recent is not None and self._recent[0] == step:
            return self._recent[1]
        start, kept = self._find_kept(step)
        state = list(kept)
        del kept  # so that its tensors may die
        for before in range(start, step):
            self._replace(before, state)
        self._recent = step, fetch_all(state)
        return self._recent[1]

    def _read_notes(self) -> dict[str, Any]:
        """Return what was noted of the run; nothing of what is damaged, so that it is run again."""
        nothing = {"run": self._identity, "roots": []}
        try:
            return self._store.get_json(NOTES) or nothing
        except DamagedFile:
            return nothing

    def _find_kept(self, step: int) -> tuple[int, Sequence[Array]]:
        """Return the latest state before a step that is whole, and how many steps it is after.

        What is damaged is removed, so that whoever makes it again keeps it again.
        """
        for start in sorted((it for it in self._kept if it <= step), reverse=True):
            try:
                return start, self._get_kept(start)
            except DamagedFile as error:
                error.path.unlink(missing_ok=True)
            except NotInStore:
                continue
        raise AssertionError("the start is not kept, but given")

    def _get_kept(self, step: int) -> Sequence[Array]:
        """Return the state of a checkpoint, or the start."""
        if step:
            self.settle()
        return self._store.get_state(self._kept[step]) if step else self.task.initial_state

    def interval(self, first: int) -> Tree:
        """Return the tree over the states after the steps of the interval from `first` on."""
        return self._intervals.get(first, lambda: self._make_interval(first))

    def _make_interval(self, first: int) -> Tree:
        state = list(self.state(first))
        hashed = TensorRoots(self._executor.program, self._state_roots.get(first, ()))
        roots = []
        for step in range(first, min(first + self.task.checkpoint_every, self.task.steps)):
            if not self._is_plain(step, state):
                hashed.forget()
            self._replace(step, state)
            roots.append(compute_state_root(self._remember(step + 1, hashed.hash(state))))
        return Tree(Tag.INTERVAL_NODE, roots)

    def trace(self, step: int) -> Tree:
        """Return the tree over the outputs of all operators of a step, and the state after it."""
        return self._traces.get(step, lambda: self._make_trace(step))

    def _make_trace(self, step: int) -> Tree:
        before = self.state(step)
        state = self.behaviour.alter_state(step, before)
        patch = self.behaviour.patch(step, state)
        program = self._executor.program
        old = self._hash_state(step) if state is before else []
        hashed = OutputRoots(program, patch or {}, old, self._state_roots.get(step + 1, []))
        self._traced = None  # so that its tensors may die
        kept: dict[int, Array] = {}
        journal = self.begin_journal(step)
        self._executor.run(state, self._batch(step), step, hashed.observe, patch, journal, kept)
        self._traced = step, kept
        leaves = hashed.list()
        leaves.append(compute_state_root(self._remember(step + 1, leaves[program.first_sink :])))
        return Tree(Tag.TRACE_NODE, self.behaviour.alter_trace(step, leaves))

    def state_tree(self, step: int) -> Tree:
        """Return the tree over the tensors of the state before a step."""
        return self._states.get(step, lambda: self._make_state_tree(step))

    def _make_state_tree(self, step: int) -> Tree:
        return Tree(Tag.STATE_NODE, self._hash_state(step))

    def outputs(self, step: int, operators: Sequence[int]) -> dict[int, Array]:
        """Return the outputs of some operators of a step.

        Whoever asks for an operator's output asks next for what it reads: one execution answers
        both, and the latest one is remembered. It begins with what the trace of the step has kept.
        """
        if self._latest is not None and self._latest[0] == step:
            outputs = self._latest[1]
            if outputs.keys() >= set(operators):
                return {operator: outputs[operator] for operator in operators}
        nodes = self.task.program.nodes
        wanted = {*operators, *(i for operator in operators for i in nodes[operator].inputs)}
        self._latest = None  # so that its tensors may die
        self._latest = step, self._execute(step, sorted(wanted))
        return {operator: self._latest[1][operator] for operator in operators}

    def _execute(self, step: int, operators: Sequence[int]) -> dict[int, Array]:
        state = self.behaviour.alter_state(step, self.state(step))
        patch = self.behaviour.patch(step, state)
        journal = self.begin_journal(step)
        is_traced = self._traced is not None and self._traced[0] == step
        known = self._traced[1] if self._traced is not None and is_traced else {}
        batch = self._batch(step)
        return self._executor.outputs(state, batch, step, operators, patch, journal, known)

    def tensor(self, step: int, origin: Origin, reference: int) -> TensorTree:
        """Return an operator's output, or a slot of the state or batch, with its tree."""
        key = (step, origin, reference)
        return self._tensors.get(key, lambda: self._make_tensor(step, origin, reference))

    def _make_tensor(self, step: int, origin: Origin, reference: int) -> TensorTree:
        if origin is Origin.STATE:
            return TensorTree(self.state(step)[reference])
        if origin is Origin.BATCH:
            return TensorTree(self.task.batch(step)[reference])
        return TensorTree(self.outputs(step, [reference])[reference])

    def operands(self, step: int, operator: int) -> list[Array | None]:
        """Return the tensors that an operator reads, None for its constants."""
        node = self.task.program.nodes[operator]
        outputs = self.outputs(step, node.inputs) if node.inputs else {}
        pools: dict[Origin, Mapping[int, Array] | Sequence[Array]] = {
            Origin.NODE: outputs,
            Origin.STATE: self.state(step),
            Origin.BATCH: self.task.batch(step),
        }
        return [
            None if o.origin is Origin.IMMEDIATE else pools[o.origin][o.reference]
            for o in node.operands
        ]

    def partials(self, step: int, operator: int, element: int) -> Array:
        """Return the claimed accumulators of one element of a fold, the initial one first."""
        program = self.task.program
        node, operands = program.nodes[operator], self.operands(step, operator)
        folding = get_folding(self._executor.backend, program.arithmetic)
        claimed = folding.list_partials(node, program.arithmetic, element, operands)
        return self.behaviour.alter_partials(step, operator, element, claimed)


def _measure_tree(tree: Tree) -> int:
    return LEAF_BYTES * tree.count


def _measure_tensor(tensor: TensorTree) -> int:
    return tensor.size + (_measure_tree(tensor.tree) if tensor.tree else 0)
