"""Prefixes: keys and values of texts that were read, for prompts that begin as they do.

The keys and values of a token follow from it and those before it alone, so that whoever computed
them does not matter.
"""

from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from moot.offchain.commitments.tensors import Array


@dataclass(frozen=True, slots=True)
class Prefix:
    """A text that was read.

    Attributes:
        tokens: INT64 (count,).
        arrays: keys and values (1, heads, count, width) of all layers.
    """

    tokens: Any
    arrays: Sequence[Array]

    @property
    def size(self) -> int:
        """The bytes that it takes."""
        return sum(array.nbytes for array in self.arrays)


class Prefixes:
    """Texts that were read; those that were of use longest ago are forgotten first.

    Args:
        most_bytes: what they take at most; 0 keeps none.
        most: how many there are at most, since each is compared with a prompt.
    """

    def __init__(self, most_bytes: int, most: int = 64) -> None:
        self._most_bytes, self._most = most_bytes, most
        self._known: OrderedDict[bytes, Prefix] = OrderedDict()
        self._bytes = 0

    def can_keep(self, size: int) -> bool:
        """Whether a text of so many bytes would be kept at all."""
        return 0 < size <= self._most_bytes

    def find(self, prompt: Sequence[int]) -> tuple[Prefix, int] | None:
        """Return the text that has most in common with a prompt, and how many tokens."""
        wanted = np.array(prompt, np.int64)
        best: tuple[Prefix, int] | None = None
        key = b""
        for name, prefix in self._known.items():
            count = _count_common(prefix.tokens, wanted)
            if count > (best[1] if best else 0):
                best, key = (prefix, count), name
        if best is not None:
            self._known.move_to_end(key)
        return best

    def keep(self, tokens: Sequence[int], arrays: Sequence[Array]) -> None:
        """Keep a text, in place of those that it begins with."""
        new = Prefix(np.array(tokens, np.int64), arrays)
        if not self.can_keep(new.size):
            return
        for name, old in list(self._known.items()):
            if _count_common(old.tokens, new.tokens) == len(old.tokens):
                self._drop(name)
        self._known[new.tokens.tobytes()] = new
        self._bytes += new.size
        while self._bytes > self._most_bytes or len(self._known) > self._most:
            self._drop(next(iter(self._known)))

    def _drop(self, name: bytes) -> None:
        self._bytes -= self._known.pop(name).size


def _count_common(one: Any, other: Any) -> int:
    """Return how many tokens two texts have in common at their beginning."""
    count = min(len(one), len(other))
    differs = one[:count] != other[:count]
    return int(differs.argmax()) if differs.any() else count
