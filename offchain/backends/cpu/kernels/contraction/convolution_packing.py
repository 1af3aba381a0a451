"""The copies that convolutions make first: windows of an image, and panels of columns."""

from collections.abc import Callable, Sequence

import numpy as np
import numpy.typing as npt
from llvmlite import ir
from numba.core import types

from moot.offchain.backends.cpu.kernels.contraction.tile import (
    A_STEP_BYTES,
    FLOAT_BYTES,
    ROWS,
)
from moot.offchain.native import vectors
from moot.offchain.native.compiled import emitted, subroutine
from moot.offchain.native.vectors import CACHE_LINE_BYTES, FLOAT, INDEX, LANES, VECTOR_BYTES, WORD
from moot.offchain.native.words import load_word

Integers = npt.NDArray[np.int64]

WORD_BYTES = 8

STEP_BYTES = 2 * WORD_BYTES
"""Bytes of the entry of a step (`Block`)."""

RUN_FIELDS = 3

_AHEAD_BYTES = 4096
"""What is asked for before it is packed: as long as memory takes to answer."""

_VECTOR = ir.VectorType(FLOAT, LANES)


@subroutine
def copy_window(
    source: int,
    size: tuple[int, int],
    plane: int,
    planes: int,
    count: int,
    first: tuple[int, int],
    shape: tuple[int, int],
    fill: int,
    target: int,
) -> None:
    """Copy a window of a tensor of planes, rows and columns, with `fill` for what lies outside.

    Args:
        source: address of the tensor, float32.
        size: its rows and columns.
        plane: number of a plane.
        planes: address of `count` int64: the numbers of the window's planes, that one's subtracted.
        count: planes of the window.
        first: its first row and column.
        shape: its rows and columns.
        fill: the bits of what a place outside the tensor holds.
        target: address of the window.
    """
    fill_border(size, count, first, shape, fill, target)
    copy_inside(source, size, plane, planes, count, first, shape, target)


@subroutine
def fill_border(
    size: tuple[int, int],
    count: int,
    first: tuple[int, int],
    shape: tuple[int, int],
    fill: int,
    target: int,
) -> None:
    """Fill the places of a window that lie outside the tensor; arguments as of `copy_window`."""
    rows, columns = shape
    top, bottom = _find_inside(first[0], rows, size[0])
    left, right = _find_inside(first[1], columns, size[1])
    for number in range(count * rows):
        line = target + number * columns * FLOAT_BYTES
        if top <= number % rows < bottom:
            fill_line(line, 0, left, fill)
            fill_line(line, right, columns, fill)
        else:
            fill_line(line, 0, columns, fill)


@subroutine
def copy_inside(
    source: int,
    size: tuple[int, int],
    plane: int,
    planes: int,
    count: int,
    first: tuple[int, int],
    shape: tuple[int, int],
    target: int,
) -> None:
    """Copy the places of a window that lie in the tensor; arguments as of `copy_window`."""
    height, width = size
    rows, columns = shape
    top, bottom = _find_inside(first[0], rows, height)
    left, right = _find_inside(first[1], columns, width)
    whole = left + (right - left) // LANES * LANES
    for number in range(count):
        here = plane + load_word(planes + number * WORD_BYTES)
        for row in range(top, bottom):
            line = target + (number * rows + row) * columns * FLOAT_BYTES
            start = source + ((here * height + first[0] + row) * width + first[1]) * FLOAT_BYTES
            for x in range(left, whole, LANES):
                _copy_vector(start + x * FLOAT_BYTES, line + x * FLOAT_BYTES)
            if whole > left:
                last = (right - LANES) * FLOAT_BYTES
                _copy_vector(start + last, line + last)
            elif whole < right:
                inside = left * FLOAT_BYTES
                _copy_first(start + inside, right - left, line + inside)


@subroutine
def _find_inside(first: int, length: int, size: int) -> tuple[int, int]:
    """The first place of a window's axis that lies in the tensor, and the end of those that do."""
    start = min(max(-first, 0), length)
    return start, max(min(size - first, length), start)


@subroutine
def fill_line(line: int, first: int, stop: int, bits: int) -> None:
    """Fill the floats from `first` to `stop` of a line with one of these bits."""
    for x in range(first, stop):
        _store_bits(bits, line + x * FLOAT_BYTES)


@emitted(types.void, types.int64, types.intp)
def _store_bits(builder: ir.IRBuilder, bits: ir.Value, target: ir.Value) -> None:
    vectors.store(builder, builder.trunc(bits, INDEX), target)


@emitted(types.void, types.intp, types.intp)
def _copy_vector(builder: ir.IRBuilder, source: ir.Value, target: ir.Value) -> None:
    vectors.store(builder, vectors.load(builder, _VECTOR, source), target)


@emitted(types.void, *[types.intp] * 3)
def _copy_first(builder: ir.IRBuilder, source: ir.Value, lanes: ir.Value, target: ir.Value) -> None:
    """Copy lanes of a vector; no other memory is touched."""
    _emit_copy(builder, source, lanes, target)


def _emit_copy(builder: ir.IRBuilder, source: ir.Value, lanes: ir.Value, target: ir.Value) -> None:
    vectors.store_first(builder, vectors.load_first(builder, _VECTOR, source, lanes), target, lanes)


@emitted(types.void, *[types.intp] * 3)
def _copy_lanes(builder: ir.IRBuilder, source: ir.Value, lanes: ir.Value, target: ir.Value) -> None:
    vectors.store(builder, vectors.load_first(builder, _VECTOR, source, lanes), target)


@subroutine
def pack_rows(source: int, rows: int, count: int, steps: int, depth: int, target: int) -> None:
    """Pack rows into panels of `ROWS`: a step's elements of the panel's rows, then the next step's.

    Args:
        source: address of the rows' origin.
        rows: address of `count` int64: their offsets.
        count: how many there are.
        steps: address of the steps' entries (`Block`).
        depth: how many there are.
        target: address of the panels. If the rows are odd in number, there is one of zeros behind.
    """
    first = 0
    while first < count:
        start = load_word(rows + first * WORD_BYTES)
        end, distance = first + 1, FLOAT_BYTES
        if end < count:
            distance = load_word(rows + end * WORD_BYTES) - start
        while (
            end < count and load_word(rows + end * WORD_BYTES) == start + (end - first) * distance
        ):
            end += 1
        lane = first % ROWS
        if distance != FLOAT_BYTES or lane:
            end = min(end, first - lane + ROWS)
        place = target + first // ROWS * depth * A_STEP_BYTES + lane * FLOAT_BYTES
        if distance == FLOAT_BYTES:
            _pack_run(source + start, end - first, steps, depth, place)
        else:
            _pack_spread(source + start, distance, end - first, steps, depth, place)
        first = end
    if count % 2:
        for step in range(depth):
            row = target + (count // ROWS * depth + step) * A_STEP_BYTES
            fill_line(row, count % ROWS, count % ROWS + 1, 0)


@emitted(types.void, *[types.intp] * 5)
def _pack_run(
    builder: ir.IRBuilder,
    source: ir.Value,
    count: ir.Value,
    steps: ir.Value,
    depth: ir.Value,
    target: ir.Value,
) -> None:
    """Pack rows that lie side by side, a step in all panels before the next step."""
    panels = builder.udiv(builder.add(count, WORD(ROWS - 1)), WORD(ROWS))
    panel_bytes = builder.mul(depth, WORD(A_STEP_BYTES))
    ahead = builder.udiv(WORD(_AHEAD_BYTES // FLOAT_BYTES), count)

    def pack_step(step: ir.Value, _: list[ir.Value]) -> list[ir.Value]:
        start, soon = _emit_starts(builder, source, steps, depth, step, ahead)
        place = builder.add(target, builder.mul(step, WORD(A_STEP_BYTES)))
        distance = builder.sub(soon, start)

        def pack_panel(_: ir.Value, carried: list[ir.Value]) -> list[ir.Value]:
            at_source, at_target, left = carried
            soon = builder.add(at_source, distance)
            vectors.prefetch(builder, soon, ROWS * FLOAT_BYTES, level=2)
            is_whole = builder.icmp_signed(">", left, WORD(ROWS))
            height = builder.select(is_whole, WORD(ROWS), left)
            for lane in range(0, ROWS, LANES):
                lanes, offset = builder.sub(height, WORD(lane)), WORD(lane * FLOAT_BYTES)
                here, there = (builder.add(at, offset) for at in (at_source, at_target))
                _emit_copy(builder, here, lanes, there)
            return [
                builder.add(at_source, WORD(ROWS * FLOAT_BYTES)),
                builder.add(at_target, panel_bytes),
                builder.sub(left, WORD(ROWS)),
            ]

        vectors.repeat(builder, panels, [start, place, count], pack_panel)
        return []

    vectors.repeat(builder, depth, [], pack_step)


def _emit_starts(
    builder: ir.IRBuilder,
    source: ir.Value,
    steps: ir.Value,
    depth: ir.Value,
    step: ir.Value,
    ahead: ir.Value,
) -> list[ir.Value]:
    """The addresses that a step has, and the one so many steps ahead, or the last one."""
    last = builder.sub(depth, WORD(1))
    later = builder.add(step, ahead)
    later = builder.select(builder.icmp_signed("<", later, last), later, last)
    entries = [builder.add(steps, builder.mul(i, WORD(STEP_BYTES))) for i in (step, later)]
    return [builder.add(source, vectors.load(builder, WORD, entry)) for entry in entries]


@emitted(types.void, *[types.intp] * 6)
def _pack_spread(
    builder: ir.IRBuilder,
    source: ir.Value,
    distance: ir.Value,
    count: ir.Value,
    steps: ir.Value,
    depth: ir.Value,
    target: ir.Value,
) -> None:
    """Pack rows of one panel, `distance` bytes apart."""
    ahead = WORD(_AHEAD_BYTES // (2 * CACHE_LINE_BYTES))
    last = builder.mul(distance, builder.sub(count, WORD(1)))

    def pack_step(step: ir.Value, _: list[ir.Value]) -> list[ir.Value]:
        start, soon = _emit_starts(builder, source, steps, depth, step, ahead)
        for place in (soon, builder.add(soon, last)):
            vectors.prefetch(builder, place, FLOAT_BYTES, level=2)
        place = builder.add(target, builder.mul(step, WORD(A_STEP_BYTES)))
        for lane in range(0, ROWS, LANES):
            lanes = builder.sub(count, WORD(lane))
            here = builder.add(start, builder.mul(distance, WORD(lane)))
            vector = vectors.gather_first(builder, _VECTOR, here, distance, lanes)
            there = builder.add(place, WORD(lane * FLOAT_BYTES))
            vectors.store_first(builder, vector, there, lanes)
        return []

    vectors.repeat(builder, depth, [], pack_step)


@subroutine
def pack_columns(
    source: int,
    columns: Integers,
    count: int,
    runs: int,
    run_count: int,
    depth: int,
    target: int,
    vectors_per_panel: int,
) -> None:
    """Pack columns into panels: a step's elements of the panel's columns, then the next step's.

    Args:
        source: address of the matrix's first element, float32.
        columns: (J,) int64: bytes from there to each column; the last is repeated until J is a
            multiple of `LANES`.
        count: columns.
        runs: address of `RUN_FIELDS` int64 a run: first step, number of steps (at most `LANES`) and
            bytes to the first element, for steps whose elements lie side by side.
        run_count: how many there are.
        depth: steps.
        target: address of the panels.
        vectors_per_panel: vectors that a step takes in a panel. What lies beyond the columns gets
            any value.
    """
    is_dense, distance = _measure(columns, count)
    by_run = run_count > 1 and abs(distance) < abs(
        load_word(runs + (RUN_FIELDS + 2) * WORD_BYTES) - load_word(runs + 2 * WORD_BYTES)
    )
    groups = len(columns) // LANES
    step_bytes = vectors_per_panel * VECTOR_BYTES
    for number in range(groups * run_count):
        if by_run:
            run, group = number // groups, number % groups
        else:
            group, run = number // run_count, number % run_count
        entry = runs + run * RUN_FIELDS * WORD_BYTES
        first_step, steps = load_word(entry), load_word(entry + WORD_BYTES)
        first = group * LANES
        panel, vector = group // vectors_per_panel, group % vectors_per_panel
        packed = target + (panel * depth + first_step) * step_bytes + vector * VECTOR_BYTES
        place = source + load_word(entry + 2 * WORD_BYTES)
        if is_dense:
            for step in range(steps):
                from_step = place + columns[first] + step * FLOAT_BYTES
                _copy_lanes(from_step, min(LANES, count - first), packed + step * step_bytes)
        else:
            lanes = columns.ctypes.data + first * WORD_BYTES
            _turn_run(place, lanes, steps, packed, step_bytes)


@subroutine
def _measure(columns: Integers, count: int) -> tuple[bool, int]:
    """Whether columns lie side by side, and the distance of the first two."""
    is_dense = True
    for column in range(count):
        is_dense &= columns[column] == columns[0] + column * FLOAT_BYTES
    return is_dense, columns[min(1, count - 1)] - columns[0]


@emitted(types.void, *[types.intp] * 5)
def _turn_run(
    builder: ir.IRBuilder,
    source: ir.Value,
    columns: ir.Value,
    steps: ir.Value,
    target: ir.Value,
    target_step: ir.Value,
) -> None:
    """Store vectors of columns for up to `LANES` steps that lie side by side in each column."""
    loaded = []
    for lane in range(LANES):
        column = vectors.load(builder, WORD, columns, lane * WORD_BYTES)
        loaded.append(vectors.load_first(builder, _VECTOR, builder.add(source, column), steps))

    def store(step: int, vector: ir.Value) -> None:
        place = builder.add(target, builder.mul(target_step, WORD(step)))
        vectors.store(builder, vector, place)

    emit_first(builder, steps, vectors.transpose(builder, loaded), store)


def emit_first(
    builder: ir.IRBuilder,
    count: ir.Value,
    items: Sequence[ir.Value],
    emit: Callable[[int, ir.Value], None],
) -> None:
    """Emit code that does something with the first `count` items only, with at least one."""
    end = builder.append_basic_block("end")
    for number, item in enumerate(items):
        if number:
            following = builder.append_basic_block("item")
            builder.cbranch(builder.icmp_signed("<", WORD(number), count), following, end)
            builder.position_at_end(following)
        emit(number, item)
    builder.branch(end)
    builder.position_at_end(end)
