"""Copies of strided elements, of any width, that the calls of a sequence make."""

from collections.abc import Mapping
from typing import Any

from numba.core import types

from moot.offchain.native.compiled import Kernel, kernel, reads, writes

AXES = 4
"""Axes of the arrays that are copied."""


def _make(element: Any) -> Kernel:
    @kernel(reads(element, AXES, "A"), writes(element, AXES, "A"))
    def copy_elements(source: Any, target: Any) -> None:
        for i in range(target.shape[0]):
            for j in range(target.shape[1]):
                for k in range(target.shape[2]):
                    for n in range(target.shape[3]):
                        target[i, j, k, n] = source[i, j, k, n]

    return copy_elements


COPIES: Mapping[int, Kernel] = {
    1: _make(types.uint8),
    2: _make(types.uint16),
    4: _make(types.uint32),
    8: _make(types.uint64),
}
"""By the bytes of an element: (source, target) of the same shape."""
