"""The column passes of fused kernels: full values along one row, and their folds in lanes."""

from collections.abc import Mapping, Sequence

from llvmlite import ir

from moot.offchain.backends.cpu.kernels.fused.accumulators import Accumulator
from moot.offchain.backends.cpu.kernels.fused.ahead import Ahead, find_streamed
from moot.offchain.backends.cpu.kernels.fused.frame import FIRST_SEGMENT, Frame
from moot.offchain.backends.cpu.kernels.fused.gathered import GatheredRow
from moot.offchain.backends.cpu.kernels.fused.leads import Lead
from moot.offchain.backends.cpu.kernels.fused.quotients import apply, prepare_divisors
from moot.offchain.native import emit, vectors
from moot.offchain.native.vectors import INDEX, WORD
from moot.offchain.planning.region import (
    Apply,
    Columns,
    Constant,
    Gathered,
    Lanes,
    Load,
    Pick,
    is_full,
)

_UNROLLED_COST = 48
"""Instructions in the body of a loop whose accumulators stay in registers."""

_STEPS_AT_ONCE = 4
"""Steps of a lane between a load of its accumulator from memory and the next, if they are short."""

_STEPS_FROM_AFAR = 8
_FAR_COLUMNS = 1 << 22
"""Columns of a row that no cache holds, for which a processor waits less if it reads more lines."""

_SIDE_BY_SIDE = 2
"""The processor's vectors that make up one where there are transcendental functions."""


class ColumnPass:
    """The writer of one pass over one row.

    Args:
        frame: the kernel's frame.
        stage: the number of the pass.
        start: the first row of the block.
        row: the row in the block.
        segment: the segment of the row.
    """

    def __init__(
        self,
        frame: Frame,
        stage: int,
        start: ir.Value,
        row: ir.Value,
        segment: ir.Value = FIRST_SEGMENT,
    ) -> None:
        self._frame = frame
        self._builder = frame.builder
        self._values = frame.region.values
        self._stage = stage
        self._pass = frame.plan.passes[stage]
        self._folds = {i: v for i in self._pass.folded if isinstance(v := self._values[i], Lanes)}
        self._accumulators = {i: Accumulator(v.function, v.dtype) for i, v in self._folds.items()}
        reached = [self._values[index] for index in self._pass.reached]
        self._has_chains = any(
            isinstance(v, Apply) and v.function.is_transcendental for v in reached
        )
        self._width = self._choose_width()
        self._lanes = min((fold.lanes for fold in self._folds.values()), default=self._width)
        self._part = min(self._lanes, self._width)
        self._row, self._whole_row = row, frame.builder.add(start, row)
        self._segment = segment
        self._indices = frame.split(self._whole_row)
        self._stored: dict[int, list[ir.Value]] = {}
        self._starts: dict[int, ir.Value] = {}
        self._same: dict[int, ir.Value] = {}
        self._gathers: dict[int, GatheredRow] = {}
        self._streamed = find_streamed(frame, stage, self._width)
        self._lead = Lead(frame, self._whole_row)
        self._ahead = Ahead(frame, stage, segment, has_chains=self._has_chains)
        for index in self._pass.reached:
            self._prepare(index)
        self._divisors = prepare_divisors(frame, self._pass.reached, self._same, self._width)
        for index in self._pass.written:
            if index in frame.outputs and index not in self._streamed:
                self._ahead.plan_write(index)

    @property
    def parts(self) -> int:
        """In how many parts a row is computed apart: vectors of lanes, or else of columns."""
        if not self._folds and not self._pass.written:
            return 0
        length = self._lanes if self._folds else self._frame.region.columns
        return -(-length // self._width)

    def _choose_width(self) -> int:
        """Return the lanes of the pass's vectors.

        A transcendental function is one long chain of instructions. Where there is one, a vector is
        several of the processor's, whose chains do not wait for each other.
        """
        wide, region = _SIDE_BY_SIDE * self._frame.width, self._frame.region
        goes_on = region.is_wide or region.segments > 1
        fits = not goes_on or all(fold.lanes >= wide for fold in self._folds.values())
        is_worth = self._has_chains and fits and region.columns >= 2 * wide
        return wide if is_worth else self._frame.width

    def _prepare(self, index: int) -> None:
        """Compute the values that are the same for the whole row."""
        frame, value = self._frame, self._values[index]
        if isinstance(value, Constant):
            self._same[index] = emit.constant(value.dtype, value.bits, self._width)
        elif not is_full(value):
            place = frame.locate_scratch(index, self._row)
            self._same[index] = frame.read_same(value.dtype, place, self._width)
        elif isinstance(value, Load):
            self._prepare_load(index, value)
        elif isinstance(value, Gathered) and not frame.plan.is_read(index, self._stage):
            self._gathers[index] = GatheredRow(frame, value, self._indices, self._same)
        if is_full(value):
            self._stored[index] = []
            if index in frame.outputs:
                place = frame.locate_output(index, self._whole_row, self._segment)
                self._stored[index].append(place)
            if index in frame.plan.scratch:
                self._stored[index].append(frame.locate_scratch(index, self._row, self._segment))

    def _prepare_load(self, index: int, load: Load) -> None:
        """Find a row of an operand, which is one element in some."""
        self._starts[index] = start = self._frame.locate(load, self._indices, self._segment)
        if load.column_stride == 0:
            self._same[index] = self._frame.read_same(load.dtype, start, self._width)
        elif load.column_stride == 1:
            self._ahead.plan_read(index)

    def emit(self) -> None:
        """Write the pass."""
        self.emit_picks()
        if not self._folds:
            if self._pass.written:
                self._emit_loop(WORD(0), self._count_columns())
            return
        parts = self._lanes // self._part
        if self._frame.region.segments > 1:
            self._fold_in_memory(parts)
            return
        cost = self._frame.plan.cost(self._pass.reached)
        if parts == 1 or parts * cost <= _UNROLLED_COST:
            self._fold_in_registers(parts)
        else:
            self.emit_starts()
            self._fold_in_memory(parts)

    def emit_starts(self) -> None:
        """Write the start of the accumulators of all lanes in scratch."""
        for lane in range(0, self._lanes, self._part):
            self._store(WORD(lane), self._start())

    def emit_picks(self) -> None:
        """Write what the pass picks from full values."""
        for index in self._pass.picked:
            self._pick(index)

    def emit_parts(self, first: ir.Value, stop: ir.Value) -> None:
        """Write the computation of some of the parts, without what is picked."""
        builder, width = self._builder, WORD(self._width)
        first, stop = builder.mul(first, width), builder.mul(stop, width)
        if self._folds:
            self._fold_lanes(first, stop)
        else:
            self._emit_loop(first, stop)

    def _count_columns(self) -> ir.Value:
        region, builder = self._frame.region, self._builder
        count = self._frame.columns
        if region.last_columns != region.columns:
            is_last = builder.icmp_signed("==", self._indices[-1], WORD(region.rows[-1] - 1))
            count = builder.select(is_last, WORD(region.last_columns), count)
        return count

    def _emit_loop(self, first: ir.Value, stop: ir.Value) -> None:
        """Compute columns; the row's last vector overlaps the one before, and repeats its work."""
        builder = self._builder
        last = builder.sub(self._count_columns(), WORD(self._width))
        with self._frame.counting(first, stop, WORD(self._width)) as column:
            is_past = builder.icmp_signed("<", last, column)
            self._compute(builder.select(is_past, last, column))

    def _pick(self, index: int) -> None:
        """Compute the vector with one element of a full value, and keep that element."""
        pick, builder, columns = self._values[index], self._builder, self._frame.region.columns
        assert isinstance(pick, Pick)
        wanted = builder.extract_element(self._same[pick.column], INDEX(0))
        wanted = wanted if wanted.type == WORD else builder.sext(wanted, WORD)
        is_inside = builder.icmp_unsigned("<", wanted, WORD(columns))
        place = builder.select(is_inside, wanted, WORD(0))
        last = WORD(columns - self._width)
        first = builder.select(builder.icmp_signed("<", last, place), last, place)
        vector = self._evaluate(first)[pick.argument]
        element = builder.extract_element(vector, builder.sub(place, first))
        found = vectors.splat(builder, element, 1)
        fill = emit.constant(pick.dtype, pick.fill, 1)
        result = builder.select(is_inside, found, fill)
        self._frame.write(pick.dtype, result, self._frame.locate_scratch(index, self._row))

    def _evaluate(self, column: ir.Value) -> Mapping[int, ir.Value]:
        """Compute a vector of every full value."""
        found: dict[int, ir.Value] = dict(self._same)
        for index in self._pass.reached:
            if index not in found:
                found[index] = self._compute_value(index, column, found)
        return found

    def _compute(self, column: ir.Value) -> Mapping[int, ir.Value]:
        """Compute and store a vector of every full value."""
        found, frame = self._evaluate(column), self._frame
        for index in self._pass.written:
            write = frame.stream if index in self._streamed else frame.write
            places = [self._move(index, start, column) for start in self._stored[index]]
            self._ahead.bring(index, places[0], self._width)
            for place in places:
                write(self._values[index].dtype, found[index], place)
        return found

    def _move(self, index: int, start: ir.Value, column: ir.Value, stride: int = 1) -> ir.Value:
        step = WORD(stride * self._values[index].dtype.width)
        return self._builder.add(start, self._builder.mul(column, step))

    def _compute_value(
        self, index: int, column: ir.Value, found: Mapping[int, ir.Value]
    ) -> ir.Value:
        frame, value = self._frame, self._values[index]
        if frame.plan.is_read(index, self._stage):
            place = self._move(index, self._stored[index][0], column)
            return frame.read(value.dtype, place, self._width)
        if isinstance(value, Load):
            stride = value.column_stride or 0
            place = self._move(index, self._starts[index], column, stride)
            if stride == 1:
                is_known = self._lead.find(index, column)
                place = self._lead.choose(is_known, place)
                self._ahead.bring(index, place, self._width, is_known)
                return frame.read(value.dtype, place, self._width)
            return frame.read_strided(value.dtype, place, stride, self._width)
        if isinstance(value, Gathered):
            return self._gathers[index].gather(column, found, self._width)
        if isinstance(value, Columns):
            numbers = ir.VectorType(WORD, self._width)(list(range(self._width)))
            return self._builder.add(vectors.splat(self._builder, column, self._width), numbers)
        assert isinstance(value, Apply)
        return apply(frame, value, [found[i] for i in value.arguments], self._divisors)

    def _fold_in_registers(self, parts: int) -> None:
        """Fold round by round of the lanes, each part of them in registers of its own."""
        length = parts * self._width
        steps, rest = divmod(self._frame.region.columns, length)
        count = self._builder.udiv(self._frame.columns, WORD(length))
        state = self._start() * parts

        def fold_round(step: ir.Value, before: Sequence[ir.Value]) -> list[ir.Value]:
            first = self._builder.mul(step, WORD(parts * self._width))
            after: list[ir.Value] = []
            for part in range(parts):
                column = self._builder.add(first, WORD(part * self._width))
                operands = self._compute_operands(column)
                after += self._fold_steps(before[len(after) :], operands, self._width)
            return after

        if steps:
            state = vectors.repeat(self._builder, count, state, fold_round)
        if rest:
            before, state = state, []
            for part in range(parts):
                left = rest - part * self._width
                operands = self._compute_last(left)
                state += self._fold_steps(before[len(state) :], operands, left)
        for part in range(parts):
            self._store(WORD(part * self._part), state[part * len(self._folds) :])

    def _fold_steps(
        self, state: Sequence[ir.Value], operands: Sequence[ir.Value], left: int
    ) -> list[ir.Value]:
        """Fold vectors in as many steps as their columns take, of which so many are left."""
        stop = max(self._part, min(left, self._width))
        for first in range(0, stop, self._part):
            lanes = list(range(first, first + self._part))
            parts = [vectors.shuffle(self._builder, o, o, lanes) for o in operands]
            state = self._fold(state, parts)
        return list(state)

    def _fold_in_memory(self, parts: int) -> None:
        """Fold vector by vector, with the accumulators of all lanes in scratch."""
        columns, width, lanes = self._frame.region.columns, self._width, parts * self._width
        whole = columns // width * width
        stop = self._frame.columns if whole == columns else WORD(whole)
        with self._frame.counting(WORD(0), stop, WORD(width)) as column:
            lane = self._builder.urem(column, WORD(lanes))
            self._fold_into(lane, self._compute_operands(column))
        if columns % lanes:
            for lane in range(whole % lanes, lanes, width):
                inside = columns % lanes - lane
                self._fold_into(WORD(lane), self._compute_last(inside))

    def _fold_lanes(self, first: ir.Value, stop: ir.Value) -> None:
        """Fold into some of the lanes, whose accumulators are in scratch, several steps at once."""
        frame, builder, width, lanes = self._frame, self._builder, self._width, self._lanes
        with frame.counting(first, stop, WORD(width)) as lane:
            self._store(lane, self._start())
        steps, rest = divmod(frame.region.columns, lanes)
        cost = max(1, frame.plan.cost(self._pass.reached))
        is_far = frame.region.columns >= _FAR_COLUMNS
        most = _STEPS_FROM_AFAR if is_far else _STEPS_AT_ONCE
        together = max(1, min(most, _UNROLLED_COST // cost))
        whole = steps // together * together
        for begin, end, count in ((0, whole, together), (whole, steps, 1)):
            steps_here = (WORD(begin * lanes), WORD(end * lanes), WORD(count * lanes))
            lanes_here = (first, stop, WORD(width))
            with frame.counting(*steps_here) as at, frame.counting(*lanes_here) as lane:
                columns = [
                    builder.add(builder.add(at, lane), WORD(i * lanes)) for i in range(count)
                ]
                self._fold_into(lane, *(self._compute_operands(column) for column in columns))
        if rest:
            self._fold_last(first, stop, rest)

    def _fold_last(self, first: ir.Value, stop: ir.Value, rest: int) -> None:
        """Fold the last `rest` columns into some of the lanes, and what fills the lanes beyond."""
        frame, builder, width = self._frame, self._builder, self._width
        left = WORD(rest)
        with frame.counting(first, stop, WORD(width)) as lane:
            after = builder.add(lane, WORD(width))
            with builder.if_else(builder.icmp_signed("<=", after, left)) as (inside, beyond):
                with inside:
                    column = builder.add(lane, WORD(frame.region.columns - rest))
                    self._fold_into(lane, self._compute_operands(column))
                with beyond, builder.if_else(builder.icmp_signed("<", lane, left)) as (some, none):
                    with some:
                        self._fold_into(lane, self._compute_last(rest % width))
                    with none:
                        self._fold_into(lane, self._compute_last(0))

    def _fold_into(self, lane: ir.Value, *steps: Sequence[ir.Value]) -> None:
        """Fold the operands of some steps into the accumulators from a lane on."""
        state = [
            accumulator.load(self._builder, self._locate(index, lane), self._width)
            for index, accumulator in self._accumulators.items()
        ]
        for operands in steps:
            state = self._fold(state, operands)
        self._store(lane, state)

    def _start(self) -> list[ir.Value]:
        """The accumulators of every fold, in some of the lanes, before the first step."""
        return [
            accumulator.start(self._builder, self._folds[index].init, self._part)
            for index, accumulator in self._accumulators.items()
        ]

    def _fold(self, before: Sequence[ir.Value], operands: Sequence[ir.Value]) -> list[ir.Value]:
        """One step of every fold in some of the lanes."""
        return [
            accumulator.step(self._builder, value, accumulator.enter(self._builder, operand))
            for accumulator, value, operand in zip(
                self._accumulators.values(), before, operands, strict=False
            )
        ]

    def _store(self, lane: ir.Value, state: Sequence[ir.Value]) -> None:
        """Store the accumulators of every fold from a lane on."""
        for (index, accumulator), value in zip(self._accumulators.items(), state, strict=False):
            accumulator.store(self._builder, value, self._locate(index, lane))

    def _compute_operands(self, column: ir.Value) -> list[ir.Value]:
        """Compute the columns from `column` on, and return the operands of the folds."""
        found = self._compute(column)
        return [found[fold.argument] for fold in self._folds.values()]

    def _compute_last(self, left: int) -> list[ir.Value]:
        """Compute a vector of the row's last columns, and return the operands of the last step.

        Args:
            left: how many columns are left, if any; lanes beyond them are filled.
        """
        width = self._width
        fills = [emit.constant(fold.dtype, fold.fill, width) for fold in self._folds.values()]
        if left <= 0:
            return fills
        operands = self._compute_operands(WORD(self._frame.region.columns - max(left, width)))
        if left >= width:
            return operands
        lanes = [width - left + lane if lane < left else width + lane for lane in range(width)]
        return [
            vectors.shuffle(self._builder, operand, fill, lanes)
            for operand, fill in zip(operands, fills, strict=True)
        ]

    def _locate(self, index: int, lane: ir.Value) -> ir.Value:
        return self._move(index, self._frame.locate_scratch(index, self._row), lane)
