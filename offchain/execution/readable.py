"""The readable executor: runs a program element by element, by the letter of its specification.

It is slow, and the definition that every fast executor is tested against.
"""

from collections.abc import Callable, Sequence

import numpy as np

from moot.offchain.arithmetic.functions import DType
from moot.offchain.commitments.tensors import NUMPY_TYPES, Array
from moot.offchain.programs.graph import Operand, Origin, Program
from moot.offchain.programs.semantics import compute_element

Observe = Callable[[int, Array], None]
"""Receives the index of an operator and its output."""

_BITS = {dtype: np.dtype(f"<u{dtype.width}") for dtype in DType}


def to_bits(array: Array) -> list[int]:
    """Return the bit patterns of a tensor's elements in row-major order."""
    flat = np.ascontiguousarray(array).reshape(-1).view(f"u{array.itemsize}")
    bits: list[int] = flat.tolist()
    return bits


def from_bits(bits: Sequence[int], dtype: DType, shape: tuple[int, ...]) -> Array:
    """Return the tensor of these bit patterns."""
    flat: Array = np.array(bits, _BITS[dtype]).view(NUMPY_TYPES[dtype])
    return flat.reshape(shape)


def run_step(
    program: Program,
    state: Sequence[Array],
    batch: Sequence[Array],
    step: int,
    observe: Observe | None = None,
) -> list[Array]:
    """Return the state after one step.

    Args:
        program: the program.
        state: tensors of the state's slots, in order.
        batch: tensors of the batch's slots, in order.
        step: number of the step, which random operators depend on.
        observe: called with every operator's index and output, in order.
    """
    pools: dict[Origin, list[list[int]]] = {
        Origin.NODE: [],
        Origin.STATE: [to_bits(array) for array in state],
        Origin.BATCH: [to_bits(array) for array in batch],
    }

    def fetch(place: int, operand: Operand, index: int) -> int:
        del place
        return pools[operand.origin][operand.reference][index]

    outputs = []
    for index, node in enumerate(program.nodes):
        bits = [
            compute_element(program.arithmetic, node, element, step, fetch)
            for element in range(node.elements)
        ]
        pools[Origin.NODE].append(bits)
        if index >= program.first_sink or observe:
            output = from_bits(bits, node.dtype, node.shape)
            if observe:
                observe(index, output)
            if index >= program.first_sink:
                outputs.append(output)
    return outputs
