"""Fast readers of operands: a strided view where the access is affine, otherwise a dense copy.

A dense copy is filled with the access's fill value and then box by box.
"""

from collections.abc import Sequence
from math import prod

import numpy as np

from offchain.arithmetic.functions import DType
from offchain.commitments.tensors import NUMPY_TYPES, Array
from offchain.execution.accesses import (
    Sizes,
    Strided,
    find_boxes,
    find_strided,
    get_used,
    row_major,
)
from offchain.execution.indexing import copy_in_range
from offchain.native import buffers
from offchain.programs.graph import Operand, Origin


def make_constant(dtype: DType, bits: int) -> Array:
    """Return an array of shape (1,) that holds one element of these bits."""
    return np.frombuffer(bits.to_bytes(dtype.width, "little"), NUMPY_TYPES[dtype])


def view(buffer: Array, shape: Sizes, strided: Strided) -> Array:
    """Return the strided view of a contiguous array of any shape."""
    width = buffer.itemsize
    strides = tuple([stride * width for stride in strided.strides])
    return np.ndarray(shape, buffer.dtype, buffer, strided.offset * width, strides)


class Reader:
    """A reader of an operand on a domain: a contiguous buffer, and a fixed strided view of it.

    Args:
        operand: the operand.
        sizes: extents of the domain's variables.
        nest: if given, the buffer is a dense copy that nests these variables, the outermost first:
            all that the access uses, and any others.

    Attributes:
        operand: the operand.
        sizes: the extents.
        strided: the view of the buffer.
        is_view: whether the buffer is the operand itself or a constant, so that reading is free.
    """

    def __init__(self, operand: Operand, sizes: Sizes, nest: Sequence[int] | None = None) -> None:
        self.operand = operand
        self.sizes = sizes
        self._constant: Array | None = None
        is_constant = operand.origin is Origin.IMMEDIATE
        if is_constant:
            self._constant = make_constant(operand.dtype, operand.value)
        strided = (
            Strided(0, (0,) * len(sizes)) if is_constant else find_strided(operand.rows, sizes)
        )
        self.is_view = strided is not None and nest is None
        if strided is not None and nest is None:
            self.strided = strided
        else:
            self._plan_copy(get_used(operand, sizes) if nest is None else nest)

    def _plan_copy(self, nest: Sequence[int]) -> None:
        self._shape = tuple(self.sizes[variable] for variable in nest)
        places = dict(zip(nest, row_major(self._shape), strict=True))
        strides = tuple(places.get(variable, 0) for variable in range(len(self.sizes)))
        self.strided = Strided(0, strides)
        self._domain = tuple(s if v in places else 1 for v, s in enumerate(self.sizes))
        self._filler = Filler(self.operand, self._domain)

    def buffer(self, flat: Array | None) -> Array:
        """Return the buffer under the view; `flat` is the operand's tensor, None for a constant."""
        flat = flat if self._constant is None else self._constant
        assert flat is not None
        if self.is_view:
            return flat
        dense = buffers.empty(self._shape, flat.dtype)
        self._filler.fill(view(dense, self._domain, self.strided), flat)
        return dense

    def read(self, flat: Array | None) -> Array:
        """Return the elements on the whole domain, as a read-only view of its shape."""
        return view(self.buffer(flat), self.sizes, self.strided)


class Filler:
    """A writer of an access's elements into an array over its domain.

    Args:
        operand: the operand; a constant is an access without rows.
        sizes: extents of the domain.

    Attributes:
        boxes: the boxes of the access's range, None where they are too many.
        covers: whether the access is known to be in range on the whole domain.
    """

    def __init__(self, operand: Operand, sizes: Sizes) -> None:
        self._operand = operand
        self._sizes = sizes
        self.boxes = find_boxes(operand.rows, sizes)
        self._value = make_constant(operand.dtype, operand.value)
        self.covers = self.boxes is not None and prod(sizes) == sum(
            prod(box.shape) for box in self.boxes
        )

    def fill(self, out: Array, flat: Array) -> None:
        """Write all elements, the fill value where the access is out of range."""
        if not self.covers:
            out[...] = self._value
        self.overlay(out, flat)

    def overlay(self, out: Array, flat: Array) -> None:
        """Write the elements that are in range, and leave the others alone."""
        if self.boxes is None:
            copy_in_range(out, flat.reshape(-1), self._operand.rows)
            return
        for region, shape, strided in self.boxes:
            out[region] = view(flat, shape, strided)
