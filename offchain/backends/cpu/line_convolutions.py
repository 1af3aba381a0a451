"""The plans of convolutions with few columns, such as depthwise ones.

Each of the variables that choose a plane of the image moves the window as a whole, so that all
windows of a box have the same tables.
"""

from collections.abc import Sequence
from functools import cached_property
from math import prod

import numpy as np
import numpy.typing as npt

from moot.offchain.backends.cpu.calls import call, reserve_scratch, share_out
from moot.offchain.backends.cpu.convolutions import Convolution, Places
from moot.offchain.backends.cpu.kernels.contraction.convolution_lines import (
    MOST_STRIDE,
    SLACK,
    TILE_COLUMNS,
    TILE_SIZE,
    multiply_lines,
)
from moot.offchain.backends.cpu.kernels.contraction.convolution_records import Lines
from moot.offchain.backends.cpu.kernels.contraction.tile import FLOAT_BYTES
from moot.offchain.backends.cpu.sliding import Ranges, Window, cut, find_window, fix
from moot.offchain.native.memory_layout import Memory
from moot.offchain.native.sequences import Call
from moot.offchain.native.threads import get_threads
from moot.offchain.native.vectors import LANES
from moot.offchain.planning.accesses import find_strided

Integers = npt.NDArray[np.int64]

_WINDOW_FLOATS = 1 << 16
"""Floats of the second-level cache that a window should take."""

_MOST_WINDOW_FLOATS = 1 << 20
"""Floats that a window may take which cannot be cut; larger ones are left to `Convolution`."""

_MOST_EXCESS = 1.25
"""The greatest ratio of multiply-adds to `Convolution`, for more columns than a tile has."""

_ITEMS_PER_THREAD = 4
_GRAIN = 1 << 15
"""Multiply-adds of vectors that make another thread worth its start."""

_COPYING = 8
"""Multiply-adds that cost what it takes to copy a vector of the image and to store its results."""


class LineConvolution(Convolution):
    """The plan of a contraction of few columns."""

    @cached_property
    def _movers(self) -> list[int]:
        """The variables of the output that choose a plane and nothing else."""
        inside = {v for row in self._image.rows[-2:] for v, _ in row.terms}
        return [v for v in (*self._form.batch, *self._form.rows) if v not in inside]

    @cached_property
    def _inner(self) -> list[int]:
        """The other variables of rows."""
        return [v for v in self._form.rows if v not in self._movers]

    def is_fit(self) -> bool:
        """Whether there are few columns, and lines along which rows are close to each other."""
        if not self._inner or not self._has_few_columns:
            return False
        if any(v not in self._movers for v in self._form.batch):
            return False
        windows = [self._find_window(box) for box in self._windows]
        strides = [window.access.strides[self._inner[-1]] for window in windows]
        return bool(windows) and (
            all(0 < stride <= MOST_STRIDE for stride in strides)
            and all(prod(window.shape) <= _MOST_WINDOW_FLOATS for window in windows)
        )

    @property
    def _has_few_columns(self) -> bool:
        """Whether vectors of rows are about as full as vectors of columns would be."""
        columns, along = len(self._columns[0]), self._inner[-1]
        filled = sum(len(part[along]) for part in self._form.parts)
        vectors = sum(-(-len(part[along]) // LANES) for part in self._form.parts)
        is_full = columns <= LANES and vectors * columns <= _MOST_EXCESS * filled
        return columns <= TILE_COLUMNS or is_full

    def _find_window(self, box: Ranges) -> Window:
        return find_window(self._image, fix(box, self._movers, [0] * len(self._movers)))

    @cached_property
    def _windows(self) -> list[list[range]]:
        """Boxes of the parts that have terms, cut along the first variable that can be."""
        boxes = []
        for part in self._form.parts:
            if all(part):
                most = len(part[self._inner[0]]) if len(self._inner) > 1 else 1
                fits = (
                    n
                    for n in range(1, most)
                    if prod(self._find_window(cut(part, self._inner[0], n)[0]).shape)
                    <= _WINDOW_FLOATS
                )
                boxes += cut(part, self._inner[0], next(fits, most))
        return boxes

    @cached_property
    def _moves(self) -> Integers:
        """Plane, offsets in the other factor and in the output, and group of every window."""
        planes = find_strided(self._image.rows[:-2], self._sizes)
        assert planes is not None
        groups, size = [0] * len(self._sizes), 1
        for v in reversed(self._form.batch):
            groups[v], size = size, size * self._sizes[v]
        scaled = [[stride * FLOAT_BYTES for stride in s] for s in self._layouts]
        columns = [
            self._nest(tuple((self._sizes[v], steps[v]) for v in self._movers))
            for steps in (planes.strides, *scaled, groups)
        ]
        moves = np.stack(columns, axis=1)
        moves[:, 0] += planes.offset
        moves[:, 1] += self._other.offset * FLOAT_BYTES
        return moves

    @property
    def _layouts(self) -> tuple[Sequence[int], Sequence[int]]:
        return self._other.strides, self._out_strides

    @cached_property
    def _lines(self) -> list[Lines]:
        return [self._plan_box(box) for box in self._windows]

    def _plan_box(self, box: Ranges) -> Lines:
        window = self._find_window(box)
        *outer, along = self._inner
        in_other, out_strides = (
            [stride * r.step for stride, r in zip(layout, box, strict=True)]
            for layout in self._layouts
        )
        stride, fold = window.access.strides[along], self._form.fold
        out_start = sum(self._out_strides[v] * box[v].start for v in self._inner) * FLOAT_BYTES
        other_start = sum(self._other.strides[v] * box[v].start for v in fold) * FLOAT_BYTES
        firsts = np.arange(0, len(box[along]), LANES)
        lines = np.empty(
            (len(self._get_offsets(box, outer, out_strides)), len(firsts), 3), np.int64
        )
        starts = self._get_offsets(box, outer, window.access.strides)
        lines[..., 0] = starts[:, None] + firsts * (stride * FLOAT_BYTES)
        lines[..., 1] = np.minimum(len(box[along]) - firsts, LANES)
        places = self._get_offsets(box, outer, out_strides) + out_start
        lines[..., 2] = places[:, None] + firsts * (out_strides[along] * FLOAT_BYTES)
        steps = (
            self._get_offsets(box, fold, window.access.strides),
            self._get_offsets(box, fold, in_other) + other_start,
        )
        planes = self._nest(window.places)
        height, width = self._plane
        return Lines(
            height,
            width,
            *window.first,
            *window.shape[1:],
            self._keep(planes),
            len(planes),
            self._keep(lines),
            lines.size // 3,
            self._keep(np.stack(steps, axis=1)),
            len(steps[0]),
            window.access.offset * FLOAT_BYTES,
            stride,
            out_strides[along] * FLOAT_BYTES,
        )

    def _multiply(self, places: Places, memory: Memory) -> Call:
        """Return the call that writes the results that have terms, which threads share."""
        rooms = (box.plane_count * box.rows * box.columns for box in self._lines)
        scratch, own = reserve_scratch(memory, (max(rooms) + SLACK + TILE_SIZE) * FLOAT_BYTES)
        tables = np.array(self._lines), self._moves, np.stack(self._columns, axis=1)
        laid_out = [self._lay_out(table) for table in tables]
        sizes = self._image.value, self._starts.step_bytes
        arguments = *places, scratch, *sizes, *laid_out, 0, len(self._moves)
        products = call(multiply_lines, arguments, memory)
        grain = self._choose_grain(get_threads())
        return share_out(products, grain, scratch=(products.words.index(scratch), own))

    def _choose_grain(self, threads: int) -> int:
        """Return how many windows are worth another thread, about the same for each."""
        columns, items = len(self._columns[0]), len(self._moves)
        vectors = (box.line_count * (box.step_count * columns + _COPYING) for box in self._lines)
        pieces = min(threads * _ITEMS_PER_THREAD, sum(vectors) * items // _GRAIN)
        pieces -= pieces % threads if pieces > threads else 0
        return -(-items // max(1, pieces))
