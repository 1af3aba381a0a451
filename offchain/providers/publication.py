"""A job in a data store: all that its terms on the chain commit to, by the roots in them.

So nothing else has to be told: whoever has a job's terms and a store's address finds its program,
its start and its batches, verifies each, and runs none of the client's code.
"""

from collections.abc import Sequence

from contracts.model.types import Terms
from offchain.arithmetic.logged import LOGGED
from offchain.arithmetic.table import ARITHMETICS
from offchain.commitments.keccak import keccak256
from offchain.commitments.tensors import Array
from offchain.commitments.tree import Digest
from offchain.datastore.objects import (
    BATCHES,
    LOGS,
    compute_batches_root,
)
from offchain.datastore.store import DataStore
from offchain.errors import CommitmentError, LogError, NotInStore, WrongLog
from offchain.programs.graph import Program
from offchain.programs.roots import ProgramHeader
from offchain.programs.rounding.entries import decode_log, encode_log
from offchain.programs.rounding.roots import LogTree, has_slot
from offchain.providers.logs import read_logs
from offchain.providers.task import Task

MAX_LOG_BYTES = 1 << 26
"""More than the log of any step has that trained in a day."""


class StoredBatches:
    """The batches of a job, as a store's folder has them: called with a step, it reads its batch.

    Args:
        store: the store.
        program: the job's program.
        roots: the roots of all batches' tensors.
    """

    def __init__(self, store: DataStore, program: Program, roots: Sequence[Digest]) -> None:
        self._store, self._slots, self._roots = store, program.batch, roots

    def __call__(self, step: int) -> list[Array]:
        """Return the batch of a step."""
        first = step * len(self._slots)
        roots = self._roots[first : first + len(self._slots)]
        return [*map(self._store.get_tensor, roots, self._slots)]


def put_task(store: DataStore, task: Task) -> None:
    """Publish a task: put all that its job's terms commit to into a store."""
    root = store.put_program(task.program)
    made = {commitment.root: commitment for commitment in task.start_commitments}
    store.put_state(task.initial_state, task.start_roots, made)
    if task.program.batch:
        tensors = (array for step in range(task.steps) for array in task.batch(step))
        store.put_roots(BATCHES, store.put_tensors(tensors))
    for step, log in enumerate(task.logs or ()):
        name = _name_log(root, step, LogTree(log, len(task.program.nodes)).root)
        store.put_bytes(LOGS, name, encode_log(log, root, step))


def get_task(store: DataStore, terms: Terms) -> Task:
    """Return the task of a job, all of which is then in the store's folder and on the disk.

    Raises:
        NotInStore: something is not published.
        WrongContent: something else is published.
        StoreError: the store or the disk fails, or there is no room.
        LogError: the job needs logs, and its program has no slot for their roots.
    """
    program = get_program(store, terms)
    start = store.get_state(terms.start_root, program.state)
    count = terms.steps * len(program.batch)
    store.disk.require_room(32 * count, f"the roots of {count:,} tensors of batches")
    roots: Sequence[Digest] = ()
    if count:
        roots = store.get_roots(BATCHES, compute_batches_root(count, terms.data_top), count)
        store.fetch_tensors(roots, program.batch * terms.steps)
    batch = StoredBatches(store, program, roots)
    task = Task(program, start, batch, terms.steps, terms.checkpoint_every)
    if program.arithmetic != LOGGED:
        return task
    if not has_slot(program):
        raise LogError("the program has no slot for the roots of its logs; ask for another one")
    return read_logs(task, [_get_log(store, task, step) for step in range(task.steps)])


def get_program(store: DataStore, terms: Terms) -> Program:
    """Return a job's program; the terms bind its arithmetic, but do not name it.

    Raises:
        NotInStore: it is not published.
        WrongContent: something else is published.
        StoreError: the store or the disk fails.
    """
    missing: list[str] = []
    for arithmetic in ARITHMETICS.values():
        header = ProgramHeader(
            arithmetic,
            terms.operators,
            terms.state_slots,
            terms.batch_slots,
            terms.layout,
            terms.program_top,
        )
        try:
            slots = terms.state_slots + terms.batch_slots
            return store.get_program(header.root, terms.operators, slots)
        except NotInStore as error:
            missing.append(error.name)
    raise NotInStore(store.url, f"the job's program ({' or '.join(missing)})", "there is none")


def _get_log(store: DataStore, task: Task, step: int) -> bytes:
    """Return the file of a step's rounding log, whose root the step's batch holds."""
    program, root = task.program, task.commitment.header.root
    log_root = task.batch(step)[-1].tobytes()

    def check(data: bytes) -> None:
        try:
            log = decode_log(data, program, root, step)
        except WrongLog as error:
            raise CommitmentError(error.problem) from error
        if LogTree(log, len(program.nodes)).root != log_root:
            raise CommitmentError("it is another log")

    return store.get_bytes(LOGS, _name_log(root, step, log_root), MAX_LOG_BYTES, check)


def _name_log(program: Digest, step: int, log: Digest) -> Digest:
    """Return what names the file of a log, which says its program and its step."""
    return keccak256(program + step.to_bytes(8, "big") + log)
