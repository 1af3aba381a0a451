"""A job in a data store: all that its terms on the chain commit to, by the roots in them.

So nothing else has to be told: whoever has a job's terms and a store's address finds its program,
its start and its batches, verifies each, and runs none of the client's code.
"""

from collections.abc import Sequence
from dataclasses import replace

from moot.contracts.model.types import Terms
from moot.offchain.arithmetic.logged import LOGGED
from moot.offchain.arithmetic.table import ARITHMETICS
from moot.offchain.commitments.keccak import keccak256
from moot.offchain.commitments.tensors import compute_data_root, compute_tensor_root
from moot.offchain.commitments.tree import Digest
from moot.offchain.datastore.objects import (
    BATCHES,
    LOGS,
    RULES,
    compute_batches_root,
    name_object,
)
from moot.offchain.datastore.rules import MAX_RULE_BYTES, decode_rule, encode_rule
from moot.offchain.datastore.store import DataStore
from moot.offchain.errors import CommitmentError, LogError, NotInStore, WrongContent, WrongLog
from moot.offchain.programs.graph import Program, Slot
from moot.offchain.programs.limits import MAX_OPERATORS, MAX_SLOTS
from moot.offchain.programs.roots import ProgramHeader
from moot.offchain.programs.rounding.entries import StepLog, decode_log, encode_log
from moot.offchain.programs.rounding.roots import LogTree, has_slot
from moot.offchain.providers.batches import RuledBatches, StoredBatches
from moot.offchain.providers.logs import read_logs
from moot.offchain.providers.task import Task

MAX_LOG_BYTES = 1 << 26
"""More than the log of any step has that trained in a day."""


def put_task(store: DataStore, task: Task) -> None:
    """Publish a task: put all that its job's terms commit to into a store."""
    root = store.put_program(task.program)
    made = {commitment.root: commitment for commitment in task.start_commitments}
    store.put_state(task.initial_state, task.start_roots, made)
    if isinstance(task.batch, RuledBatches):
        _put_rule(store, task.batch, task.data_root)
    elif task.program.batch:
        tensors = (array for step in range(task.steps) for array in task.batch(step))
        store.put_roots(BATCHES, store.put_tensors(tensors))
    for step, log in enumerate(task.logs or ()):
        put_log(store, root, len(task.program.nodes), step, log)


def put_log(store: DataStore, program: Digest, operators: int, step: int, log: StepLog) -> Digest:
    """Publish the log of a step of a program with so many operators, and return the log's root."""
    root = LogTree(log, operators).root
    store.put_bytes(LOGS, _name_log(program, step, root), encode_log(log, program, step))
    return root


def _put_rule(store: DataStore, batches: RuledBatches, root: Digest) -> None:
    """Publish batches by the rule that makes them, and its dataset."""
    store.put_dataset(batches.columns, batches.dataset)
    store.put_bytes(RULES, root, encode_rule(batches.rule))


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
    batch = get_batches(store, program, terms)
    task = Task(program, start, batch, terms.steps, terms.checkpoint_every)
    if program.arithmetic != LOGGED:
        return task
    require_slot(program)
    return read_logs(task, [get_log(store, task, step) for step in range(task.steps)])


def load_task(
    store: DataStore,
    roots: tuple[Digest, Digest, Digest],
    steps: int,
    checkpoint_every: int,
    *,
    fetches: bool = True,
) -> Task:
    """Return a task by the roots of its program, its start and its data, without logs.

    Where nothing is to be fetched, batches that no rule makes are fetched when they are asked for.

    Raises:
        NotInStore, WrongContent, StoreError: as `get_task`.
    """
    program_root, start_root, data_root = roots
    program = store.get_program(program_root, MAX_OPERATORS, MAX_SLOTS)
    start = store.get_state(start_root, program.state)
    batch = load_batches(store, program.batch, steps, data_root, fetches=fetches)
    return Task(program, start, batch, steps, checkpoint_every)


def require_slot(program: Program) -> None:
    """Refuse a program in `logged` that has no slot for the roots of its logs (`LogError`)."""
    if not has_slot(program):
        raise LogError("the program has no slot for the roots of its logs; ask for another one")


def get_batches(store: DataStore, program: Program, terms: Terms) -> StoredBatches | RuledBatches:
    """Return the batches of a job, which are then in the store's folder: by their rule, or in full.

    Raises:
        NotInStore, WrongContent, StoreError: as `get_task`.
    """
    count = terms.steps * len(program.batch)
    root = compute_batches_root(count, terms.data_top)
    return load_batches(store, program.batch, terms.steps, root)


def load_batches(
    store: DataStore, slots: Sequence[Slot], steps: int, root: Digest, *, fetches: bool = True
) -> StoredBatches | RuledBatches:
    """Return the batches of so many steps under a root, as `get_batches` does.

    Where nothing is to be fetched, batches that no rule makes are fetched when they are asked for.
    """
    count = steps * len(slots)
    store.disk.require_room(32 * count, f"the roots of {count:,} tensors of batches")
    if not count:
        return StoredBatches(store, slots, ())
    try:
        return _get_ruled(store, slots, steps, root)
    except (NotInStore, WrongContent) as problem:
        try:
            roots = store.get_roots(BATCHES, root, count)
            if fetches:
                store.fetch_tensors(roots, [*slots] * steps)
        except NotInStore as error:
            is_ruled = isinstance(problem, WrongContent) or problem.name != name_object(RULES, root)
            raise (problem if is_ruled else error) from error
        return StoredBatches(store, slots, roots)


def _get_ruled(store: DataStore, slots: Sequence[Slot], steps: int, root: Digest) -> RuledBatches:
    """Return batches that a rule makes, once it has made all of them and they are the right ones.

    Where the folder has the rule and the roots of the batches, that was found before: each batch is
    verified when it is made.
    """
    found: list[RuledBatches] = []

    def check(data: bytes) -> None:
        rule = decode_rule(data)
        shapes = rule.check(slots, steps)
        dataset, columns = store.get_columns(rule.dataset, rule.tensors, shapes)
        batches = RuledBatches(rule, slots, dataset, columns)
        is_known = all(
            store.disk.get_size(name_object(kind, root)) is not None for kind in (RULES, BATCHES)
        )
        if is_known:
            roots = store.get_roots(BATCHES, root, steps * len(slots))
        else:
            roots = _make_roots(batches)
            if compute_data_root(roots) != root and store.drop_damaged(
                dataset[it] for it in shapes
            ):
                store.get_columns(rule.dataset, rule.tensors, shapes)
                roots = _make_roots(batches)
            if compute_data_root(roots) != root:
                raise CommitmentError("the batches that it makes are not those of the job")
            store.keep_bytes(BATCHES, root, b"".join(roots))
        found[:] = [replace(batches, roots=roots)]

    store.get_bytes(RULES, root, MAX_RULE_BYTES, check)
    return found[0]


def _make_roots(batches: RuledBatches) -> list[Digest]:
    """Return the roots of all batches' tensors, which are made one after another."""
    steps = range(batches.rule.steps)
    return [compute_tensor_root(array) for step in steps for array in batches(step)]


def get_program(store: DataStore, terms: Terms) -> Program:
    """Return a job's program; the terms bind its arithmetic, but do not name it.

    Raises:
        NotInStore: it is not published.
        WrongContent: something else is published.
        StoreError: the store or the disk fails.
    """
    missing: list[str] = []
    slots = terms.state_slots + terms.batch_slots
    for header in list_headers(terms):
        try:
            return store.get_program(header.root, terms.operators, slots)
        except NotInStore as error:
            missing.append(error.name)
    raise NotInStore(store.url, f"the job's program ({' or '.join(missing)})", "there is none")


def list_headers(terms: Terms) -> list[ProgramHeader]:
    """Return what a job says about its program, in each arithmetic that it may be in."""
    counts = (terms.operators, terms.state_slots, terms.batch_slots)
    return [
        ProgramHeader(arithmetic, *counts, terms.layout, terms.program_top)
        for arithmetic in ARITHMETICS.values()
    ]


def get_log(store: DataStore, task: Task, step: int) -> bytes:
    """Return the file of a step's rounding log, whose root the step's batch holds.

    Raises:
        NotInStore: it is not published.
        WrongContent: something else is published.
    """
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
