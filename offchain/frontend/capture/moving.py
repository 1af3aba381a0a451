"""Moving parts: what every step changes in Python's memory, and a later step may decide by.

A counter shows in no graph as long as nothing comes of it: `if self.calls > 1000` is one way for a
thousand steps. So a step that keeps changing such parts is traced again: with watched numbers far
from where they are, with longer lists, and with each decision by such a number taken the other way.
All these have to be the same step, with the same effects. What can't be watched is refused.
"""

import warnings
from collections import defaultdict
from collections.abc import (
    Collection,
    Iterator,
    Mapping,
    MutableMapping,
    MutableSequence,
    Sequence,
)
from typing import Any, NamedTuple

import numpy as np
import torch
from torch._subclasses.fake_tensor import FakeTensor

from moot.offchain.errors import CaptureError
from moot.offchain.frontend.capture.contents import Part, is_equal_data, write_part
from moot.offchain.frontend.capture.keeping import Memory, remember_parts
from moot.offchain.frontend.capture.watched import ADVICE, FAR, Watch, is_number, watch_number
from moot.offchain.frontend.lowering.graph import refusal
from moot.offchain.frontend.subject import Subject
from moot.offchain.frontend.tracing import Record, record
from moot.offchain.text import show


class Step(NamedTuple):
    """A step that can be traced again and again.

    Attributes:
        subject: its subject.
        state: its state by name.
        batch: its batch.
        memory: the model's tensors as they were at first.
    """

    subject: Subject
    state: Mapping[str, torch.Tensor]
    batch: Sequence[torch.Tensor]
    memory: Memory


class Moved(NamedTuple):
    """A part that a step has changed.

    Attributes:
        part: the part as it is.
        before: its value before the step.
    """

    part: Part
    before: Any


class _Run(NamedTuple):
    """A tracing with watched numbers.

    Attributes:
        watch: what was seen of them.
        record: the step; None where it fails.
        effects: what else it has changed, by path.
    """

    watch: Watch
    record: Record | None
    effects: dict[str, Any]

    def is_like(self, seen: Record) -> bool:
        """Return whether the step is one that was traced before."""
        return self.record is not None and seen.find_difference(self.record) is None


def refuse_moving(step: Step, seen: Record, before: Memory) -> None:
    """Refuse a step that may decide by what it changes every time.

    Args:
        step: the step, as two tracings have left Python's memory.
        seen: the second of these tracings.
        before: Python's memory before that.

    Raises:
        CaptureError: it may.
    """
    for change in before.list_changed_settings():
        raise _refuse(change.path, change.before, change.after)
    before.forget(lambda value: _is_traced(value) and not seen.depends_on_inputs(value))
    now = remember_parts(step.subject)
    moved = list(_list_moved(before, now))
    if not moved:
        return
    for part, value in moved:
        if not _is_watchable(part):
            raise _refuse(part.path, value, part.value)
    stale = {id(part.value): part.path for part in now.list_parts() if _is_traced(part.value)}
    plain = _run(step, stale, moved, Watch())
    is_same = plain.is_like(seen)
    for number, (path, line) in enumerate(plain.watch.decisions):
        turned = _run(step, stale, moved, Watch(number))
        if turned.is_like(seen) is not is_same or turned.effects != plain.effects:
            raise _blame(moved, path, line)
    if not is_same:
        part, value = moved[0]
        raise _refuse(part.path, value, part.value)


def _list_moved(before: Memory, now: Memory) -> Iterator[Moved]:
    """Yield the parts that are not what they were, and may count something.

    A part is the one that the same holder had; or, where the holder is another, the only one of its
    path, which several parts may share (a module's `__dict__` and that of its wrapped `forward`).
    """
    places = defaultdict(list)
    for part in before.list_parts():
        places[_get_place(part)].append(part)
    for part in now.list_parts():
        found = places[_get_place(part)]
        same = [it for it in found if it.holder is part.holder] or found
        value = same[0].value if len(same) == 1 else None
        if value is not None and _is_moved(value, part.value, is_whole=part.key is None):
            yield Moved(part, value)


def _get_place(part: Part) -> tuple[str, bool]:
    return part.path, part.key is None


def _is_moved(before: Any, now: Any, *, is_whole: bool) -> bool:
    """Return whether a value is another number, text or array, or has more elements than before."""
    if is_whole and isinstance(now, np.ndarray):
        return isinstance(before, np.ndarray) and not np.array_equal(before, now)
    if is_whole and isinstance(now, (MutableSequence, MutableMapping, set)):
        return isinstance(before, Collection) and len(now) > len(before) > 0
    if is_number(now):
        return is_number(before) and not is_equal_data(before, now) and bool(now != before)
    return isinstance(now, (str, bytes)) and isinstance(before, type(now)) and now != before


def _is_watchable(part: Part) -> bool:
    """Return whether a number can be set to a watched one, or a list be made longer."""
    if is_number(part.value):
        return part.key is not None and not isinstance(part.holder, tuple)
    return isinstance(part.holder, MutableSequence) and part.key is None


def _is_traced(value: Any) -> bool:
    return isinstance(value, FakeTensor)


def _run(step: Step, stale: Mapping[int, str], moved: Sequence[Moved], watch: Watch) -> _Run:
    """Trace a step with watched numbers; Python's memory and the model are as they were then."""
    memory = remember_parts(step.subject)
    step.memory.restore_tensors()
    for part, _ in moved:
        if is_number(part.value):
            write_part(part.holder, part.key, watch_number(watch, part.path, part.value))
        else:
            part.holder.extend([part.holder[-1]] * FAR)
    places = {part.path for part, _ in moved}
    made = None
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # they were heard at the first tracing
            made = record(step.subject, step.state, step.batch, stale)
    except Exception:  # noqa: BLE001 - what the user's code makes of numbers that are far
        made = None
    finally:
        changed = memory.list_changed_objects()
        memory.restore()
        step.memory.restore_tensors()
    if watch.refused is not None:
        raise watch.refused
    effects = {it.path: _describe(it.after) for it in changed if it.path not in places}
    return _Run(watch, made, effects)


def _describe(value: Any) -> Any:
    """Return plain data as it is, and of anything else its type."""
    return value if is_equal_data(value, value) else type(value).__name__


def _refuse(path: str, before: Any, now: Any) -> CaptureError:
    said = f"every step changes it, as from {show(before)} to {show(now)}, and may depend on it"
    return refusal(f"{said}; keep it out of the step, or register it as a buffer", path, "")


def _blame(moved: Sequence[Moved], path: str, line: str) -> CaptureError:
    """Return the error that names a number by which a step decides, and where."""
    part, before = next(it for it in moved if it.part.path == path)
    said = f"a step changes it from {show(before)} to {show(part.value)}, and decides by it"
    return refusal(f"{said}; {ADVICE}", path, line)
