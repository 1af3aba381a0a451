"""Indexed copies and folds: nested loops over a near tensor, and a far one that indices move in.

A gather copies from far to near, a scatter folds near elements into far ones, in the order of the
loops. Each index is read in the outermost loop that knows its place, so that what one row of loops
has in common is computed once.
"""

import ctypes
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cache, reduce
from typing import ClassVar

from llvmlite import ir

from moot.offchain.arithmetic.functions import DType, Function
from moot.offchain.native import emit, native, vectors
from moot.offchain.native.vectors import LANES, WORD
from moot.offchain.planning.preconditions import Form, Precondition

_NAME = "move"

_Body = Callable[[], None]


@dataclass(frozen=True, slots=True)
class Index:
    """A tensor of integers that says where the far element is.

    Attributes:
        dtype: its type, INT64 or INT32.
        offset: its first element.
        strides: its strides along the loops, in elements.
        size: values from 0 to below it are inside.
        step: how far one more moves the far element, in elements.
    """

    dtype: DType
    offset: int
    strides: tuple[int, ...]
    size: int
    step: int

    @property
    def level(self) -> int:
        """The number of loops outside of which it is not known; 0 if it never changes."""
        return max((loop + 1 for loop, stride in enumerate(self.strides) if stride), default=0)


@dataclass(frozen=True, slots=True)
class Indexed(Form):
    """An indexed copy or fold.

    Attributes:
        dtype: the type of the elements.
        function: None for a gather; COPY for a scatter that assigns, otherwise what it folds with.
        fill: the bits that a gather copies where an index is not inside.
        sizes: the extents of the loops, the outermost first; at least one.
        near: the first near element and its strides along the loops, in elements.
        far: likewise, where all indices are 0.
        indices: the indices.
        shared: the loop whose parts may run at the same time.
    """

    dtype: DType
    function: Function | None
    fill: int
    sizes: tuple[int, ...]
    near: tuple[int, tuple[int, ...]]
    far: tuple[int, tuple[int, ...]]
    indices: tuple[Index, ...]
    shared: int

    preconditions: ClassVar[tuple[Precondition, ...]] = (
        Precondition(
            "loops",
            "there are loops, each of at least one turn, and one of them may be shared",
            lambda form: min(form.sizes, default=0) > 0 and 0 <= form.shared < len(form.sizes),
        ),
        Precondition(
            "strides",
            "every access has a stride along each loop",
            lambda form: all(
                len(strides) == len(form.sizes)
                for strides in (form.near[1], form.far[1], *(it.strides for it in form.indices))
            ),
        ),
        Precondition(
            "types",
            "indices are INT64 or INT32",
            lambda form: all(it.dtype in {DType.INT64, DType.INT32} for it in form.indices),
        ),
    )


class Kernel:
    """The machine code of an indexed copy or fold.

    Attributes:
        address: address of the function behind `run`.
    """

    def __init__(self, task: Indexed) -> None:
        self._run = native.load(_Writer(task).module, _NAME, *[ctypes.c_int64] * 5)
        self.address = native.get_entry_address(self._run)

    def run(self, near: int, far: int, indices: int, first: int, stop: int) -> None:
        """Run a part of the shared loop, at least one turn.

        Args:
            near: address of the near tensor.
            far: address of the far tensor.
            indices: address of the addresses of the indices.
            first: where the part begins.
            stop: where it ends.
        """
        self._run(near, far, indices, first, stop)


@cache
def compile_indexed(task: Indexed) -> Kernel:
    """Return the kernel of an indexed copy or fold; equal ones share it."""
    return Kernel(task)


@dataclass(frozen=True, slots=True)
class _Place:
    """Where a turn of the loops is: addresses, and whether the indices read so far are inside."""

    near: ir.Value
    far: ir.Value
    indices: tuple[ir.Value, ...]
    inside: ir.Value | None


_Lanes = Callable[[_Place, int, ir.Value | None], None]
"""(where the first turn is, the lanes of a vector, how many of them are there; None if all are)."""


class _Writer:
    """The writer of the function (near, far, indices, first, stop)."""

    def __init__(self, task: Indexed) -> None:
        self.module = ir.Module()
        self._task = task
        self._width = task.dtype.width
        signature = ir.FunctionType(ir.VoidType(), [WORD] * 5)
        function = ir.Function(self.module, signature, _NAME)
        self._builder = builder = ir.IRBuilder(function.append_basic_block())
        near, far, indices, self._first, self._stop = function.args
        starts = tuple(
            builder.add(
                vectors.load(builder, WORD, indices, 8 * i), WORD(index.offset * _bytes(index))
            )
            for i, index in enumerate(task.indices)
        )
        place = _Place(
            builder.add(near, WORD(task.near[0] * self._width)),
            builder.add(far, WORD(task.far[0] * self._width)),
            starts,
            None,
        )
        self._write_loop(0, self._read_indices(0, place))
        builder.ret_void()

    def _count(self, loop: int) -> tuple[ir.Value, ir.Value]:
        """The first turn of a loop, and how many there are."""
        if loop == self._task.shared:
            return self._first, self._builder.sub(self._stop, self._first)
        return WORD(0), WORD(self._task.sizes[loop])

    def _write_loop(self, loop: int, place: _Place) -> None:
        if loop == len(self._task.sizes) - 1:
            self._write_last(place)
            return
        first, count = self._count(loop)

        def turn(number: ir.Value, _: Sequence[ir.Value]) -> list[ir.Value]:
            here = self._step(loop, place, self._builder.add(first, number))
            self._write_loop(loop + 1, self._read_indices(loop + 1, here))
            return []

        vectors.repeat(self._builder, count, [], turn)

    def _step(self, loop: int, place: _Place, number: ir.Value) -> _Place:
        """The place at a turn of a loop."""
        task = self._task

        def skip(address: ir.Value, step: int) -> ir.Value:
            if not step:
                return address
            return self._builder.add(address, self._builder.mul(number, WORD(step)))

        return _Place(
            skip(place.near, task.near[1][loop] * self._width),
            skip(place.far, task.far[1][loop] * self._width),
            tuple(
                skip(address, index.strides[loop] * _bytes(index))
                for address, index in zip(place.indices, task.indices, strict=True)
            ),
            place.inside,
        )

    def _read_indices(self, level: int, place: _Place) -> _Place:
        """Read the indices that so many loops make known, and move the far address by them."""
        builder, far, inside = self._builder, place.far, place.inside
        for address, index in zip(place.indices, self._task.indices, strict=True):
            if index.level != level:
                continue
            value = self._read_index(address, index)
            fits = builder.icmp_unsigned("<", value, WORD(index.size))
            inside = fits if inside is None else builder.and_(inside, fits)
            far = builder.add(far, builder.mul(value, WORD(index.step * self._width)))
        return _Place(place.near, far, place.indices, inside)

    def _read_index(self, address: ir.Value, index: Index) -> ir.Value:
        """The value of an index."""
        value = vectors.load(self._builder, emit.STORED[index.dtype], address)
        return value if index.dtype is DType.INT64 else self._builder.sext(value, WORD)

    def _write_last(self, place: _Place) -> None:
        """Write the innermost loop: in vectors where that keeps the order, or turn by turn."""
        task, last = self._task, len(self._task.sizes) - 1
        is_moved = any(index.level == last + 1 for index in task.indices)
        is_side_by_side = task.near[1][last] == 1 and (is_moved or task.far[1][last] == 1)
        if is_side_by_side and not is_moved:
            self._write_if(
                place.inside,
                lambda: self._repeat_lanes(place, self._move),
                lambda: self._repeat_lanes(place, self._fill),
            )
        elif is_side_by_side and task.function is None:
            self._repeat_lanes(place, self._gather_lanes)
        else:
            self._write_turns(place)

    def _write_if(self, inside: ir.Value | None, then: _Body, otherwise: _Body) -> None:
        if inside is None:
            then()
        elif self._task.function is not None:
            with self._builder.if_then(inside):
                then()
        else:
            with self._builder.if_else(inside) as (yes, no):
                with yes:
                    then()
                with no:
                    otherwise()

    def _repeat_lanes(self, place: _Place, body: _Lanes) -> None:
        """Write the innermost loop in vectors, whose last one may have fewer lanes."""
        builder, last = self._builder, len(self._task.sizes) - 1
        first, count = self._count(last)
        size = self._task.sizes[last]
        lanes = min(LANES, 1 << max(0, size.bit_length() - 1))

        def whole(number: ir.Value, _: Sequence[ir.Value]) -> list[ir.Value]:
            turn = builder.add(first, builder.mul(number, WORD(lanes)))
            body(self._step(last, place, turn), lanes, None)
            return []

        wholes = builder.udiv(count, WORD(lanes))
        with builder.if_then(builder.icmp_unsigned(">", wholes, WORD(0))):
            vectors.repeat(builder, wholes, [], whole)
        rest = builder.urem(count, WORD(lanes))
        with builder.if_then(builder.icmp_unsigned(">", rest, WORD(0))):
            turn = builder.add(first, builder.mul(wholes, WORD(lanes)))
            body(self._step(last, place, turn), lanes, rest)

    def _load(self, kind: ir.Type, address: ir.Value, count: ir.Value | None) -> ir.Value:
        if count is None:
            return vectors.load(self._builder, kind, address)
        return vectors.load_first(self._builder, kind, address, count)

    def _store(self, value: ir.Value, address: ir.Value, count: ir.Value | None) -> None:
        if count is None:
            vectors.store(self._builder, value, address)
        else:
            vectors.store_first(self._builder, value, address, count)

    @property
    def _kind(self) -> ir.Type:
        """The type in memory; what is only copied is integers, so that no bit changes."""
        if self._task.function in {None, Function.COPY}:
            return ir.IntType(8 * self._width)
        return emit.STORED[self._task.dtype]

    def _combine(self, before: ir.Value, operand: ir.Value) -> ir.Value:
        """The stored vector after folding a stored vector into another."""
        builder, dtype, function = self._builder, self._task.dtype, self._task.function
        if function is None or function is Function.COPY:
            return operand
        x, y = (emit.from_stored(builder, dtype, value) for value in (before, operand))
        return emit.to_stored(
            builder, dtype, emit.emit(builder, function, (dtype, dtype), dtype, (x, y))
        )

    def _move(self, here: _Place, lanes: int = 1, count: ir.Value | None = None) -> None:
        """Copy or fold neighbours into neighbours."""
        kind = ir.VectorType(self._kind, lanes)
        if self._task.function is None:
            self._store(self._load(kind, here.far, count), here.near, count)
            return
        before, operand = (self._load(kind, a, count) for a in (here.far, here.near))
        self._store(self._combine(before, operand), here.far, count)

    def _fill(self, here: _Place, lanes: int = 1, count: ir.Value | None = None) -> None:
        """Fill neighbours."""
        constant = ir.Constant(ir.VectorType(self._kind, lanes), [self._task.fill] * lanes)
        self._store(constant, here.near, count)

    def _gather_lanes(self, here: _Place, lanes: int, count: ir.Value | None) -> None:
        """Copy elements that indices name one by one to neighbours.

        Where all of a vector are inside, single loads are faster than the processor's gathers.
        """
        builder = self._builder
        values, mask = self._read_all_lanes(here, lanes, count)
        if count is not None or mask is None:
            self._gather_masked(here, values, mask, lanes, count)
            return
        together = ir.IntType(lanes)
        is_inside = builder.icmp_unsigned("==", builder.bitcast(mask, together), together(-1))
        with builder.if_else(is_inside, likely=True) as (yes, no):
            with yes:
                self._gather_singly(here, lanes)
            with no:
                self._gather_masked(here, values, mask, lanes, count)

    def _read_all_lanes(
        self, here: _Place, lanes: int, count: ir.Value | None
    ) -> tuple[list[tuple[Index, ir.Value]], ir.Value | None]:
        """The values of the indices that the innermost loop moves, and which lanes are copied."""
        builder, words = self._builder, ir.VectorType(WORD, lanes)
        masks, found = [], []
        if count is not None:
            numbers = ir.Constant(words, list(range(lanes)))
            masks.append(builder.icmp_unsigned("<", numbers, vectors.splat(builder, count, lanes)))
        if here.inside is not None:
            masks.append(vectors.splat(builder, here.inside, lanes))
        for address, index in zip(here.indices, self._task.indices, strict=True):
            if index.level == len(self._task.sizes):
                values = self._read_lanes(address, index, lanes, count)
                found.append((index, values))
                size = ir.Constant(words, [index.size] * lanes)
                masks.append(builder.icmp_unsigned("<", values, size))
        return found, reduce(builder.and_, masks) if masks else None

    def _gather_singly(self, here: _Place, lanes: int) -> None:
        """Copy the elements of a vector one by one; all indices are inside."""
        builder, task = self._builder, self._task
        step = task.far[1][-1] * self._width
        for lane in range(lanes):
            far = builder.add(here.far, WORD(lane * step))
            for address, index in zip(here.indices, task.indices, strict=True):
                if index.level == len(task.sizes):
                    skipped = WORD(lane * index.strides[-1] * _bytes(index))
                    value = self._read_index(builder.add(address, skipped), index)
                    far = builder.add(far, builder.mul(value, WORD(index.step * self._width)))
            near = builder.add(here.near, WORD(lane * self._width))
            self._move(replace(here, near=near, far=far))

    def _gather_masked(
        self,
        here: _Place,
        values: Sequence[tuple[Index, ir.Value]],
        mask: ir.Value | None,
        lanes: int,
        count: ir.Value | None,
    ) -> None:
        """Copy the elements of the lanes that a mask names, and fill the others."""
        builder, words = self._builder, ir.VectorType(WORD, lanes)
        far = vectors.splat(builder, here.far, lanes)
        steps = self._task.far[1][-1] * self._width
        if steps:
            far = builder.add(far, ir.Constant(words, [lane * steps for lane in range(lanes)]))
        for index, value in values:
            step = ir.Constant(words, [index.step * self._width] * lanes)
            far = builder.add(far, builder.mul(value, step))
        kind = ir.VectorType(self._kind, lanes)
        found = vectors.gather(builder, far, mask, ir.Constant(kind, [self._task.fill] * lanes))
        self._store(found, here.near, count)

    def _read_lanes(
        self, address: ir.Value, index: Index, lanes: int, count: ir.Value | None
    ) -> ir.Value:
        """The values of an index at neighbouring turns of the innermost loop."""
        builder = self._builder
        kind = ir.VectorType(emit.STORED[index.dtype], lanes)
        stride = index.strides[-1]
        if stride == 1:
            values = self._load(kind, address, count)
        else:
            limit = WORD(lanes) if count is None else count
            values = vectors.gather_first(
                builder, kind, address, WORD(stride * _bytes(index)), limit
            )
        words = ir.VectorType(WORD, lanes)
        return values if index.dtype is DType.INT64 else builder.sext(values, words)

    def _write_turns(self, place: _Place) -> None:
        """Copy or fold element by element."""
        last = len(self._task.sizes) - 1
        first, count = self._count(last)
        builder = self._builder

        def turn(number: ir.Value, _: Sequence[ir.Value]) -> list[ir.Value]:
            here = self._read_indices(last + 1, self._step(last, place, builder.add(first, number)))
            self._write_if(here.inside, lambda: self._move(here), lambda: self._fill(here))
            return []

        vectors.repeat(builder, count, [], turn)


def _bytes(index: Index) -> int:
    return index.dtype.width
