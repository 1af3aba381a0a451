"""Batches elsewhere: a user's file gives a fresh process the batches that it gives here.

A provider that joins late loads the file anew, and asks for the batch of some later step first.
What a batch depends on and no look at the function shows, a seed that nobody set, the order of a
set, another process of the machine, is different there.
"""

import json
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np

from moot.offchain.children import get_last_words
from moot.offchain.commitments.tensors import Array
from moot.offchain.errors import CaptureError
from moot.offchain.frontend.capture.batches import FAR, ask, require_same
from moot.offchain.frontend.capture.newcomer import Request, read_outcome
from moot.offchain.programs.graph import Slot
from moot.offchain.text import clean

_DRAWN, _NEAR = 3, (5, 1)
"""How many steps are drawn, which a newcomer asks for first, and near ones that follow."""

_MOST_LETTERS = 400


def check_elsewhere(
    program: str, seed: int, batch: Callable[[int], list[Array]], slots: Sequence[Slot]
) -> None:
    """Refuse a file whose batches are others in a fresh process.

    Args:
        program: the recipe, `path/to/file.py:function`.
        seed: what its function was given.
        batch: the batches here.
        slots: the slots of batches.

    Raises:
        CaptureError: they are, or the process fails.
    """
    steps = [*np.random.default_rng(seed).integers(2, FAR[-1], _DRAWN).tolist(), *_NEAR]
    with TemporaryDirectory(prefix="moot-") as folder:
        forms = [(slot.name, slot.dtype.name, slot.shape) for slot in slots]
        request = Request(program, seed, steps, forms, folder)
        done = subprocess.run(
            [sys.executable, "-m", "moot.offchain.frontend.capture.newcomer"],
            input=json.dumps(request._asdict()),
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode:
            said = get_last_words(done.stderr, "it says nothing")
            raise CaptureError(f"{program} fails in a fresh process: {clean(said, _MOST_LETTERS)}")
        for step in steps:
            there = read_outcome(Path(folder), step, slots)
            subject = f"step {step}, asked for in a fresh process,"
            require_same(ask(batch, step), there, slots, subject)
