"""Rules of padding: moves; the gradient of repeated borders is a scatter along each axis."""

from collections.abc import Mapping, Sequence
from functools import partial

import numpy as np

from moot.offchain.frontend.lowering.builder import Builder, Rule, identity
from moot.offchain.frontend.lowering.indexing import index_put
from moot.offchain.frontend.lowering.shapes import assemble
from moot.offchain.frontend.lowering.views import View, constant
from moot.offchain.programs.graph import Row


def constant_pad(b: Builder, x: View, pad: Sequence[int], value: float = 0) -> View:
    """Lower constant_pad_nd: a move whose out-of-range elements are the value."""
    shape = b.result.shape
    rows = identity(shape)
    for i, before in enumerate(pad[::2]):
        d = len(shape) - 1 - i
        rows[d] = Row(x.shape[d], -before, ((d, 1),))
    return assemble(b, shape, [(x, rows)], b.scalar(value, x.dtype).bits, "pad")


def replication_pad_backward(
    b: Builder, y: View, x: View, padding: Sequence[int], *, spatial: int
) -> View:
    """Lower the gradient of replication_pad: what the copies of an element received is added."""
    rank = len(x.shape)
    for i in range(spatial):
        axis = rank - 1 - i
        size = x.shape[axis]
        copied = np.arange(y.shape[axis], dtype=np.int64) - padding[2 * i]
        sources = b.tensor(copied.clip(0, size - 1))
        zeros = constant(y.dtype, 0, (*y.shape[:axis], size, *y.shape[axis + 1 :]))
        y = index_put(b, zeros, [*(None,) * axis, sources], y, accumulate=True)
    return y


PADDING: Mapping[str, Rule] = {
    "aten.constant_pad_nd.default": constant_pad,
    **{
        f"aten.replication_pad{n}d_backward.default": partial(replication_pad_backward, spatial=n)
        for n in (1, 2, 3)
    },
}
"""ATen overload -> rule."""
