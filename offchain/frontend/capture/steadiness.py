"""Hidden state: what a step keeps for the next one outside of parameters and buffers."""

import warnings
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import torch
from torch._subclasses.fake_tensor import FakeTensor

from moot.offchain.errors import CaptureError
from moot.offchain.frontend.capture.draft import Start
from moot.offchain.frontend.capture.keeping import Change, Memory, remember_parts
from moot.offchain.frontend.capture.moving import Step, refuse_moving
from moot.offchain.frontend.lowering.graph import refusal
from moot.offchain.frontend.tracing import record
from moot.offchain.text import show

GENERATORS = ("Python's random", "numpy's random")


class Unsteadiness(NamedTuple):
    """Two tracings of a step that are two programs.

    Attributes:
        changes: what a step has changed outside, so far as it is seen.
        difference: the line that says where the two first differ.
    """

    changes: Sequence[Change]
    difference: CaptureError


def find_hidden_state(
    start: Start, memory: Memory, batch: Sequence[torch.Tensor]
) -> Unsteadiness | None:
    """Trace another step after the first; return what differs, None where nothing does.

    Args:
        start: the first step, which has left the recipe as it is.
        memory: the recipe before that.
        batch: the batch of the other step.

    Raises:
        CaptureError: the step draws from a generator that is not torch's, or reads tensors that an
            earlier step has left in attributes.
    """
    changes = memory.list_changes()
    _refuse_generators(changes)
    memory.restore_tensors()
    memory.forget(
        lambda value: isinstance(value, FakeTensor) and not start.record.depends_on_inputs(value)
    )
    stale = {id(t): path for change in changes for path, t in _list_tensors(change)}
    parts = remember_parts(start.subject) if changes else None
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # they were heard at the first tracing
        again = record(start.subject, start.state, batch, stale)
    difference = start.record.find_difference(again)
    if difference is not None:
        return Unsteadiness(changes, difference)
    if parts is not None:
        refuse_moving(Step(start.subject, start.state, batch, memory), again, parts)
    return None


def _list_tensors(change: Change) -> Iterator[tuple[str, FakeTensor]]:
    """Yield the traced tensors that a step has left behind."""
    after = change.after
    for value in after if isinstance(after, (list, tuple)) else (after,):
        if isinstance(value, FakeTensor):
            yield change.path, value


def _refuse_generators(changes: Sequence[Change]) -> None:
    for change in changes:
        is_generator = change.path in GENERATORS or _is_state(change.after)
        if is_generator:
            raise refusal(
                "the step draws random numbers from it; use torch's functions, without a generator",
                change.path,
                "",
            )


def _is_state(value: object) -> bool:
    """Return whether a value is the state of a generator."""
    return isinstance(value, dict) and "bit_generator" in value


def explain(changes: Sequence[Change], difference: CaptureError) -> CaptureError:
    """Return the error that names what a step keeps outside of the state.

    Args:
        changes: what a step has changed outside, so far as it is seen.
        difference: the line that says what differs between two tracings, or from torch.
    """
    if not changes:
        return difference
    change = next((c for c in changes if isinstance(c.after, (int, float))), changes[0])
    values = f" from {show(change.before)} to {show(change.after)}"
    message = (
        f"a step changes it{values}, and the next step depends on it; register it as a buffer "
        f"(what differs then is {difference})"
    )
    return refusal(message, change.path, "")
