"""Runs that are looked at: what kernels are given, and what they return, is what was planned."""

from collections.abc import Callable, Sequence
from math import prod

import numpy as np

from moot.offchain.backends.port import Journal, Tensor
from moot.offchain.commitments.tensors import NUMPY_TYPES
from moot.offchain.programs.graph import Node, Operand, Origin

Run = Callable[[Sequence[Tensor | None], int, Journal | None], Sequence[Tensor]]
"""(tensors, step, journal) -> outputs: what runs a task."""


def watch(run: Run, operands: Sequence[Operand], outputs: Sequence[Node]) -> Run:
    """Return what runs a task and asserts that arrays are what its plan was made for.

    An operand's array has its type and as many elements as its access addresses, side by side; an
    output's has its type and shape, and no kernel has written to an operand. Tensors of a backend
    with a memory of its own are not looked at.
    """

    def run_watched(
        tensors: Sequence[Tensor | None], step: int, journal: Journal | None
    ) -> Sequence[Tensor]:
        for operand, tensor in zip(operands, tensors, strict=True):
            assert (tensor is None) == (operand.origin is Origin.IMMEDIATE)
            if isinstance(tensor, np.ndarray):
                assert tensor.dtype == NUMPY_TYPES[operand.dtype]
                assert tensor.size == prod(row.size for row in operand.rows)
                assert tensor.flags.c_contiguous
        given = [t.tobytes() if isinstance(t, np.ndarray) else None for t in tensors]
        found = run(tensors, step, journal)
        for node, tensor in zip(outputs, found, strict=True):
            if isinstance(tensor, np.ndarray):
                assert (tensor.dtype, tensor.shape) == (NUMPY_TYPES[node.dtype], node.shape)
                assert tensor.flags.c_contiguous
        after = [t.tobytes() if isinstance(t, np.ndarray) else None for t in tensors]
        assert given == after
        return found

    return run_watched
