"""The drawing of a cheat's settings: what is given is checked, what is left out is drawn."""

import numpy as np

from moot.offchain.arithmetic.functions import DType
from moot.offchain.commitments.tensors import Array
from moot.offchain.commitments.tree import Digest
from moot.offchain.errors import UsageError
from moot.offchain.providers.task import Task


def flip_bit(array: Array, element: int, bit: int) -> Array:
    """Return a copy of a tensor with one bit of one element flipped."""
    changed = array.copy()
    width = changed.dtype.itemsize
    raw = changed.reshape(-1).view(np.uint8)
    raw[element * width + bit // 8] ^= np.uint8(1 << bit % 8)
    return raw.view(changed.dtype).reshape(changed.shape)


def get_bits(dtype: DType) -> int:
    """Return the number of bits of an element that may differ."""
    return 1 if dtype is DType.BOOL else 8 * dtype.width


def settled(value: int | str | None) -> int:
    """Return a setting that was drawn, if it was not given.

    Raises:
        UsageError: it was not; `Behaviour.draw` does it, which `moot.run` calls.
    """
    if not isinstance(value, int):
        raise UsageError("a setting of this cheat is neither given nor drawn; draw it for a task")
    return value


class Draws:
    """The source of what is left out of a cheat's settings: a task to fit, and a stream.

    Args:
        task: what is cheated in.
        rng: the stream; the same one gives the same settings.
    """

    def __init__(self, task: Task, rng: np.random.Generator) -> None:
        self.task = task
        self.rng = rng

    def integer(self, key: str, given: int | None, bound: int, default: int | None = None) -> int:
        """Return a setting in [0, bound); the default instead of a draw when there is one.

        Raises:
            UsageError: what is given is outside, or there is nothing to choose from.
        """
        if given is None and default is not None:
            return default
        if bound < 1:
            raise UsageError(f"there is no {key} to tamper with")
        if given is None:
            return int(self.rng.integers(bound))
        if not 0 <= given < bound:
            raise UsageError(f"{key}={given} is outside 0 to {bound - 1}")
        return int(given)

    def operator(self, given: int | str | None, default: int | None = None) -> int:
        """Return a node's index, of its name or index; the default instead of a draw.

        Raises:
            UsageError: the program has no such operator.
        """
        program = self.task.program
        if given is None and default is not None:
            return default
        if given is None:
            filled = [i for i, node in enumerate(program.nodes) if node.elements]
            return int(filled[self.rng.integers(len(filled))])
        text = str(given)
        if text.isdigit() and int(text) < len(program.nodes):
            return int(text)
        if text not in program.names:
            raise UsageError.unknown("operator", text, program.names)
        return program.names.index(text)

    def word(self, given: Digest | None) -> Digest:
        """Return 32 bytes; fewer that are given are filled up with zeros before them."""
        if given is not None:
            return given.rjust(32, b"\0")[-32:]
        return self.rng.bytes(32)
