"""Trainings between two machines: one trains and claims, another audits what was claimed."""

from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from moot.display import Displayable
from moot.offchain.backends.table import DEFAULT, use_engine
from moot.offchain.commitments.keccak_lanes import DIGEST_BYTES
from moot.offchain.datastore.places import find_folder
from moot.offchain.datastore.store import open_store
from moot.offchain.errors import CommitmentError, UsageError
from moot.offchain.native.binary64.table import DEFAULT as OWN
from moot.offchain.programs.catalogue import NAMES
from moot.offchain.providers.behaviour import Behaviour
from moot.offchain.providers.catalogue import HONEST
from moot.offchain.providers.cheats.drawing import Draws
from moot.offchain.providers.cheats.reading import read_cheat
from moot.offchain.providers.store import Store
from moot.offchain.providers.task import Task as Agreed
from moot.offchain.training import trainer
from moot.offchain.training.auditor import (
    Auditor,
    Verdict,
    draw_intervals,
    require_intervals,
)
from moot.offchain.training.claim import get_claim, get_claimed_task
from moot.offchain.training.trainer import PUBLISHED_FILE as FILE
from moot.tasks import Task


@dataclass(frozen=True, slots=True)
class Training(Displayable):
    """A training that is over, in a folder, with what was claimed of it.

    Attributes:
        folder: where all of it is; `moot store serve` serves it to others.
        claim: what names the claim: 32 bytes.
        history_root: the root over the states of all checkpoints: 32 bytes.
        steps: how many were run.
        checkpoint_every: steps from one checkpoint to the next.

    Example:
        >>> import moot, tempfile
        >>> folder = tempfile.mkdtemp()
        >>> training = moot.train(folder, moot.Task("mlp", steps=2))
        >>> training.steps, moot.audit(folder, claim=training.claim).is_right
        (2, True)
    """

    folder: Path
    claim: bytes
    history_root: bytes
    steps: int
    checkpoint_every: int

    def to_dict(self) -> dict[str, Any]:
        """Return the values that `moot train --json` prints."""
        return {
            "folder": str(self.folder),
            "claim": self.claim.hex(),
            "history": self.history_root.hex(),
            "steps": self.steps,
            "checkpoint_every": self.checkpoint_every,
        }


@dataclass(frozen=True, slots=True)
class Audit(Verdict, Displayable):
    """What an auditor has found of a claimed training.

    `is_right` says whether all that was run again is as it was claimed.

    Attributes:
        claim: what names the claim: 32 bytes.
        intervals: the numbers of the intervals that were run again, up to the first that differs.
        of: how many intervals the training has.
        steps: how many steps were run again.
        corrections: for how many results the logs said otherwise than this machine's rounding.
        void: how many entries of the logs lie outside the band, and mean nothing.
        difference: the first difference: the interval's steps, the tensor, the element, and both
            of its values; None if there is none.

    Example:
        >>> import moot, tempfile
        >>> folder = tempfile.mkdtemp()
        >>> cheat = moot.cheats.SkippedStep(step=1)
        >>> training = moot.train(folder, moot.Task("mlp", steps=2), cheat)
        >>> moot.audit(folder).difference.last_step
        1
    """

    def to_dict(self) -> dict[str, Any]:
        """Return the values that `moot audit --json` prints."""
        return {"is_right": self.is_right} | asdict(self) | {"claim": self.claim.hex()}


def train(
    folder: str | Path,
    task: Task | None = None,
    cheat: Behaviour | str | None = None,
    *,
    seed: int = 0,
    threads: int | None = None,
    backend: str = DEFAULT,
    engine: str = OWN,
    workers: int = 1,
    progress: Callable[[int, int], None] | None = None,
) -> Training:
    """Train in a folder, which goes on where it was, and claim what has come out.

    Args:
        folder: where everything is kept; what is begun there is gone on with.
        task: what is trained; None to go on.
        cheat: what is done otherwise than agreed, to try an audit.
        seed: of what the cheat leaves to be drawn.
        threads: threads of the kernels; results do not depend on it.
        backend: what computes: `cpu`, `cuda`, or `cuda-emulator`; nor on that.
        engine: what computes in binary64, in `exact` and `logged`: `own`, `numpy`, `torch`,
            `cublas`, or `path/to/file.py:Class`, an engine of your own; it is tried first.
        workers: processes that share each batch out; nor on that.
        progress: is called with the steps that are done, and all of them.

    Raises:
        UsageError: nothing is begun there and no task is given, or another process trains there.
        StoreError: the folder can't be read or written, or holds another training.
        UnsuitableEngine: the engine errs by more than it may.
        WrongComputation: this machine computes something else than is defined.

    Example:
        >>> import moot, tempfile
        >>> folder = tempfile.mkdtemp()
        >>> training = moot.train(folder, moot.Task("mlp", steps=2))
        >>> moot.train(folder).claim == training.claim  # all of it is there
        True
    """
    return train_agreed(
        Path(folder),
        None if task is None else task.plain,
        cheat,
        seed=seed,
        threads=threads,
        backend=backend,
        engine=engine,
        workers=workers,
        progress=progress,
    )


def train_agreed(
    folder: Path,
    task: Agreed | None,
    cheat: Behaviour | str | None,
    *,
    seed: int,
    threads: int | None,
    backend: str,
    engine: str,
    workers: int,
    progress: Callable[[int, int], None] | None,
) -> Training:
    """Train a task as providers have it; arguments and errors are those of `train`."""
    if workers > 1 and engine != OWN:
        raise UsageError("workers have their own engine; leave --engine or --workers out")
    if task is not None:
        use_engine(engine, task.program.arithmetic, backend)
    with trainer.holding(folder):
        store = Store(folder)
        begun = trainer.resume(store)
        if task is not None:
            begun = _begin(store, task, cheat, seed, begun)
        if begun is None:
            raise UsageError(f"no training is begun in {folder}; give a task")
        agreed, behaviour = begun
        if task is None:
            use_engine(engine, agreed.program.arithmetic, backend)
        report = progress or _ignore
        claim = trainer.train(
            store,
            agreed,
            behaviour,
            threads=threads,
            backend=backend,
            workers=workers,
            progress=lambda done: report(done, agreed.steps),
        )
    return Training(folder, claim.digest, claim.history, claim.steps, claim.checkpoint_every)


def _begin(
    store: Store,
    agreed: Agreed,
    cheat: Behaviour | str | None,
    seed: int,
    begun: tuple[Agreed, Behaviour] | None,
) -> tuple[Agreed, Behaviour]:
    """Begin a training, unless the same one is begun; return it, and what its trainer does."""
    behaviour = Behaviour()
    if cheat is not None and cheat != HONEST:
        given = read_cheat(cheat)
        if given.posts_logs:
            raise UsageError(f"{given.name} lies by the logs of a job; try it with `moot dispute`")
        behaviour = given.draw(Draws(agreed, np.random.default_rng(seed)))
    if begun is None:
        trainer.begin(store, agreed, behaviour)
    return agreed, behaviour


def audit(
    place: str | Path,
    *,
    claim: bytes | str | None = None,
    intervals: Sequence[int] | None = None,
    share: float | None = None,
    seed: int | None = None,
    folder: str | Path | None = None,
    program: str | None = None,
    threads: int | None = None,
    backend: str = DEFAULT,
    engine: str = OWN,
    progress: Callable[[int, int], None] | None = None,
) -> Audit:
    """Run a training again, or some of its intervals, and compare the states bit for bit.

    Args:
        place: the trainer's folder, or an address at which it is served.
        claim: what names the claim, 32 bytes or their hexadecimal digits; None for the only one.
        intervals: those that are run again, by their numbers from 0; None for all.
        share: draws intervals instead: their share of all, above 0 and at most 1.
        seed: what they are drawn from; None for what the trainer can't know.
        folder: where what comes from elsewhere is kept, and what was audited: an audit goes on from
            there; None to keep nothing.
        program: what was trained by the published method, if it is no example: its code runs here.
        threads: threads of the kernels; results do not depend on it.
        backend: what computes; nor on that.
        engine: what computes in binary64, as in `train`.
        progress: is called with the steps that are done, and all that are to be done.

    Raises:
        UsageError: there is no such claim or interval, or a state was not kept.
        UnsuitableEngine: the engine errs by more than it may.
        StoreError, CommitmentError: the training can't be had, or is not what its roots say.

    Example:
        >>> import moot, tempfile
        >>> folder = tempfile.mkdtemp()
        >>> _ = moot.train(folder, moot.Task("mlp", steps=2))
        >>> moot.audit(folder, intervals=[1]).steps
        1
    """
    if share is not None and (intervals is not None or not 0 < share <= 1):
        raise UsageError("a share is above 0 and at most 1, and goes without chosen intervals")
    own = find_folder(str(place))
    if own is not None and not Path(own).is_dir():
        raise UsageError(f"{place} is no folder; `moot train {place}` makes one")
    if own is not None and (Path(own) / FILE).exists():
        drawn = intervals, share, seed
        return _audit_published(Path(own), claim, program, drawn, progress or _ignore)
    if program is not None:
        raise UsageError(f"{place} has its own program, of which no code runs; leave --program out")
    with ExitStack() as stack:
        kept = Path(folder or stack.enter_context(TemporaryDirectory(prefix="moot-")))
        if own is not None and Path(own).resolve() == kept.resolve():
            raise UsageError(f"{folder} is the trainer's; an auditor has a folder of its own")
        store = open_store(str(place), kept)
        found = get_claim(store, None if claim is None else _read_digest(claim))
        notes = Store(kept, is_durable=folder is not None)
        task = get_claimed_task(store, found)
        use_engine(engine, task.program.arithmetic, backend)
        auditor = Auditor(store, found, task, notes, threads, backend)
        chosen = intervals if share is None else auditor.draw(share, seed)
        verdict = auditor.audit(chosen, progress)
    return Audit(**{name: getattr(verdict, name) for name in Audit.__dataclass_fields__})


def _audit_published(
    folder: Path,
    claim: bytes | str | None,
    program: str | None,
    drawn: tuple[Sequence[int] | None, float | None, int | None],
    report: Callable[[int, int], None],
) -> Audit:
    """Audit a training by the published method, of which the trainer's folder has all but code."""
    intervals, share, seed = drawn
    from moot.offchain.training import published  # noqa: PLC0415 - imports torch

    found = published.Published.read(folder)
    if found is None or not found.is_whole:
        raise UsageError(f"{folder} holds no finished training; `moot train {folder}` goes on")
    named = found.plan.program
    if (program or named) != named or (program is None and named not in NAMES):
        raise UsageError(
            f"{folder} is a training of {named!r:.200}, whose code would run here; if that is what "
            "you have agreed on, give it as --program"
        )
    if claim is not None and _read_digest(claim) != found.claim:
        raise CommitmentError(f"{folder} has the claim {found.claim.hex()}, and not that one")
    count = found.plan.intervals
    chosen = [*range(count)] if intervals is None else sorted({*intervals})
    if share is not None:
        chosen = draw_intervals(count, share, seed)
    require_intervals(chosen, count)
    done, corrections, difference = published.audit(folder, found, chosen, report)
    steps = len(done) * found.plan.checkpoint_every
    return Audit(found.claim, tuple(done), count, steps, corrections, 0, difference)


def _read_digest(text: bytes | str) -> bytes:
    """Return what names a claim."""
    try:
        digest = text if isinstance(text, bytes) else bytes.fromhex(text.removeprefix("0x"))
    except ValueError:
        digest = b""
    if len(digest) != DIGEST_BYTES:
        raise UsageError(f"{text!r:.80} names no claim; give its {2 * DIGEST_BYTES} digits")
    return digest


def _ignore(_done: int, _whole: int) -> None:
    pass
