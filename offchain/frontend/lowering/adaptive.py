"""Rules of adaptive pooling: output o of m reduces the inputs from floor(o n / m) to its end.

The end is ceil((o + 1) n / m). Where m divides n, all windows are equal, and the input is seen as
windows without an operator. Elsewhere a gather by constant positions makes them of one length; what
a window lacks is out of range and reads the fold's neutral element.
"""

from collections.abc import Mapping, Sequence
from functools import partial
from math import prod

import numpy as np
from numpy.typing import NDArray

from moot.offchain.arithmetic.functions import DType, Function
from moot.offchain.frontend.lowering.builder import Builder, Rule, identity
from moot.offchain.frontend.lowering.indexing import emit_gather
from moot.offchain.frontend.lowering.pooling import flat_index, max_pool_backward
from moot.offchain.frontend.lowering.reductions import emit_position, fold, get_neutral
from moot.offchain.frontend.lowering.views import View, along, expand, insert, permute

Sizes = Sequence[int]
Table = NDArray[np.int64]

_NOWHERE = -1


def _windows(inputs: int, outputs: int) -> list[range]:
    """Return the input positions of each output's window."""
    return [range(o * inputs // outputs, -(-(o + 1) * inputs // outputs)) for o in range(outputs)]


def _tabulate(windows: Sequence[Sequence[int]]) -> Table:
    """Return windows as the rows of a table; short ones end in positions that are nowhere."""
    longest = max(len(window) for window in windows)
    rows = [[*window, *[_NOWHERE] * (longest - len(window))] for window in windows]
    return np.array(rows, np.int64)


def _invert(inputs: int, outputs: int) -> Table:
    """Return for each input the outputs whose windows see it."""
    windows = _windows(inputs, outputs)
    return _tabulate([[o for o, w in enumerate(windows) if i in w] for i in range(inputs)])


def _spread(b: Builder, x: View, tables: Sequence[Table], fill: int) -> View:
    """Return (lead, a, b, ..., i, j, ...): x at position tables[0][a, i], tables[1][b, j], ..."""
    spatial = len(tables)
    lead = len(x.shape) - spatial
    shape = (
        *x.shape[:lead],
        *(len(table) for table in tables),
        *(table.shape[1] for table in tables),
    )
    rows = identity(x.shape[:lead])
    indices = []
    for i, table in enumerate(tables):
        rows.append(along(len(shape) + i, x.shape[lead + i]))
        sizes = (len(table), table.shape[1])
        at = [along(lead + i, sizes[0]), along(lead + spatial + i, sizes[1])]
        indices.append((b.reshape(b.tensor(table), sizes), at))
    return emit_gather(b, shape, (x, rows), indices, fill)


def _split_axes(shape: Sizes, size: Sizes) -> tuple[tuple[int, ...], list[int]] | None:
    """Return the shape with each pooled axis as (outputs, window), and the axes of the windows.

    None where windows are unequal.
    """
    lead = len(shape) - len(size)
    pairs = list(zip(shape[lead:], size, strict=True))
    if any(extent % outputs for extent, outputs in pairs):
        return None
    split = [*shape[:lead], *(n for e, outputs in pairs for n in (outputs, e // outputs))]
    return tuple(split), list(range(lead + 1, len(split), 2))


def _see_windows(b: Builder, x: View, size: Sizes, fill: int) -> View:
    """Return (lead, places, positions in a window): the windows of x, of one length."""
    lead = len(x.shape) - len(size)
    split = _split_axes(x.shape, size)
    if split is None:
        pairs = zip(x.shape[lead:], size, strict=True)
        return _spread(b, x, [_tabulate(_windows(n, m)) for n, m in pairs], fill)
    shape, axes = split
    places = [d for d in range(len(shape)) if d not in axes]
    return permute(b.reshape(x, shape), [*places, *axes])


def _count(b: Builder, inputs: Sizes, size: Sizes) -> View:
    """Return the number of elements of each window, of the shape `size`, or one for all."""
    count = np.ones((), np.float32)
    for n, m in zip(inputs, size, strict=True):
        lengths = np.array([len(window) for window in _windows(n, m)], np.float32)
        count = np.multiply.outer(count, lengths).astype(np.float32)
    is_equal = bool((count == count.flat[0]).all())
    return b.scalar(float(count.flat[0]), DType.FLOAT32) if is_equal else b.tensor(count)


def adaptive_avg_pool(b: Builder, x: View, size: Sizes) -> View:
    """Lower adaptive_avg_pool: the sum of each window divided by its count."""
    lead = len(x.shape) - len(size)
    windows = _see_windows(b, x, size, get_neutral(Function.ADD, x.dtype))
    axes = list(range(lead + len(size), len(windows.shape)))
    total = fold(b, Function.ADD, windows, axes, part="sum")
    return b.map(Function.DIV, total, _count(b, x.shape[lead:], size))


def adaptive_avg_pool_backward(b: Builder, y: View, x: View, *, spatial: int) -> View:
    """Lower the gradient of adaptive_avg_pool: the sum over the windows that saw an element."""
    lead = len(x.shape) - spatial
    sizes, places = x.shape[lead:], y.shape[lead:]
    share = b.map(Function.DIV, y, _count(b, sizes, places))
    split = _split_axes(x.shape, places)
    if split is None:
        tables = [_invert(n, m) for n, m in zip(sizes, places, strict=True)]
        seen = _spread(b, share, tables, get_neutral(Function.ADD, x.dtype))
        return fold(b, Function.ADD, seen, list(range(lead + spatial, len(seen.shape))), part="sum")
    shape, axes = split
    for d in axes:
        share = insert(share, d)
    return b.reshape(expand(share, shape), x.shape)


def adaptive_max_pool(b: Builder, x: View, size: Sizes) -> tuple[View, View]:
    """Lower adaptive_max_pool: the maximum of each window, and its flat index in the input."""
    lead = len(x.shape) - len(size)
    windows = _see_windows(b, x, size, get_neutral(Function.MAX, x.dtype))
    kept, window = windows.shape[: lead + len(size)], windows.shape[lead + len(size) :]
    axes = list(range(len(kept), len(windows.shape)))
    values = fold(b, Function.MAX, windows, axes, part="max")
    coordinates = identity(windows.shape)
    best = emit_position(b, Function.ARGMAX, windows, coordinates, kept, window)
    units = [prod(x.shape[d + 1 :]) for d in range(lead, len(x.shape))]
    corner = np.zeros((), np.int64)
    for n, m, unit in zip(x.shape[lead:], size, units, strict=True):
        starts = [window.start * unit for window in _windows(n, m)]
        corner = np.add.outer(corner, np.array(starts, np.int64))
    return values, flat_index(b, best, corner, window, units)


ADAPTIVE: Mapping[str, Rule] = {
    **{f"aten._adaptive_avg_pool{n}d.default": adaptive_avg_pool for n in (2, 3)},
    **{
        f"aten._adaptive_avg_pool{n}d_backward.default": partial(
            adaptive_avg_pool_backward, spatial=n
        )
        for n in (2, 3)
    },
    **{f"aten.adaptive_max_pool{n}d.default": adaptive_max_pool for n in (2, 3)},
    **{
        f"aten.adaptive_max_pool{n}d_backward.default": partial(max_pool_backward, spatial=n)
        for n in (2, 3)
    },
}
"""ATen overload -> rule."""
