"""Scatters whose lines are long and few: a block of threads has a line, in shared memory.

A line is what `operators.make_scatter` has a thread for: the elements that share the variables
which no index names. A block brings a part of the fold's steps at a time, the element that each
names and its source, every thread some of them. Then each thread goes through all steps of the
part in ascending order, and folds those that name an element of its own. So an element's sources
are folded by one thread, in their order, and the bits are those of a thread for each line.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, reduce
from math import prod

from llvmlite import ir

from moot.offchain.arithmetic.functions import DType
from moot.offchain.backends.cuda.elements import Variable, ravel, read, unravel, write
from moot.offchain.backends.cuda.kernel import COPIED_BYTES, Context, Kernel, Loop, word
from moot.offchain.backends.cuda.operators import begin, combine, find_named
from moot.offchain.backends.cuda.tiling import CYCLE_BYTES
from moot.offchain.native import emit, vectors
from moot.offchain.native.vectors import INDEX, WORD
from moot.offchain.planning.accesses import estimate_strides
from moot.offchain.programs.graph import Node, Operand, Origin

_NUMBER_BYTES = 4
_TOGETHER = COPIED_BYTES // _NUMBER_BYTES
"""Steps whose elements' numbers a thread reads at once."""

_NOWHERE = 1 << 31
"""In place of the number of an element, where there is none."""

_MOST_SHARED_BYTES = 64 << 10
"""Shared memory that every device gives to a block."""

_STEP_CYCLES, _RESIDENT_THREADS = 600, 2048
"""Cycles of a step of a thread for each line, which waits for memory, and how many threads of a
multiprocessor do so at once."""

_WAIT_CYCLES, _BUSY_CYCLES = 30, 8
"""Cycles of a step of a block, which waits for shared memory, and those that its instructions take
from other blocks of a multiprocessor: 12 of each warp, as counted in the code. No device has run
it: both are estimates."""

_BEGIN_CYCLES = 4000
"""Cycles of the launch, and until the first part is there."""


@dataclass(frozen=True, slots=True)
class Sizes:
    """Sizes of a block.

    Attributes:
        threads: its threads, a power of two.
        steps: the steps of a part, a multiple of the threads and of 4.
    """

    threads: int
    steps: int


SIZES = Sizes(64, 512)
"""Two warps: of more each would look at all steps, and of fewer too few would wait at once."""


@cache
def make_kernel(node: Node, sizes: Sizes) -> Kernel:
    """Return the kernel of a scatter of positive sizes, for which `is_possible` is true.

    Parameters are the addresses of the output and of the operands, and the number of parts.
    """
    writer = _Writer(node, sizes)
    parameters = len(node.operands) + 2
    return Kernel(
        "scatter_parts",
        parameters,
        (writer.begin, Loop(parameters - 1, (writer.bring, writer.fold)), writer.end),
        sizes.threads,
        writer.shared_bytes,
    )


def count_parts(node: Node, sizes: Sizes) -> int:
    """Return the parts of a fold."""
    return -(-node.fold_length // sizes.steps)


def count_lines(node: Node) -> int:
    """Return the lines of a scatter."""
    return node.elements // _count_named(node)


def _count_named(node: Node) -> int:
    """Return the elements of a line."""
    return prod(_select(node, is_named=True))


def _select(node: Node, *, is_named: bool) -> list[int]:
    """Return the sizes of the output, 1 in place of those that indices name, or don't name."""
    return [n if (v in node.targets) == is_named else 1 for v, n in enumerate(node.shape)]


def count_shared_bytes(node: Node, sizes: Sizes) -> int:
    """Return the shared memory of a block: the numbers and sources of a part, and the line."""
    width = _NUMBER_BYTES + node.operands[1].dtype.width
    return sizes.steps * width + _count_named(node) * node.dtype.width


def is_possible(node: Node, sizes: Sizes) -> bool:
    """Whether a block has room for a line, and its threads read neighbours where they can.

    Neither the source nor an index may depend on a dimension that an index names.
    """
    domain = node.shape + node.fold_shape
    return count_shared_bytes(node, sizes) <= _MOST_SHARED_BYTES and all(
        _reads_neighbours(operand, domain, len(node.shape)) for operand in node.operands[1:]
    )


def _reads_neighbours(operand: Operand, domain: tuple[int, ...], rank: int) -> bool:
    """Whether steps that follow each other read neighbours, or the same element."""
    if operand.origin is Origin.IMMEDIATE:
        return True
    strides = estimate_strides(operand.rows, domain)
    moving = [abs(strides[v]) for v in range(rank, len(domain)) if domain[v] > 1]
    return not moving or moving[-1] <= 1


def is_worth_it(node: Node, multiprocessors: int) -> bool:
    """Whether blocks may have the lines, and take about fewer cycles than a thread for each."""
    if not is_possible(node, SIZES):
        return False
    lines, steps = count_lines(node), node.fold_length
    by_threads = steps * _STEP_CYCLES * -(-lines // (multiprocessors * _RESIDENT_THREADS))
    blocks = -(-lines // multiprocessors)
    moved = 2 * blocks * _count_named(node) * node.dtype.width
    by_blocks = steps * max(_WAIT_CYCLES, _BUSY_CYCLES * blocks)
    return by_blocks + moved / CYCLE_BYTES + _BEGIN_CYCLES < by_threads


class _Writer:
    """Writes the phases of the kernel."""

    def __init__(self, node: Node, sizes: Sizes) -> None:
        self._node, self._sizes = node, sizes
        self._count = _count_named(node)
        self._source = node.operands[1].dtype
        self._sources = sizes.steps * _NUMBER_BYTES
        self._line = self._sources + sizes.steps * self._source.width
        self.shared_bytes = count_shared_bytes(node, sizes)

    def _find_line(self, context: Context) -> list[Variable]:
        """Return the variables that no index names, 0 in place of the others."""
        return unravel(context, context.block, _select(self._node, is_named=False))

    def _each_own(self, context: Context, body: Callable[[list[Variable], ir.Value], None]) -> None:
        """Write what is done for each element of a thread: its variables, and where it lies."""
        builder, threads = context.builder, self._sizes.threads
        line, named = self._find_line(context), _select(self._node, is_named=True)

        def take(turn: ir.Value, _: list[ir.Value]) -> list[ir.Value]:
            number = builder.add(builder.mul(turn, word(threads)), context.thread)
            with builder.if_then(builder.icmp_unsigned("<", number, word(self._count))):
                spread = unravel(context, number, named)
                variables = [
                    own if v in self._node.targets else shared
                    for v, (own, shared) in enumerate(zip(spread, line, strict=True))
                ]
                body(variables, self._locate(builder, number))
            return []

        vectors.repeat(builder, word(-(-self._count // threads)), [], take)

    def _locate(self, builder: ir.IRBuilder, number: ir.Value) -> ir.Value:
        """Return where an element of the line is in shared memory."""
        return builder.add(builder.mul(number, word(self._node.dtype.width)), word(self._line))

    def begin(self, context: Context) -> None:
        """Set the thread's elements to their initial values."""

        def start(variables: list[Variable], place: ir.Value) -> None:
            value = begin(context, self._node, variables)
            context.store_shared(emit.to_stored(context.builder, self._node.dtype, value), place)

        self._each_own(context, start)

    def end(self, context: Context) -> None:
        """Store the thread's elements."""

        def finish(variables: list[Variable], place: ir.Value) -> None:
            node = self._node
            linear = ravel(context, (it.value for it in variables), node.shape)
            write(context, node.dtype, self._load(context, node.dtype, place), address, linear)

        address = context.parameters[0]
        self._each_own(context, finish)

    def _load(self, context: Context, dtype: DType, place: ir.Value) -> ir.Value:
        """Return an element that is in shared memory."""
        kind = ir.VectorType(emit.STORED[dtype], 1)
        return emit.from_stored(context.builder, dtype, context.load_shared(kind, place))

    def bring(self, context: Context) -> None:
        """Bring the numbers of the elements that a part's steps name, and their sources."""
        builder, node = context.builder, self._node
        line, named = self._find_line(context), _select(node, is_named=True)
        first = builder.mul(context.turn, word(self._sizes.steps))
        for turn in range(self._sizes.steps // self._sizes.threads):
            place = builder.add(context.thread, word(turn * self._sizes.threads))
            step, last = builder.add(first, place), word(node.fold_length - 1)
            is_step = builder.icmp_unsigned("<=", step, last)
            folded = unravel(context, builder.select(is_step, step, last), node.fold_shape)
            fits, indices = find_named(context, node, [*line, *folded])
            found = (indices.get(v, word(0)) for v in range(len(node.shape)))
            number = builder.trunc(ravel(context, found, named), INDEX)
            number = builder.select(builder.and_(fits, is_step), number, INDEX(_NOWHERE))
            context.store_shared(number, builder.mul(place, word(_NUMBER_BYTES)))
            source = read(context, node.operands[1], [*line, *folded], context.parameters[2])
            stored = emit.to_stored(builder, self._source, source)
            context.store_shared(stored, self._locate_source(builder, place))

    def _locate_source(self, builder: ir.IRBuilder, step: ir.Value) -> ir.Value:
        """Return where the source of a part's step is in shared memory."""
        return builder.add(builder.mul(step, word(self._source.width)), word(self._sources))

    def fold(self, context: Context) -> None:
        """Fold the steps of a part that name an element of the thread."""
        builder = context.builder
        own = builder.trunc(context.thread, INDEX)
        mask = INDEX(_NOWHERE | self._sizes.threads - 1)

        def take(turn: ir.Value, _: list[ir.Value]) -> list[ir.Value]:
            first = builder.mul(turn, word(_TOGETHER))
            offset = builder.mul(first, word(_NUMBER_BYTES))
            whole = context.load_shared(ir.IntType(8 * COPIED_BYTES), offset)
            several = builder.bitcast(whole, ir.VectorType(INDEX, _TOGETHER))
            numbers = [builder.extract_element(several, INDEX(i)) for i in range(_TOGETHER)]
            owns = [builder.icmp_unsigned("==", builder.and_(n, mask), own) for n in numbers]
            with builder.if_then(reduce(builder.or_, owns)):
                for place, (number, is_own) in enumerate(zip(numbers, owns, strict=True)):
                    with builder.if_then(is_own):
                        self._fold_step(context, number, builder.add(first, word(place)))
            return []

        vectors.repeat(builder, word(self._sizes.steps // _TOGETHER), [], take)

    def _fold_step(self, context: Context, number: ir.Value, step: ir.Value) -> None:
        """Fold the source of a step into an element."""
        builder, node = context.builder, self._node
        place = self._locate(builder, builder.zext(number, WORD))
        source = self._load(context, self._source, self._locate_source(builder, step))
        found = combine(context, node, self._load(context, node.dtype, place), source)
        context.store_shared(emit.to_stored(builder, node.dtype, found), place)
