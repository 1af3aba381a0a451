"""Newcomer: a fresh process, which loads a user's file and gives some of its batches."""

import json
import sys
from collections.abc import Mapping, Sequence
from contextlib import redirect_stdout
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from moot.offchain.arithmetic.functions import DType
from moot.offchain.commitments.tensors import NUMPY_TYPES
from moot.offchain.errors import MootError
from moot.offchain.frontend.capture.batches import Outcome, ask, bind_batch
from moot.offchain.frontend.load import load_recipe
from moot.offchain.frontend.recipe import find_form
from moot.offchain.frontend.subject import Subject
from moot.offchain.programs.graph import Slot
from moot.offchain.text import show_error


class Request(NamedTuple):
    """What a newcomer is asked for.

    Attributes:
        program: the recipe, `path/to/file.py:function`.
        seed: passed on to it.
        steps: the steps whose batches it gives, in the order in which it asks for them.
        slots: name, type and shape of each tensor of a batch.
        folder: where it writes them.
    """

    program: str
    seed: int
    steps: Sequence[int]
    slots: Sequence[tuple[str, str, Sequence[int]]]
    folder: str


def write_outcome(folder: Path, step: int, outcome: Outcome) -> None:
    """Write the batch of a step, or why there is none."""
    if isinstance(outcome, str):
        (folder / f"{step}.txt").write_text(outcome)
        return
    for place, array in enumerate(outcome):
        (folder / f"{step}.{place}").write_bytes(array.tobytes())


def read_outcome(folder: Path, step: int, slots: Sequence[Slot]) -> Outcome:
    """Return what was written of a step that has tensors for some slots.

    Raises:
        ValueError: a tensor has not the bytes of its slot.
    """
    reason = folder / f"{step}.txt"
    if reason.exists():
        return reason.read_text()
    contents = [(folder / f"{step}.{place}").read_bytes() for place in range(len(slots))]
    return [
        np.frombuffer(content, NUMPY_TYPES[slot.dtype]).reshape(slot.shape)
        for content, slot in zip(contents, slots, strict=True)
    ]


def answer(order: Mapping[str, Any]) -> None:
    """Write the batches that are asked for."""
    request = Request(**order)
    recipe = find_form(load_recipe(request.program, seed=request.seed))
    slots = [Slot(name, DType[dtype], tuple(shape)) for name, dtype, shape in request.slots]
    batch = bind_batch(Subject.of(recipe), slots)
    for step in request.steps:
        write_outcome(Path(request.folder), step, ask(batch, step))


if __name__ == "__main__":
    try:
        with redirect_stdout(sys.stderr):  # what a user's file prints
            answer(json.load(sys.stdin))
    except Exception as error:  # noqa: BLE001 - it is reported, whatever it is
        sys.exit(str(error) if isinstance(error, MootError) else show_error(error))
