"""The plans of convolutions: contractions one factor of which is a window in an image.

Where no coordinate leaves the image, an element's address is a sum of one number for each variable,
and the kernel reads the image in place, through tables of these numbers. A box that a coordinate
leaves is first copied with its border. An item of work is some columns of some boxes: it packs the
columns' factors for a block of the fold once and multiplies all its boxes by them.
"""

from collections.abc import Callable, Sequence
from functools import cached_property
from itertools import product, takewhile
from math import prod
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from offchain.backends.cpu.convolution_items import Item, Work, choose_items
from offchain.backends.cpu.convolution_runs import Runs, find_runs
from offchain.backends.cpu.kernels.contraction.convolution import TILE_SIZE, Block, multiply_blocks
from offchain.backends.cpu.kernels.contraction.convolution_packing import STEP_BYTES
from offchain.backends.cpu.kernels.contraction.tile import (
    A_STEP_BYTES,
    COLUMNS,
    FLOAT_BYTES,
    ROWS,
)
from offchain.backends.cpu.sliding import (
    Ranges,
    Sliding,
    count,
    cut,
    find_direct,
    find_window,
    fix,
    join,
)
from offchain.backends.cpu.views import Reader
from offchain.commitments.tensors import Array
from offchain.native import buffers
from offchain.native.machine import get_second_cache_bytes
from offchain.native.scratch import get_scratch
from offchain.native.threads import get_threads, share
from offchain.native.vectors import LANES, NAN
from offchain.planning.accesses import Strided, find_strided, iterate_slabs, row_major
from offchain.programs.graph import Node

Integers = npt.NDArray[np.int64]

_DEPTH = 1152
"""Steps of a block of the fold."""

_PANEL_BYTES = 7 << 17
"""Bytes of the second-level cache that the packed columns of an item may take."""

_WINDOW_FLOATS = 1 << 16
_MOST_ROWS = 512
"""Limits of a box."""

_GRAIN = 2**22
"""Multiply-adds that make another thread worth its start."""

_WINDOW_SHAPE = [Block._fields.index(name) for name in ("plane_count", "height", "width")]

_FAR_BYTES = 2048
"""Distance of steps in the image from which most lie in another page than the step before."""

_GROUP_BYTES = get_second_cache_bytes() // 16
"""Bytes of the second-level cache that packed rows may take, beside columns and their results."""

_MINUS_ZERO = 1 << 31
"""The bits of -0."""


class Tensors(NamedTuple):
    """The flat tensors of a call, and the start values of the sums of each group's columns."""

    image: Array
    other: Array
    starts: Array
    out: Array


class Convolution:
    """The plan of one contraction whose window slides over an image.

    Args:
        node: the contraction.
        sliding: its form.
        fall_back: returns the output computed in another way, from the tensors of init, a and b.
    """

    def __init__(
        self,
        node: Node,
        sliding: Sliding,
        fall_back: Callable[[Sequence[Array | None]], Array],
    ) -> None:
        self._node = node
        self._form = sliding
        self._fall_back = fall_back
        self._sizes = node.shape + node.fold_shape
        self._image = node.operands[sliding.image]
        self._fill = np.uint32(self._image.value).view(np.float32)
        self._plane = (1, 1, *(row.size for row in self._image.rows))[-2:]
        strided = find_strided(node.operands[3 - sliding.image].rows, self._sizes)
        assert strided is not None
        self._other = strided
        self._init = Reader(node.operands[0], self._sizes)
        self._out_strides = row_major(node.shape) + (0,) * len(node.fold_shape)
        self._groups = list(product(*(range(self._sizes[v]) for v in sliding.batch)))
        self._tables: dict[tuple[tuple[int, int], ...], Integers] = {}
        self._kept: dict[bytes, Integers] = {}
        self._blocks: dict[tuple[int, int], Integers] = {}
        self._items: dict[int, list[Item]] = {}

    def is_fit(self) -> bool:
        """Whether there are enough columns for a vector to be worth it."""
        return len(self._columns[0]) > 1

    @cached_property
    def _chunks(self) -> list[list[range]]:
        """Blocks of the fold, along its first variables if those are the same in all parts."""
        whole = [range(size) for size in self._sizes]
        fold, limit = self._form.fold, _DEPTH
        shared = takewhile(lambda v: all(part[v] == whole[v] for part in self._form.parts), fold)
        return list(iterate_slabs(whole, tuple(shared), lambda box: count(box, fold), limit))

    def _get_fold(self, part: Ranges, chunk: int) -> list[range]:
        """Return a part, or the share of it that a block of the fold has."""
        whole = self._sizes
        block = self._chunks[chunk]
        cut_up = [v for v in self._form.fold if len(block[v]) < whole[v]]
        return join(part, block, cut_up)

    @cached_property
    def _boxes(self) -> list[tuple[list[range], list[range]]]:
        """Parts that have terms, and their boxes of rows that are small enough for the cache."""
        found = []
        for part in self._form.parts:
            if all(part):
                largest = self._get_fold(part, 0)
                boxes = [largest]
                for variable in self._form.rows:
                    pieces = self._count_pieces(boxes[0], variable)
                    boxes = [piece for box in boxes for piece in cut(box, variable, pieces)]
                found += [(part, join(part, box, self._form.rows)) for box in boxes]
        return found

    def _count_pieces(self, box: Ranges, variable: int) -> int:
        """Return into how many pieces a box has to be cut along a variable to be small enough."""
        most = len(box[variable])
        return next((n for n in range(1, most) if self._is_small(cut(box, variable, n)[0])), most)

    def _is_small(self, box: Ranges) -> bool:
        fixed = fix(box, self._form.batch, self._groups[0])
        is_direct = find_direct(self._image, fixed) is not None
        size = 0 if is_direct else prod(find_window(self._image, fixed).shape)
        return count(box, self._form.rows) <= _MOST_ROWS and size <= _WINDOW_FLOATS

    @cached_property
    def _group(self) -> int:
        """Tiles of rows that are packed at a time, 0 if all are read in place."""
        form, found = self._form, []
        for part in filter(all, form.parts):
            access = find_direct(self._image, fix(part, form.batch, self._groups[0]))
            steps = [0] if access is None else self._get_offsets(part, form.fold, access.strides)
            found.append(np.median(np.abs(np.diff(steps))) if len(steps) > 1 else 0)
        depth = max(runs.depth for runs in self._runs)
        is_far = min(found, default=0) >= _FAR_BYTES
        return max(1, _GROUP_BYTES // (depth * A_STEP_BYTES)) if is_far else 0

    @cached_property
    def _row_tiles(self) -> list[int]:
        """Tiles that cover the rows of each box."""
        return [-(-count(box, self._form.rows) // ROWS) for _, box in self._boxes]

    def _get_offsets(
        self, ranges: Ranges, variables: Sequence[int], strides: Sequence[int]
    ) -> Integers:
        """Return offsets in bytes of variables that count from 0, by strides of floats."""
        return self._nest(tuple((len(ranges[v]), strides[v] * FLOAT_BYTES) for v in variables))

    def _nest(self, steps: tuple[tuple[int, int], ...]) -> Integers:
        """Return the sums of nested variables, given by how many values and how far apart."""
        if steps not in self._tables:
            table = np.zeros(1, np.int64)
            for size, step in steps:
                table = (table[:, None] + np.arange(size, dtype=np.int64) * step).reshape(-1)
            self._tables[steps] = table
        return self._tables[steps]

    def _get_blocks(self, group: int, chunk: int) -> Integers:
        """Return the blocks of all boxes for the kernel (`Block`)."""
        key = group, chunk
        if key not in self._blocks:
            planned = [self._plan_block(group, chunk, box) for box in range(len(self._boxes))]
            self._blocks[key] = np.array(planned, np.int64)
        return self._blocks[key]

    def _plan_block(self, group: int, chunk: int, box: int) -> Block:
        form = self._form
        part, rows = self._boxes[box]
        ranges = join(self._get_fold(part, chunk), rows, form.rows)
        ranges = fix(ranges, form.batch, self._groups[group])
        access, window = find_direct(self._image, ranges), None
        if access is None:
            window = find_window(self._image, ranges)
            access = window.access
        in_image = self._get_offsets(ranges, form.rows, access.strides)
        moved = (*form.batch, *form.rows)
        block = Block(
            self._keep(np.append(in_image, in_image[-1])),
            len(in_image),
            self._keep(self._plan_steps(ranges, self._chunks[chunk], access)),
            count(ranges, form.fold),
            self._keep(self._get_offsets(ranges, form.rows, _scale(self._out_strides, ranges))),
            sum(self._out_strides[v] * ranges[v].start for v in moved) * FLOAT_BYTES,
            access.offset * FLOAT_BYTES,
        )
        if window is None:
            return block
        planes = self._keep(self._nest(window.places))
        return Block(
            *block[:7], planes, window.shape[0], window.plane, *window.first, *window.shape[1:]
        )

    def _plan_steps(self, ranges: Ranges, chunk: Ranges, access: Strided) -> Integers:
        """Return the offsets of a box's steps in a row and in a panel of a block of the fold."""
        fold = self._form.fold
        panel = [0] * len(ranges)
        for v, stride in zip(fold, row_major([len(chunk[v]) for v in fold]), strict=True):
            panel[v] = stride * COLUMNS
        start = sum(s * (r.start - w.start) for s, r, w in zip(panel, ranges, chunk, strict=True))
        in_panel = self._get_offsets(ranges, fold, _scale(panel, ranges)) + start * FLOAT_BYTES
        return np.stack([self._get_offsets(ranges, fold, access.strides), in_panel], axis=1)

    def _keep(self, table: Integers) -> int:
        """Return the address of a table that will stay where it is, the same one for equal ones."""
        return self._kept.setdefault(table.tobytes(), table.copy()).ctypes.data

    @cached_property
    def _columns(self) -> tuple[Integers, Integers]:
        """The offsets of a group's columns in the other factor and in the output."""
        whole = [range(size) for size in self._sizes]
        columns = self._form.columns
        in_other = self._get_offsets(whole, columns, self._other.strides)
        return in_other, self._get_offsets(whole, columns, self._out_strides)

    @cached_property
    def _runs(self) -> list[Runs]:
        """The runs of each block of the fold."""
        fold, strides = self._form.fold, self._other.strides
        found = []
        for chunk in self._chunks:
            start = sum(strides[v] * chunk[v].start for v in fold) * FLOAT_BYTES
            found.append(find_runs(self._get_offsets(chunk, fold, strides) + start))
        return found

    def _get_items(self) -> list[Item]:
        """Return items of work for as many threads as there are, if there is enough work."""
        threads = get_threads()
        if threads not in self._items:
            depth = max(runs.depth for runs in self._runs)
            size = prod(self._sizes) // len(self._form.parts)
            self._items[threads] = choose_items(
                Work(len(self._groups), len(self._columns[0]), self._row_tiles),
                max(1, min(threads, size // _GRAIN)),
                _PANEL_BYTES // (depth * FLOAT_BYTES * COLUMNS),
            )
        return self._items[threads]

    def run(self, flats: Sequence[Array | None], _step: int) -> Array:
        """Return the output, given the tensors of init, a and b (None for constants)."""
        image, other = flats[self._form.image], flats[3 - self._form.image]
        assert image is not None
        assert other is not None
        init = self._init.read(flats[0])
        starts = self._fixed_starts if flats[0] is None else self._get_starts(init)
        if self._has_bare_parts and (starts.view(np.uint32) == _MINUS_ZERO).any():
            return self._fall_back(flats)
        out = self._make_output(init, starts)
        tensors = Tensors(image.reshape(-1), other.reshape(-1), starts, out.reshape(-1))
        suspects = self._compute(tensors, int(len(self._form.parts) > 1))
        return self._fall_back(flats) if suspects.any() else out

    def _compute(self, tensors: Tensors, counts: int) -> Integers:
        """Write the results that have terms, and return how many each item found to be suspect.

        Args:
            tensors: the tensors of the call.
            counts: the counts of an item: 1, or 0 not to look.
        """
        items = self._get_items()
        suspects = np.zeros((len(items), counts), np.int64)

        def work(first: int, stop: int) -> None:
            while first < stop:
                item, found, first = items[first], suspects[first], first + 1
                while first < stop and items[first][:3] == item[:3]:
                    item = item._replace(boxes=range(item.boxes.start, items[first].boxes.stop))
                    first += 1
                self._compute_item(item, tensors, found)

        share(work, len(items), 1)
        return suspects

    @cached_property
    def _has_bare_parts(self) -> bool:
        """Whether there are parts without terms, of which the results are start values."""
        return not all(all(part) for part in self._form.parts)

    def _make_output(self, init: Array, starts: Array) -> Array:
        """Return the output, with the results of those parts that have no terms."""
        node = self._node
        out = buffers.empty(node.shape, np.float32)
        if self._has_bare_parts:
            out[...] = init.transpose()[(0,) * len(node.fold_shape)].transpose()
            if np.isnan(starts).any():
                out[np.isnan(out)] = NAN
        return out

    @cached_property
    def _fixed_starts(self) -> Array:
        """The start values, where these are a constant."""
        return self._get_starts(self._init.read(None))

    def _get_starts(self, init: Array) -> Array:
        """Return the start values of the sums of each group's columns, and some zeros more."""
        form = self._form
        kept = (*form.batch, *form.columns)
        values = init[tuple(slice(None) if v in kept else 0 for v in range(init.ndim))]
        turned = values.transpose([sorted(kept).index(v) for v in kept])
        columns = len(self._columns[0])
        starts = np.zeros((len(self._groups), columns + COLUMNS), np.float32)
        starts[:, :columns] = turned.reshape(len(starts), columns)
        return starts

    def _compute_item(self, item: Item, tensors: Tensors, suspects: Integers) -> None:
        group, first, stop, boxes = item
        in_other, places = (table[first:stop] for table in self._columns)
        lanes = np.append(in_other, np.repeat(in_other[-1:], -len(in_other) % LANES))
        panels = -(-len(places) // COLUMNS)
        last = len(self._chunks) - 1
        tiles = panels * sum(self._row_tiles[box] for box in boxes) if last else max(1, self._group)
        for chunk, (runs, depth) in enumerate(self._runs):
            blocks = self._get_blocks(group, chunk)[boxes.start : boxes.stop]
            multiply_blocks(
                tensors.image,
                *self._plane,
                self._fill,
                blocks,
                *self._group_starts[group],
                tensors.other,
                lanes,
                runs,
                get_scratch("columns", panels * depth * COLUMNS),
                depth,
                tensors.starts.reshape(-1)[first:],
                tensors.out,
                places,
                get_scratch("window", int(blocks[:, _WINDOW_SHAPE].prod(axis=1).max())),
                get_scratch("sums", tiles * TILE_SIZE),
                chunk == 0,
                chunk == last,
                suspects,
                get_scratch("rows", self._group * depth * A_STEP_BYTES // FLOAT_BYTES),
                get_scratch("tables", depth * STEP_BYTES // FLOAT_BYTES + TILE_SIZE).view(np.int64),
                self._group,
            )

    @cached_property
    def _group_starts(self) -> list[list[int]]:
        """Offsets in bytes of each group's columns in the other factor, and of its start values."""
        strides = [self._other.strides[v] for v in self._form.batch]
        table = np.empty((len(self._groups), 2), np.int64)
        table[:, 0] = [self._other.offset + _multiply(strides, group) for group in self._groups]
        table[:, 1] = np.arange(len(table)) * (len(self._columns[0]) + COLUMNS)
        return (table * FLOAT_BYTES).tolist()


def _multiply(strides: Sequence[int], values: Sequence[int]) -> int:
    return sum(stride * value for stride, value in zip(strides, values, strict=True))


def _scale(strides: Sequence[int], ranges: Ranges) -> list[int]:
    return [stride * r.step for stride, r in zip(strides, ranges, strict=True)]
