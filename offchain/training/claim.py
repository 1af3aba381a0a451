"""The claim of a trainer: one small object that commits to a training, its data and its logs.

It is a line of JSON, whose keccak names it: the roots of the program, of the start, of the data and
of the history, the number of steps, and how many there are from one checkpoint to the next. The
data of a program in `logged` hold the roots of its logs, so that the claim binds these, too.
"""

import json
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from typing import Any, Self

from moot.offchain.arithmetic.logged import LOGGED
from moot.offchain.commitments.keccak import keccak256
from moot.offchain.commitments.keccak_lanes import DIGEST_BYTES
from moot.offchain.commitments.tree import Digest
from moot.offchain.datastore.objects import HISTORIES, TRAININGS
from moot.offchain.datastore.store import DataStore
from moot.offchain.errors import CommitmentError, UsageError, WrongLog
from moot.offchain.programs.rounding.entries import StepLog, decode_log
from moot.offchain.programs.rounding.roots import add_slot
from moot.offchain.providers.logs import agree_on_logs
from moot.offchain.providers.publication import get_log, load_batches, load_task, require_slot
from moot.offchain.providers.task import Task

MAX_BYTES = 4_096
MAX_STEPS = 1 << 24
_FORMAT = "moot training 1"
_ROOTS = ("program", "start", "data", "history")
_COUNTS = ("steps", "checkpoint_every")


@dataclass(frozen=True, slots=True)
class Claim:
    """A claim about a training.

    Attributes:
        program: the root of the program of one step.
        start: the root of the state before the first step.
        data: the root of the batches of all steps.
        steps: the number of steps.
        checkpoint_every: steps from one checkpoint to the next.
        history: the root over the states of all checkpoints.
    """

    program: Digest
    start: Digest
    data: Digest
    steps: int
    checkpoint_every: int
    history: Digest

    @property
    def digest(self) -> Digest:
        """What names the claim."""
        return keccak256(self.encode())

    @property
    def intervals(self) -> int:
        """The number of intervals, each of which ends in a checkpoint."""
        return -(-self.steps // self.checkpoint_every)

    def encode(self) -> bytes:
        """Return the line that says it."""
        fields = {k: v.hex() if isinstance(v, bytes) else v for k, v in asdict(self).items()}
        return json.dumps({"format": _FORMAT, **fields}).encode() + b"\n"

    @classmethod
    def decode(cls, data: bytes) -> Self:
        """Return the claim that a line says, which another party has written.

        Raises:
            CommitmentError: it says none.
        """
        try:
            fields: dict[str, Any] = json.loads(data)
            roots: dict[str, Any] = {name: bytes.fromhex(fields[name]) for name in _ROOTS}
            counts = {name: fields[name] for name in _COUNTS}
            found = cls(**roots, **counts)
            is_right = all(type(count) is int for count in counts.values()) and (
                0 < found.checkpoint_every <= found.steps <= MAX_STEPS
                and all(len(root) == DIGEST_BYTES for root in roots.values())
                and found.encode() == data
            )
        except (ValueError, KeyError, TypeError, RecursionError):
            is_right = False
        if not is_right:
            raise CommitmentError("it is no claim about a training")
        return found


def put_claim(store: DataStore, task: Task, history: Digest) -> Claim:
    """Publish what is claimed of a task, all of which is in the store, and return it."""
    roots = task.commitment.header.root, task.start_root, task.data_root
    claim = Claim(*roots, task.steps, task.checkpoint_every, history)
    store.put_bytes(TRAININGS, claim.digest, claim.encode())
    return claim


def list_claims(store: DataStore) -> list[Digest]:
    """Return what names the claims that a store has."""
    names = (name.partition("/") for name, _ in store.list())
    return [bytes.fromhex(digest) for kind, _, digest in names if kind == TRAININGS]


def get_claim(store: DataStore, digest: Digest | None = None) -> Claim:
    """Return a claim of a store: the one of this name, or the only one that there is.

    Raises:
        UsageError: there is none, or several and no name.
        StoreError: it can't be fetched, or is another one.
    """
    if digest is None:
        names = list_claims(store)
        if not names:
            raise UsageError(f"{store.url} holds no finished training; `moot train` makes one")
        if len(names) > 1:
            some = ", ".join(name.hex()[:8] for name in names[:8])
            raise UsageError(f"{store.url} holds {len(names)} trainings ({some}); choose a --claim")
        (digest,) = names
    found = store.get_bytes(TRAININGS, digest, MAX_BYTES, partial(_check, digest))
    return Claim.decode(found)


def _check(digest: Digest, data: bytes) -> None:
    if Claim.decode(data).digest != digest:
        raise CommitmentError("it is another claim")


def get_claimed_task(store: DataStore, claim: Claim) -> Task:
    """Return what was trained, whose batches and logs are fetched when they are asked for.

    Raises:
        NotInStore, WrongContent, StoreError: it can't be had, or is another one.
        LogError: it needs logs, and its program has no slot for their roots.
    """
    roots = claim.program, claim.start, claim.data
    task = load_task(store, roots, claim.steps, claim.checkpoint_every, fetches=False)
    if task.program.arithmetic != LOGGED:
        return task
    require_slot(task.program)
    return replace(task, logs=PublishedLogs(store, task))


def adopt_logs(task: Task, store: DataStore, claim: Claim) -> Task:
    """Return a task with the logs of a training of it, which somebody else has published.

    So who wants it trained runs nothing of it: an entry of a log that the band does not allow means
    nothing, whoever has written it.

    Args:
        task: what is to be trained, in `logged`, without logs.
        store: where the training is.
        claim: what is claimed of it.

    Raises:
        UsageError: something else was trained.
        NotInStore, WrongContent, StoreError: its logs can't be had, or are others.
    """
    if claim.steps != task.steps:
        raise UsageError(f"{store.url} has {claim.steps} steps, and {task.steps} are wanted")
    program = add_slot(task.program)
    trained = replace(task, program=program)
    wanted = {"program": trained.commitment.header.root, "start": task.start_root}
    for name, root in wanted.items():
        if getattr(claim, name) != root:
            raise UsageError(f"{store.url} is not a training of this: its {name} is another")
    batch = load_batches(store, program.batch, claim.steps, claim.data, fetches=False)
    agreed = agree_on_logs(task, list(PublishedLogs(store, replace(trained, batch=batch))))
    if agreed.data_root != claim.data:
        raise UsageError(f"{store.url} is not a training of this: its data are others")
    return agreed


def get_checkpoints(store: DataStore, claim: Claim) -> list[Digest]:
    """Return the claimed roots of the states at all checkpoints."""
    return store.get_roots(HISTORIES, claim.history, claim.intervals)


class PublishedLogs(Sequence[StepLog]):
    """The logs of a training, each of which is fetched and verified when it is asked for.

    Args:
        store: where they are.
        task: what was trained.
    """

    def __init__(self, store: DataStore, task: Task) -> None:
        self._store, self._task = store, task

    def __len__(self) -> int:
        return self._task.steps

    def __iter__(self) -> Iterator[StepLog]:
        return map(self.__getitem__, range(len(self)))

    def __getitem__(self, step: int) -> StepLog:  # type: ignore[override]  # no slices are asked for
        task = self._task
        data = get_log(self._store, task, step)
        try:
            return decode_log(data, task.program, task.commitment.header.root, step)
        except WrongLog as error:  # it was verified: the folder has changed
            raise CommitmentError(str(error)) from error
