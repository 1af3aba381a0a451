"""An auditor: it runs intervals of a training again, each from the trainer's own checkpoint.

An interval begins with a state that the trainer has committed to, and has to end with the next one.
So any share of the intervals can be audited, in any order, and each by somebody else. The first
that differs is where the trainer has claimed something else than the program, or the log, says.
"""

import secrets
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from random import Random
from typing import Any

import numpy as np

from moot.offchain.backends.table import DEFAULT
from moot.offchain.commitments.tensors import (
    Array,
    compute_state_root,
    compute_tensor_root,
    encode_elements,
)
from moot.offchain.commitments.tree import Digest
from moot.offchain.datastore.objects import STATES
from moot.offchain.datastore.store import DataStore
from moot.offchain.errors import DamagedFile, NotInStore, UsageError
from moot.offchain.execution.executor import Executor
from moot.offchain.programs.rounding.journals import Reading
from moot.offchain.providers.store import Store
from moot.offchain.providers.task import Task
from moot.offchain.training.claim import Claim, get_checkpoints

Report = Callable[[int, int], None]
"""Called with the number of steps that are done, and that of all that are to be done."""


@dataclass(frozen=True, slots=True)
class Difference:
    """The first difference between what was claimed and what comes out.

    Attributes:
        first_step: the first step of the interval in which it is made.
        last_step: the last one, after which the states differ.
        tensor: the first tensor of the state that differs, by its name; None where the trainer has
            not kept the state that it claims.
        element: its first element that differs.
        claimed: that element as it was claimed, its bits in hexadecimal.
        found: as it comes out here.
        tensors: how many tensors differ.
        elements: how many elements of them.
    """

    first_step: int
    last_step: int
    tensor: str | None = None
    element: int = 0
    claimed: str = ""
    found: str = ""
    tensors: int = 0
    elements: int = 0


@dataclass(frozen=True, slots=True)
class Verdict:
    """What an audit has found.

    Attributes:
        claim: what names the claim.
        intervals: the numbers of the intervals that were audited, ascending, up to the first that
            differs.
        of: how many intervals the training has.
        steps: how many steps were run again.
        corrections: for how many results the log said otherwise than the auditor's own rounding.
        void: how many entries of the logs lie outside the band, and mean nothing.
        difference: the first difference; None if there is none.
    """

    claim: Digest
    intervals: tuple[int, ...]
    of: int
    steps: int
    corrections: int
    void: int
    difference: Difference | None

    @property
    def is_right(self) -> bool:
        """Whether all that was audited is as it was claimed."""
        return self.difference is None


class Auditor:
    """An auditor of one training.

    Args:
        store: where the training is published, with a folder for what comes from elsewhere.
        claim: what is claimed of it.
        task: what was trained, as `get_claimed_task` returns it.
        notes: the auditor's folder, in which it notes what was audited; None to note nothing.
        threads: threads of the kernels; the results do not depend on it.
        backend: the name of what computes; they don't depend on that either.

    Raises:
        NotInStore, WrongContent, StoreError: the checkpoints are not published, or others are.
    """

    def __init__(
        self,
        store: DataStore,
        claim: Claim,
        task: Task,
        notes: Store | None = None,
        threads: int | None = None,
        backend: str = DEFAULT,
    ) -> None:
        self._store, self.claim, self._notes = store, claim, notes
        self._checkpoints = get_checkpoints(store, claim)
        self._task = task
        self._executor = Executor(self._task.prepare(backend), threads, backend)
        self._noted = self._read_notes()
        self._state: tuple[int, list[Array]] | None = None
        self._last = [0, 0]

    def draw(self, share: float, seed: int | None = None) -> list[int]:
        """Return drawn intervals, at least one; those that were drawn before of the same share.

        Args:
            share: of all intervals, above 0 and at most 1.
            seed: what is drawn from, by default what the trainer can't know.
        """
        key = f"{share} {'' if seed is None else seed}"
        if key not in self._noted["drawn"]:
            self._noted["drawn"][key] = draw_intervals(self.claim.intervals, share, seed)
            self._write_notes()
        found: list[int] = self._noted["drawn"][key]
        return found

    def audit(
        self, intervals: Sequence[int] | None = None, report: Report | None = None
    ) -> Verdict:
        """Run intervals again, by default all, and return what was found; stop at a difference.

        Intervals that were audited before, as the folder's notes say, are not run again.

        Args:
            intervals: their numbers, from 0.
            report: called after every step.

        Raises:
            UsageError: there is no such interval, or the trainer has not kept its start.
            StoreError: what the trainer has published can't be had.
        """
        chosen = sorted({*(range(self.claim.intervals) if intervals is None else intervals)})
        require_intervals(chosen, self.claim.intervals)
        total = sum(len(self._list_steps(it)) for it in chosen)
        done = 0
        for place, interval in enumerate(chosen):
            steps = self._list_steps(interval)
            if str(interval) not in self._noted["equal"]:
                before = done

                def advance(count: int, before: int = before) -> None:
                    if report is not None:
                        report(before + count, total)

                found = self._audit(interval, advance)
                if found is not None:
                    return self._make_verdict(chosen[: place + 1], found)
            done += len(steps)
            if report is not None:
                report(done, total)
        return self._make_verdict(chosen, None)

    def _make_verdict(self, intervals: Sequence[int], difference: Difference | None) -> Verdict:
        known = [self._noted["equal"].get(str(it), self._last) for it in intervals]
        return Verdict(
            self.claim.digest,
            tuple(intervals),
            self.claim.intervals,
            sum(len(self._list_steps(it)) for it in intervals),
            sum(counts[0] for counts in known),
            sum(counts[1] for counts in known),
            difference,
        )

    def _list_steps(self, interval: int) -> range:
        first = interval * self.claim.checkpoint_every
        return range(first, min(first + self.claim.checkpoint_every, self.claim.steps))

    def _audit(self, interval: int, advance: Callable[[int], None]) -> Difference | None:
        """Run an interval, note that it is right, or return how it differs."""
        state, steps = self._get_start(interval), self._list_steps(interval)
        self._last = [0, 0]
        for step in steps:
            journal = None if self._task.logs is None else Reading(self._task.logs[step])
            self._executor.advance(state, self._task.batch(step), step, journal=journal)
            if journal is not None:
                self._last = [
                    self._last[0] + journal.corrections,
                    self._last[1] + len(journal.void),
                ]
            advance(step - steps.start + 1)
        ended = [np.asarray(tensor) for tensor in state]
        roots = [compute_tensor_root(tensor) for tensor in ended]
        if compute_state_root(roots) != self._checkpoints[interval]:
            return self._describe(interval, ended, roots)
        self._state = interval + 1, state
        self._noted["equal"][str(interval)] = self._last
        self._write_notes()
        return None

    def _get_start(self, interval: int) -> list[Array]:
        """Return the state before an interval: what was just computed, or the trainer's."""
        if interval == 0:
            return list(self._task.initial_state)
        if self._state is not None and self._state[0] == interval:
            return self._state[1]
        try:
            return self._store.get_state(self._checkpoints[interval - 1], self._task.program.state)
        except NotInStore as error:
            step = self._list_steps(interval).start
            raise UsageError(
                f"interval {interval} can't be audited by itself: the state after {step} steps was "
                f"not kept ({error}); audit from one that was, or all"
            ) from error

    def _describe(
        self, interval: int, ended: Sequence[Array], roots: Sequence[Digest]
    ) -> Difference:
        """Return where a state differs from the one that was claimed, which is fetched for that."""
        steps, slots = self._list_steps(interval), self._task.program.state
        place = Difference(steps.start, steps.stop - 1)
        try:
            claimed = self._store.get_roots(STATES, self._checkpoints[interval], len(slots))
            differing = [i for i in range(len(slots)) if claimed[i] != roots[i]]
            theirs = {i: self._store.get_tensor(claimed[i], slots[i]) for i in differing}
        except NotInStore:
            return place
        wrong = [_find_differing(ended[i], theirs[i]) for i in differing]
        first, element = differing[0], int(wrong[0][0])
        return Difference(
            place.first_step,
            place.last_step,
            slots[first].name,
            element,
            _show_bits(theirs[first], element),
            _show_bits(ended[first], element),
            len(differing),
            sum(map(len, wrong)),
        )

    def _read_notes(self) -> dict[str, Any]:
        """Return what was noted before of this claim; nothing where the note is damaged."""
        nothing: dict[str, Any] = {"equal": {}, "drawn": {}}
        if self._notes is None:
            return nothing
        try:
            return self._notes.get_json(self._note_name) or nothing
        except DamagedFile:
            return nothing

    def _write_notes(self) -> None:
        if self._notes is not None:
            self._notes.put_json(self._note_name, self._noted)

    @property
    def _note_name(self) -> str:
        return f"audit-{self.claim.digest.hex()}"


def draw_intervals(count: int, share: float, seed: int | None = None) -> list[int]:
    """Return a drawn share of so many intervals, at least one, ascending.

    Args:
        count: how many there are.
        share: of them, above 0 and at most 1.
        seed: what is drawn from; by default what nobody can know.
    """
    source = Random(secrets.randbits(256) if seed is None else seed)  # noqa: S311 - it makes no key
    return sorted(source.sample(range(count), max(1, round(share * count))))


def require_intervals(chosen: Iterable[int], count: int) -> None:
    """Refuse intervals of which there are none (`UsageError`)."""
    for interval in chosen:
        if not 0 <= interval < count:
            raise UsageError(f"there is no interval {interval}; choose from 0 to {count - 1}")


def _find_differing(mine: Array, theirs: Array) -> Array:
    """Return the elements in which two tensors differ as they are committed to."""
    one, other = (encode_elements(x).reshape(-1, mine.itemsize) for x in (mine, theirs))
    return np.flatnonzero((one != other).any(axis=1))


def _show_bits(tensor: Array, element: int) -> str:
    """Return the bits of an element, which is kept with the lowest byte first."""
    chosen = encode_elements(tensor.reshape(-1)[element : element + 1])
    return "0x" + chosen.tobytes()[::-1].hex()
