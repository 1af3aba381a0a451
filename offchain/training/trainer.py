"""A trainer: it runs a task in a folder, goes on where it was, and claims what has come out.

in-use                    held by the one process that trains there
notes/training.json       what is trained, for whoever goes on
notes/run.json            the checkpoints that are there
notes/logs-<steps>.json   the roots of the logs of the steps before a checkpoint
<kind>/<root>             everything else: a store, which anybody may have
"""

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from functools import cached_property
from pathlib import Path
from typing import Any

from moot.offchain.arithmetic.logged import LOGGED
from moot.offchain.backends.table import DEFAULT
from moot.offchain.commitments.tensors import Array, TensorCommitment
from moot.offchain.commitments.tree import Digest
from moot.offchain.datastore.disk import reporting
from moot.offchain.datastore.objects import HISTORIES
from moot.offchain.errors import DamagedFile, StoreError, UsageError
from moot.offchain.files import held_alone, make_folder
from moot.offchain.programs.roots import ProgramTree
from moot.offchain.programs.rounding.entries import StepLog
from moot.offchain.programs.rounding.journals import Journal, Writing
from moot.offchain.programs.rounding.roots import add_slot
from moot.offchain.providers.audit import Audit
from moot.offchain.providers.behaviour import Behaviour
from moot.offchain.providers.catalogue import ALL_CHEATS
from moot.offchain.providers.cheats.reading import read_cheat
from moot.offchain.providers.logs import agree_on_log_roots
from moot.offchain.providers.publication import load_task, put_log, put_task
from moot.offchain.providers.run import Progress, Run
from moot.offchain.providers.setting import check_workers
from moot.offchain.providers.store import Store
from moot.offchain.providers.task import Task
from moot.offchain.training.claim import Claim, put_claim

IN_USE, PLAN = "in-use", "training"
PUBLISHED_FILE = "published.json"
"""The file that says of a folder that it was trained by the published method."""


class Trainer(Run):
    """The run of a trainer, which writes the log of each step where its arithmetic has logs.

    Arguments and errors are those of `Run`; the task has no logs.
    """

    @property
    def _is_logged(self) -> bool:
        return self.task.program.arithmetic == LOGGED

    @cached_property
    def _journals(self) -> dict[int, Writing]:
        """The journals of the steps since the last checkpoint."""
        return {}

    @cached_property
    def _agreed_root(self) -> Digest:
        """The root of the program with the slot for the roots of its logs."""
        return ProgramTree(add_slot(self.task.program)).header.root

    def find_log(self, step: int) -> StepLog | None:
        """Return the log of a step, once it is written."""
        return self._journals[step].log if step in self._journals else None

    def begin_journal(self, step: int) -> Journal | None:
        """Return the journal in which a step is written, or the one that reads what was written."""
        if not self._is_logged or step in self._journals:
            return super().begin_journal(step)
        self._journals[step] = Writing()
        return self._journals[step]

    def make_step(self, step: int, state: list[Array], audit: Audit | None) -> None:
        """Run a step; an audited one is run once before, to write its log."""
        if self._is_logged and audit is not None and step in audit.drawn:
            self._advance(step, state)
        super().make_step(step, state, audit)

    def keep_checkpoint(
        self,
        state: Sequence[Array],
        tensor_roots: Sequence[Digest],
        made: dict[Digest, TensorCommitment],
        roots: Sequence[Digest],
    ) -> None:
        """Write the logs of an interval, and then the state at its end."""
        if self._is_logged:
            done = self.task.checkpoints[len(roots) - 1]
            names = [self._put_log(step).hex() for step in self._list_steps(done)]
            self._store.put_json(_name_logs(done), names)
        super().keep_checkpoint(state, tensor_roots, made, roots)

    def _list_steps(self, done: int) -> range:
        """Return the steps of the interval that ends in a checkpoint."""
        return range((done - 1) // self.task.checkpoint_every * self.task.checkpoint_every, done)

    def _put_log(self, step: int) -> Digest:
        """Publish the log of a step, and forget it."""
        log, operators = self._journals.pop(step).log, len(self.task.program.nodes)
        return put_log(self._store, self._agreed_root, operators, step, log)

    def agree(self) -> Task:
        """Return the task with the logs that were written, all of which are in the folder.

        Raises:
            DamagedFile: what was noted of them is damaged; train again in another folder.
        """
        if not self._is_logged:
            return self.task
        roots: list[Digest] = []
        for done in self.task.checkpoints:
            noted = self._store.get_json(_name_logs(done))
            if noted is None:
                path = self._store.path / "notes" / f"{_name_logs(done)}.json"
                raise DamagedFile(path, "it is missing; train again, in another folder")
            roots += map(bytes.fromhex, noted)
        return agree_on_log_roots(self.task, roots)


def _name_logs(done: int) -> str:
    return f"logs-{done}"


@contextmanager
def holding(folder: Path) -> Iterator[None]:
    """Keep a training's folder, which is made, for one process.

    Raises:
        UsageError: another process trains there.
        StoreError: it cannot be written.
    """
    with ExitStack() as stack:
        with reporting(folder):
            make_folder(folder)
            is_ours = stack.enter_context(held_alone(folder / IN_USE))
        if not is_ours:
            raise UsageError(f"another process trains in {folder}; choose another folder, or wait")
        yield


def begin(store: Store, task: Task, behaviour: Behaviour) -> None:
    """Publish a task, which has no logs yet, and note that it is trained in the folder."""
    put_task(store, task)
    plan = {
        "program": task.commitment.header.root.hex(),
        "start": task.start_root.hex(),
        "data": task.data_root.hex(),
        "steps": task.steps,
        "checkpoint_every": task.checkpoint_every,
        "behaviour": behaviour.describe(),
    }
    store.put_json(PLAN, plan)


def resume(store: Store) -> tuple[Task, Behaviour] | None:
    """Return what is trained in a folder, from the folder alone; None if nothing is.

    Raises:
        UsageError: its trainer is a cheat out of a file.
        StoreError: something of it is missing or damaged.
    """
    plan: dict[str, Any] | None = store.get_json(PLAN)
    if plan is None:
        return None
    try:
        program, start, data = (bytes.fromhex(plan[it]) for it in ("program", "start", "data"))
        steps, every, told = (plan[name] for name in ("steps", "checkpoint_every", "behaviour"))
    except (KeyError, TypeError, ValueError) as error:
        raise StoreError(f"{store.path} describes no training of this version") from error
    behaviour = _read_behaviour(told)
    return load_task(store, (program, start, data), steps, every), behaviour


def _read_behaviour(told: str) -> Behaviour:
    """Return what a trainer does, as its folder says; no code runs that only the folder names."""
    if told == Behaviour().describe():
        return Behaviour()
    if told.partition(":")[0] not in ALL_CHEATS:
        raise UsageError("a training by a cheat of your own does not go on; begin another folder")
    return read_cheat(told)


def train(
    store: Store,
    task: Task,
    behaviour: Behaviour | None = None,
    *,
    threads: int | None = None,
    backend: str = DEFAULT,
    workers: int = 1,
    progress: Progress | None = None,
) -> Claim:
    """Run what is left of a training, publish all of it, and return the claim.

    Drawn elements of drawn steps are compared with their definition meanwhile, unless the trainer
    cheats.

    Args:
        store: the folder, in which it was begun.
        task: what is trained, without logs.
        behaviour: what the trainer does differently, as it was drawn.
        threads: threads of the kernels; the results do not depend on it.
        backend: the name of what computes; they don't depend on that either.
        workers: processes that share out each batch; nor on that.
        progress: called with the number of steps that are done.

    Raises:
        UsageError: the arithmetic can't be computed so.
        WrongComputation: this machine computes something else than is defined.
        StoreError: the disk fails, or the folder holds another run.
    """
    check_workers(workers, task.program.arithmetic.name)
    cheat = behaviour or Behaviour()
    trainer = Trainer(task, cheat, store, threads, backend, workers)
    trainer.compute(progress, audit=Audit if type(cheat) is Behaviour else None)
    agreed = trainer.agree()
    put_task(store, agreed)
    store.put_roots(HISTORIES, trainer.roots)
    return put_claim(store, agreed, trainer.history_root)
