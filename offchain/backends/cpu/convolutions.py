"""The plans of convolutions: contractions one factor of which is a window in an image.

Where no coordinate leaves the image, an element's address is a sum of one number for each variable,
and the kernel reads the image in place, through tables of these numbers. A box that a coordinate
leaves is first copied with its border. An item of work is some columns of some boxes: it packs the
columns' factors for a block of the fold once and multiplies all its boxes by them. All items are
one call of machine code, which threads share.
"""

from collections.abc import Callable, Sequence
from functools import cached_property
from itertools import product, takewhile
from math import prod
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from moot.offchain.arithmetic.environment import report_change
from moot.offchain.backends.cpu.calls import (
    Layout,
    SharedSequences,
    call,
    lay_out_whole,
    reserve_scratch,
    share_out,
)
from moot.offchain.backends.cpu.convolution_items import Item, Work, choose_items
from moot.offchain.backends.cpu.convolution_runs import Runs, find_runs
from moot.offchain.backends.cpu.convolution_starts import Starts
from moot.offchain.backends.cpu.kernels.contraction.convolution import TILE_BYTES, multiply_items
from moot.offchain.backends.cpu.kernels.contraction.convolution_packing import (
    STEP_BYTES,
    WORD_BYTES,
)
from moot.offchain.backends.cpu.kernels.contraction.convolution_records import (
    Block,
    Chunk,
    Part,
    Sizes,
)
from moot.offchain.backends.cpu.kernels.contraction.tile import (
    A_STEP_BYTES,
    B_STEP_BYTES,
    COLUMNS,
    FLOAT_BYTES,
    ROWS,
)
from moot.offchain.backends.cpu.sliding import (
    Ranges,
    Sliding,
    count,
    cut,
    find_direct,
    find_window,
    fix,
    join,
)
from moot.offchain.commitments.tensors import Array
from moot.offchain.native import buffers
from moot.offchain.native.machine import get_second_cache_bytes
from moot.offchain.native.memory_layout import Memory
from moot.offchain.native.sequences import UNSUITABLE, Call, Place, Word
from moot.offchain.native.threads import get_threads
from moot.offchain.native.vectors import LANES, NAN, fill_lines
from moot.offchain.planning.accesses import Strided, find_strided, iterate_slabs, row_major
from moot.offchain.programs.graph import Node

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

_SUSPECTS = 5
"""The number of the tensor of a run to which it is written whether a result is suspect."""

_FAR_BYTES = 2048
"""Distance of steps in the image from which most lie in another page than the step before."""

_GROUP_BYTES = get_second_cache_bytes() // 16
"""Bytes of the second-level cache that packed rows may take, beside columns and their results."""

_MINUS_ZERO = 1 << 31
"""The bits of -0."""


class Places(NamedTuple):
    """Where the tensors of a call will be, and the start values (`Starts`).

    `suspects` is where it is written whether a result is suspect, 0 not to look.
    """

    image: Word
    other: Word
    starts: Word
    out: Word
    suspects: Word = 0


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
        self._plane = (1, 1, *(row.size for row in self._image.rows))[-2:]
        strided = find_strided(node.operands[3 - sliding.image].rows, self._sizes)
        assert strided is not None
        self._other = strided
        self._starts = Starts(node, sliding.batch, sliding.columns)
        self._out_strides = row_major(node.shape) + (0,) * len(node.fold_shape)
        self._groups = list(product(*(range(self._sizes[v]) for v in sliding.batch)))
        self._tables: dict[tuple[tuple[int, int], ...], Integers] = {}
        self._kept: dict[bytes, Integers] = {}
        self._sequences = SharedSequences(_SUSPECTS)

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

    @cached_property
    def _blocks(self) -> Integers:
        """The blocks of all boxes, for each group and each block of the fold (`Block`)."""
        numbers = range(len(self._groups)), range(len(self._chunks)), range(len(self._boxes))
        return np.array([self._plan_block(*place) for place in product(*numbers)], np.int64)

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
    def _lanes(self) -> Integers:
        """The columns in the other factor as vectors of them: the last one is repeated."""
        in_other = self._columns[0]
        return np.append(in_other, np.repeat(in_other[-1:], -len(in_other) % LANES))

    @cached_property
    def _runs(self) -> list[Runs]:
        """The runs of each block of the fold."""
        fold, strides = self._form.fold, self._other.strides
        found = []
        for chunk in self._chunks:
            start = sum(strides[v] * chunk[v].start for v in fold) * FLOAT_BYTES
            found.append(find_runs(self._get_offsets(chunk, fold, strides) + start))
        return found

    def run(self, flats: Sequence[Array | None], _step: int) -> Array:
        """Return the output, given the tensors of init, a and b (None for constants)."""
        starts = self._starts.read(flats[0])
        if self._has_bare_parts and (starts.view(np.uint32) == _MINUS_ZERO).any():
            return self._fall_back(flats)
        out, suspects = self._make_output(flats[0], starts), np.zeros(1, np.int64)
        factors = flats[self._form.image], flats[3 - self._form.image]
        sequence = self._sequences.find(self._list_products)
        if sequence.perform([None, *factors, starts, out, suspects]) == UNSUITABLE:
            raise report_change()
        return self._fall_back(flats) if suspects.any() else out

    def _list_products(self, memory: Memory) -> list[Call]:
        """Return the calls that write the results that have terms, in a run."""
        places = Places(*(Place(1 + number) for number in range(_SUSPECTS)))
        if len(self._form.parts) == 1:
            places = places._replace(suspects=0)
        return [self._multiply(places, memory)]

    @property
    def is_called(self) -> bool:
        """Whether no result can be suspect, and a few calls bring the start values into place."""
        return len(self._form.parts) == 1 and self._starts.reader.is_short

    def list_calls(
        self, sources: Sequence[Place | None], targets: Sequence[Place], memory: Memory
    ) -> list[Call]:
        """Return the calls that compute the output."""
        image, other = sources[self._form.image], sources[3 - self._form.image]
        assert image is not None
        assert other is not None
        starts, calls = self._starts.list_calls(sources[0], memory)
        return [*calls, self._multiply(Places(image, other, starts, *targets), memory)]

    def _multiply(self, places: Places, memory: Memory) -> Call:
        """Return the call that writes the results that have terms, which threads share."""
        size = prod(self._sizes) // len(self._form.parts)
        threads = max(1, min(get_threads(), size // _GRAIN))
        items = self._choose_items(threads)
        rooms, room_bytes = self._plan_rooms(items)
        geometry = *self._plane, self._image.value, len(self._boxes), self._group, *rooms
        chunks = [Chunk(self._keep(runs), len(runs), depth) for runs, depth in self._runs]
        parts = [self._make_part(item) for item in items]
        tables = (Sizes(*geometry), chunks, self._blocks, self._lanes, self._columns[1], parts)
        scratch, own = reserve_scratch(memory, room_bytes)
        laid_out = (self._lay_out(np.array(table, np.int64)) for table in tables)
        arguments = *places, scratch, *laid_out, 0, len(items)
        products = call(multiply_items, arguments, memory)
        grain = 1 if threads > 1 else len(items)
        return share_out(products, grain, scratch=(products.words.index(scratch), own))

    def _lay_out(self, table: Integers) -> Layout:
        """Return a table as an argument of a call, and keep it."""
        return lay_out_whole(self._keep(table), WORD_BYTES, table.shape)

    def _choose_items(self, threads: int) -> list[Item]:
        """Return items of work for so many threads."""
        depth = max(runs.depth for runs in self._runs)
        return choose_items(
            Work(len(self._groups), len(self._columns[0]), self._row_tiles),
            threads,
            _PANEL_BYTES // (depth * FLOAT_BYTES * COLUMNS),
        )

    def _make_part(self, item: Item) -> Part:
        """Return an item as the kernel takes it."""
        strides = [self._other.strides[v] for v in self._form.batch]
        start = self._other.offset + _multiply(strides, self._groups[item.group])
        return Part(
            item.first,
            item.stop,
            start * FLOAT_BYTES,
            item.group * self._starts.step_bytes,
            item.group * len(self._chunks) * len(self._boxes) + item.boxes.start,
            len(item.boxes),
        )

    def _plan_rooms(self, items: Sequence[Item]) -> tuple[list[int], int]:
        """Return where in scratch memory is what (`Sizes`), and the bytes of all of it."""
        panels = max(-(-(item.stop - item.first) // COLUMNS) for item in items)
        depth = max(runs.depth for runs in self._runs)
        is_whole = len(self._chunks) == 1
        tiles = max(1, self._group) if is_whole else panels * sum(self._row_tiles)
        rooms = (
            panels * depth * B_STEP_BYTES,
            int(self._blocks[:, _WINDOW_SHAPE].prod(axis=1).max()) * FLOAT_BYTES,
            depth * STEP_BYTES + (ROWS + 1) * WORD_BYTES,
            self._group * depth * A_STEP_BYTES,
            tiles * TILE_BYTES,
        )
        ends = np.cumsum([fill_lines(room) for room in rooms])
        return ends[:-1].tolist(), int(ends[-1])

    @cached_property
    def _has_bare_parts(self) -> bool:
        """Whether there are parts without terms, of which the results are start values."""
        return not all(all(part) for part in self._form.parts)

    def _make_output(self, start: Array | None, starts: Array) -> Array:
        """Return the output, with the results of those parts that have no terms."""
        node = self._node
        out = buffers.empty(node.shape, np.float32)
        if self._has_bare_parts:
            init = self._starts.reader.read(start)
            out[...] = init.transpose()[(0,) * len(node.fold_shape)].transpose()
            if np.isnan(starts).any():
                out[np.isnan(out)] = NAN
        return out


def _multiply(strides: Sequence[int], values: Sequence[int]) -> int:
    return sum(stride * value for stride, value in zip(strides, values, strict=True))


def _scale(strides: Sequence[int], ranges: Ranges) -> list[int]:
    return [stride * r.step for stride, r in zip(strides, ranges, strict=True)]
