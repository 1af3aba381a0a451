"""The row passes of fused kernels: row values of a block of rows, a vector of rows at a time."""

from llvmlite import ir

from moot.offchain.backends.cpu.kernels.fused.accumulators import Accumulator
from moot.offchain.backends.cpu.kernels.fused.frame import Frame
from moot.offchain.native import emit, vectors
from moot.offchain.native.vectors import INDEX, WORD
from moot.offchain.planning.region import Apply, Constant, Fold, Lanes, Load


class RowPass:
    """The writer of one pass over a block of rows.

    Vectors reach beyond the last row of a block; what is computed there stays in scratch.

    Args:
        frame: the kernel's frame.
        stage: the number of the pass.
        start: the first row of the block.
        size: the number of rows in the block.
    """

    def __init__(self, frame: Frame, stage: int, start: ir.Value, size: ir.Value) -> None:
        self._frame = frame
        self._builder = frame.builder
        self._values = frame.region.values
        self._row_values = frame.plan.passes[stage].row_values
        lanes = (i for i in frame.plan.passes[stage].folded if i in frame.outputs)
        self._kept = [*lanes, *(i for i in self._row_values if i in frame.outputs)]
        self._start, self._size = start, size

    @property
    def is_empty(self) -> bool:
        """Whether there is nothing to do."""
        return not self._row_values and not self._kept

    def emit(self) -> None:
        """Write the pass."""
        loads = [i for i in self._row_values if isinstance(self._values[i], Load)]
        if loads:
            with self._frame.counting(WORD(0), self._size, WORD(1)) as row:
                self._load(loads, row)
        computed = [i for i in self._row_values if isinstance(self._values[i], Apply | Fold)]
        if computed:
            height = WORD(self._frame.height)
            with self._frame.counting(WORD(0), self._size, height) as row:
                self._compute(computed, row)
        for index in self._kept:
            self._copy_out(index)

    def _load(self, loads: list[int], row: ir.Value) -> None:
        indices = self._frame.split(self._builder.add(self._start, row))
        for index in loads:
            load = self._values[index]
            assert isinstance(load, Load)
            source = self._frame.locate(load, indices)
            value = vectors.load(self._builder, emit.STORED[load.dtype], source)
            vectors.store(self._builder, value, self._frame.locate_scratch(index, row))

    def _compute(self, computed: list[int], row: ir.Value) -> None:
        """Compute a vector of rows."""
        found: dict[int, ir.Value] = {}
        for index in computed:
            value = self._values[index]
            if isinstance(value, Fold):
                found[index] = self._fold(value, row)
            elif isinstance(value, Apply):
                arguments = [self._get(i, row, found) for i in value.arguments]
                types = [self._values[i].dtype for i in value.arguments]
                found[index] = emit.emit(
                    self._builder, value.function, types, value.dtype, arguments
                )
            place = self._frame.locate_scratch(index, row)
            self._frame.write(value.dtype, found[index], place)

    def _get(self, index: int, row: ir.Value, found: dict[int, ir.Value]) -> ir.Value:
        """A row value or a constant for a vector of rows."""
        if index not in found:
            value, height = self._values[index], self._frame.height
            if isinstance(value, Constant):
                found[index] = emit.constant(value.dtype, value.bits, height)
            else:
                place = self._frame.locate_scratch(index, row)
                found[index] = self._frame.read(value.dtype, place, height)
        return found[index]

    def _fold(self, fold: Fold, row: ir.Value) -> ir.Value:
        """Fold what lies side by side in scratch, square by square."""
        builder, height = self._builder, self._frame.height
        length, width = self._frame.length(fold.argument), fold.dtype.width
        source = self._frame.locate_scratch(fold.argument, row)
        accumulator = Accumulator(fold.function, fold.dtype)

        def fold_square(first: ir.Value, state: ir.Value, skipped: int = 0) -> ir.Value:
            start = builder.add(source, builder.mul(first, WORD(width)))
            square = self._load_square(fold, start, length * width)
            for column in vectors.transpose(builder, square)[skipped:]:
                state = accumulator.step(builder, state, self._enter(fold, column))
            return state

        squares, rest = divmod(length, height)
        (state,) = vectors.repeat(
            builder,
            WORD(squares),
            [accumulator.start(builder, fold.init, height)],
            lambda i, before: [fold_square(builder.mul(i, WORD(height)), *before)],
        )
        if rest:
            state = fold_square(WORD(length - height), state, height - rest)
        return accumulator.leave(builder, state)

    def _load_square(self, fold: Fold, start: ir.Value, step: int) -> list[ir.Value]:
        """Load vectors of neighbours in as many rows as a vector has lanes."""
        height = self._frame.height
        inner = self._get_inner(fold)
        element = INDEX if inner and inner.is_ordered else emit.STORED[fold.dtype]
        kind = ir.VectorType(element, height)
        return vectors.load_rows(self._builder, kind, start, WORD(step))

    def _enter(self, fold: Fold, column: ir.Value) -> ir.Value:
        """Elements in scratch, in the form in which a fold accumulates them."""
        accumulator, inner = Accumulator(fold.function, fold.dtype), self._get_inner(fold)
        if inner and inner.is_ordered:
            if inner == accumulator:
                return column
            column = inner.leave(self._builder, column)
        else:
            column = emit.from_stored(self._builder, fold.dtype, column)
        return accumulator.enter(self._builder, column)

    def _get_inner(self, fold: Fold) -> Accumulator | None:
        """The accumulators that a fold folds, if it folds lanes."""
        value = self._values[fold.argument]
        return Accumulator(value.function, value.dtype) if isinstance(value, Lanes) else None

    def _copy_out(self, index: int) -> None:
        """Copy a row value or a lanes value of the block's rows to where it is wanted."""
        value = self._values[index]
        source = self._frame.locate_scratch(index, WORD(0))
        target = self._frame.locate_output(index, self._start)
        size = self._frame.length(index) * value.dtype.width
        stop = self._builder.mul(self._size, WORD(size))
        if not isinstance(value, Lanes):
            self._frame.copy(value.dtype, source, target, stop)
            return
        accumulator, width = Accumulator(value.function, value.dtype), self._frame.width
        with self._frame.counting(WORD(0), stop, WORD(width * value.dtype.width)) as place:
            start = self._builder.add(source, place)
            found = accumulator.leave(self._builder, accumulator.load(self._builder, start, width))
            self._frame.write(value.dtype, found, self._builder.add(target, place))
