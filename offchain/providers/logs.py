"""The rounding logs of a task in `logged`: the trainer's, and their place among what is agreed.

The trainer runs the task before it is agreed. The root of each step's log is the last tensor of the
step's batch, so that the job's terms bind the logs with the data.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace

from moot.offchain.commitments.tensors import Array
from moot.offchain.commitments.tree import Digest
from moot.offchain.errors import LogError, WrongLog
from moot.offchain.execution.executor import Executor
from moot.offchain.programs.rounding.entries import StepLog, decode_log
from moot.offchain.programs.rounding.journals import Writing
from moot.offchain.programs.rounding.roots import LogTree, add_slot, get_content, has_slot
from moot.offchain.providers.batches import RuledBatches
from moot.offchain.providers.task import Task


def write_logs(task: Task) -> list[StepLog]:
    """Run a task as its trainer does, and return the log of each step."""
    executor, state = Executor(task.preparation), list(task.initial_state)
    logs = []
    for step in range(task.steps):
        journal = Writing()
        executor.advance(state, task.batch(step), step, journal=journal)
        logs.append(journal.log)
    return logs


def read_logs(task: Task, files: Sequence[bytes | None]) -> Task:
    """Return a task with the logs that were published, whose roots its batches have to hold.

    Args:
        task: the task, without logs.
        files: the log of each step, which another party has made; None where there is none.

    Raises:
        LogError: a log is missing, is not that of its step, or has another root.
    """
    if not has_slot(task.program):
        raise LogError("the program has no slot for the roots of its logs; ask for another one")
    root, logs = task.commitment.header.root, []
    for step, data in enumerate(files):
        if data is None:
            raise WrongLog("it is missing", step)
        log = decode_log(data, task.program, root, step)
        if LogTree(log, len(task.program.nodes)).root != task.batch(step)[-1].tobytes():
            raise WrongLog("the data hold the root of another one", step)
        logs.append(log)
    return replace(task, logs=tuple(logs))


def agree_on_logs(task: Task, logs: Sequence[StepLog]) -> Task:
    """Return a task with these logs, whose program has the slot for their roots."""
    roots = [LogTree(log, len(task.program.nodes)).root for log in logs]
    return replace(agree_on_log_roots(task, roots), logs=tuple(logs))


def agree_on_log_roots(task: Task, roots: Sequence[Digest]) -> Task:
    """Return a task with logs of these roots, which are not at hand."""
    slots = len(task.program.batch) - has_slot(task.program)
    program = task.program if has_slot(task.program) else add_slot(task.program)
    contents = [get_content(root) for root in roots]

    def batch(step: int) -> Sequence[Array]:
        return [*task.batch(step)[:slots], contents[step]]

    made: Callable[[int], Sequence[Array]] = batch
    if isinstance(task.batch, RuledBatches):
        made = task.batch.add_rows(program.batch[slots], contents, slots)
    return replace(task, program=program, batch=made, logs=None)
