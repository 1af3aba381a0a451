"""Kernels of operators: one thread for each element of the output, or for each line of a scatter.

A thread computes its element as it is defined: a fold step after step, in order. Parameters are the
address of the output, those of the operands, and the number of threads that are needed; a random
operator has the training step besides.
"""

from collections.abc import Callable, Mapping, Sequence
from functools import cache, partial

from llvmlite import ir

from moot.offchain.arithmetic.functions import DType, Function
from moot.offchain.backends.cuda.elements import (
    Variable,
    any_integer,
    as_integer,
    find,
    ravel,
    read,
    read_at,
    unravel,
    write,
)
from moot.offchain.backends.cuda.kernel import Context, Kernel, Phase, word
from moot.offchain.backends.cuda.loops import repeat_together
from moot.offchain.backends.cuda.uniform import write_uniform
from moot.offchain.native import emit, vectors
from moot.offchain.native.transcendental.power import emit_power
from moot.offchain.native.vectors import BYTE, INDEX
from moot.offchain.programs.graph import Kind, Node, Origin

_POSITIONS = {Function.ARGMAX: Function.GT, Function.ARGMIN: Function.LT}

Body = Callable[[Context, Node, ir.Value], None]
"""Writes what the thread of this number does for an operator."""


@cache
def make_kernel(node: Node) -> Kernel:
    """Return the kernel of an operator with a positive number of elements and of fold steps."""
    body = _BODIES[node.kind]
    if node.kind is Kind.MAP and node.function is Function.POW:
        body = _raise
    return Kernel(node.kind.name.lower(), count_parameters(node), (guard(node, body),))


@cache
def make_scatter(node: Node) -> Kernel:
    """Return the kernel of a scatter whose source and indices don't depend on what they name.

    The output has its initial values already. A thread has the elements that share the variables
    which no index names, and folds what reaches them, in order.
    """
    return Kernel("scatter_lines", count_parameters(node), (guard(node, _scatter_lines),))


def count_parameters(node: Node) -> int:
    """Return the number of parameters: the output, the operands, the count, and one more."""
    return len(node.operands) + 3


def guard(node: Node, body: Body) -> Phase:
    """Let threads beyond the count do nothing."""

    def write_phase(context: Context) -> None:
        builder = context.builder
        first = builder.mul(context.block, word(_THREADS))
        number = builder.add(first, context.thread)
        with builder.if_then(builder.icmp_unsigned("<", number, context.parameters[-2])):
            body(context, node, number)

    return write_phase


_THREADS = Kernel("", 0, ()).threads


def address(context: Context, place: int) -> ir.Value:
    """The address of an operand's tensor."""
    return context.parameters[1 + place]


def _read_all(context: Context, node: Node, variables: Sequence[Variable]) -> list[ir.Value]:
    return [
        read(context, operand, variables, address(context, place))
        for place, operand in enumerate(node.operands)
    ]


def _read_index(
    context: Context, node: Node, place: int, variables: Sequence[Variable]
) -> ir.Value:
    """An index operand's element as a 64-bit integer."""
    operand = node.operands[place]
    return as_integer(context, read(context, operand, variables, address(context, place)))


def finish(context: Context, node: Node, value: ir.Value, number: ir.Value) -> None:
    """Store an element of the output."""
    write(context, node.dtype, value, context.parameters[0], number)


def _map(context: Context, node: Node, number: ir.Value) -> None:
    values = _read_all(context, node, unravel(context, number, node.shape))
    types = [operand.dtype for operand in node.operands]
    found = emit.emit(context.builder, node.function, types, node.dtype, values)
    finish(context, node, found, number)


def _raise(context: Context, node: Node, number: ir.Value) -> None:
    """Compute a power, and a byte behind the last parameter's address: whether it is in doubt."""
    values = _read_all(context, node, unravel(context, number, node.shape))
    found, doubtful = emit_power(context.builder, *values)
    finish(context, node, found, number)
    flag = context.builder.zext(doubtful, ir.VectorType(BYTE, 1))
    context.store(flag, context.builder.add(context.parameters[-1], number))


def _move(context: Context, node: Node, number: ir.Value) -> None:
    builder, variables = context.builder, unravel(context, number, node.shape)
    chosen = emit.constant(node.dtype, node.operands[-1].value, 1)
    for place, operand in reversed(list(enumerate(node.operands))):
        if operand.origin is Origin.IMMEDIATE:
            chosen = emit.constant(operand.dtype, operand.value, 1)
            continue
        value, inside = find(context, operand, variables, address(context, place))
        chosen = value if inside is None else builder.select(inside, value, chosen)
    finish(context, node, chosen, number)


def _gather(context: Context, node: Node, number: ir.Value) -> None:
    variables = unravel(context, number, node.shape)
    values = [
        any_integer(_read_index(context, node, place, variables))
        for place in range(1, len(node.operands))
    ]
    found = read(context, node.operands[0], [*variables, *values], address(context, 0))
    finish(context, node, found, number)


Ask = Callable[[Sequence[Variable]], Sequence[ir.Value]]
"""(all variables of a fold's step) -> what is read for it."""

Take = Callable[[ir.Value, Sequence[ir.Value], list[ir.Value]], Sequence[ir.Value]]
"""(position, what was read, state before the step) -> the state after it."""

_TOGETHER = 4
"""Steps of a fold that a thread asks for at once."""


def _fold(
    context: Context,
    node: Node,
    variables: Sequence[Variable],
    state: Sequence[ir.Value],
    ask: Ask,
    take: Take,
) -> list[ir.Value]:
    """Run through a fold's steps, and return the state after them."""

    def body(positions: Sequence[ir.Value], before: list[ir.Value]) -> Sequence[ir.Value]:
        found = [
            ask([*variables, *unravel(context, position, node.fold_shape)])
            for position in positions
        ]
        now = before
        for position, values in zip(positions, found, strict=True):
            now = list(take(position, values, now))
        return now

    return repeat_together(context.builder, node.fold_length, state, _TOGETHER, body)


def begin(context: Context, node: Node, variables: Sequence[Variable]) -> ir.Value:
    """Return the initial value of a fold."""
    nothing = [Variable(word(0), 0, 0)] * len(node.fold_shape)
    return read(context, node.operands[0], [*variables, *nothing], address(context, 0))


def _extend(builder: ir.IRBuilder, value: ir.Value, kind: ir.Type) -> ir.Value:
    """Return integers in a type that is not narrower."""
    return value if value.type == kind else builder.sext(value, kind)


def _contract(context: Context, node: Node, number: ir.Value) -> None:
    variables = unravel(context, number, node.shape)

    def ask(at: Sequence[Variable]) -> list[ir.Value]:
        return [read(context, node.operands[p], at, address(context, p)) for p in (1, 2)]

    def take(_: ir.Value, factors: Sequence[ir.Value], before: list[ir.Value]) -> list[ir.Value]:
        if node.multiplies_integers:
            a, b = (_extend(context.builder, factor, before[0].type) for factor in factors)
            return [context.builder.add(before[0], context.builder.mul(a, b))]
        return [vectors.call(context.builder, "llvm.fma", [*factors, *before])]

    start = begin(context, node, variables)
    finish(context, node, _fold(context, node, variables, [start], ask, take)[0], number)


def _reduce(context: Context, node: Node, number: ir.Value) -> None:
    variables, dtype = unravel(context, number, node.shape), node.dtype

    def take(_: ir.Value, value: Sequence[ir.Value], before: list[ir.Value]) -> list[ir.Value]:
        return [emit.emit(context.builder, node.function, (dtype, dtype), dtype, (*before, *value))]

    start = begin(context, node, variables)
    if node.function in _POSITIONS:
        found = _search(context, node, variables, start)
    else:
        ask = partial(_ask_for_source, context, node)
        found = _fold(context, node, variables, [start], ask, take)[0]
    finish(context, node, found, number)


def _ask_for_source(context: Context, node: Node, at: Sequence[Variable]) -> list[ir.Value]:
    """Return the element that a step folds."""
    return [read(context, node.operands[1], at, address(context, 1))]


def _search(
    context: Context, node: Node, variables: Sequence[Variable], start: ir.Value
) -> ir.Value:
    """Return the position of the first best element, or of the first NaN."""
    builder, operand = context.builder, node.operands[1]
    dtype, length = operand.dtype, word(node.fold_length)
    first = builder.extract_element(start, INDEX(0))
    is_place = builder.icmp_unsigned("<", first, length)
    begun = unravel(context, builder.select(is_place, first, word(0)), node.fold_shape)
    best = read(context, operand, [*variables, *begun], address(context, 1))

    def holds(function: Function, x: ir.Value, y: ir.Value) -> ir.Value:
        return emit.emit(builder, function, (dtype, dtype), DType.BOOL, (x, y))

    def take(
        position: ir.Value, values: Sequence[ir.Value], before: list[ir.Value]
    ) -> list[ir.Value]:
        (place, held), (value,) = before, values
        is_first_nan = builder.and_(
            holds(Function.NE, value, value), holds(Function.EQ, held, held)
        )
        is_better = builder.or_(holds(_POSITIONS[node.function], value, held), is_first_nan)
        is_nowhere = builder.icmp_unsigned(">=", place, length)
        moves = builder.or_(builder.extract_element(is_better, INDEX(0)), is_nowhere)
        return [builder.select(moves, position, place), builder.select(moves, value, held)]

    ask = partial(_ask_for_source, context, node)
    place = _fold(context, node, variables, [first, best], ask, take)[0]
    return vectors.splat(builder, place, 1)


def combine(context: Context, node: Node, before: ir.Value, source: ir.Value) -> ir.Value:
    """The element after a source was folded into it."""
    if node.function is Function.COPY:
        return source
    types = (node.dtype, node.dtype)
    return emit.emit(context.builder, node.function, types, node.dtype, (before, source))


def reaches(context: Context, node: Node, at: Sequence[Variable]) -> ir.Value:
    """Whether a step of a scatter, the last of the variables, reaches the element."""
    builder, found = context.builder, ir.Constant(ir.IntType(1), 1)
    for place, target in enumerate(node.targets, start=2):
        operand = node.operands[place]
        value = read(context, operand, at, address(context, place))
        index = as_integer(context, value)
        found = builder.and_(found, builder.icmp_unsigned("==", index, at[target].value))
    return found


def _scatter(context: Context, node: Node, number: ir.Value) -> None:
    """Fold what reaches one element, of all that there is."""
    variables, builder = unravel(context, number, node.shape), context.builder

    def ask(at: Sequence[Variable]) -> list[ir.Value]:
        return [*_ask_for_source(context, node, at), reaches(context, node, at)]

    def take(_: ir.Value, values: Sequence[ir.Value], before: list[ir.Value]) -> list[ir.Value]:
        source, is_reached = values
        combined = combine(context, node, before[0], source)
        return [builder.select(is_reached, combined, before[0])]

    start = begin(context, node, variables)
    finish(context, node, _fold(context, node, variables, [start], ask, take)[0], number)


def find_named(
    context: Context, node: Node, at: Sequence[Variable]
) -> tuple[ir.Value, dict[int, ir.Value]]:
    """Return where a step of a scatter goes: whether to an element at all, and which indices.

    The latter are any where there is no such element.
    """
    builder, named = context.builder, dict[int, ir.Value]()
    fits: ir.Value = ir.Constant(ir.IntType(1), 1)
    for place, target in enumerate(node.targets, start=2):
        operand = node.operands[place]
        index = as_integer(context, read(context, operand, at, address(context, place)))
        is_inside = builder.icmp_unsigned("<", index, word(node.shape[target]))
        fits = builder.and_(fits, is_inside)
        if target in named:
            fits = builder.and_(fits, builder.icmp_unsigned("==", index, named[target]))
        named[target] = index
    return fits, named


def _scatter_lines(context: Context, node: Node, number: ir.Value) -> None:
    """Fold all that reaches the elements which share the variables that no index names."""
    builder = context.builder
    free = [1 if v in node.targets else size for v, size in enumerate(node.shape)]
    variables = unravel(context, number, free)

    def ask(at: Sequence[Variable]) -> list[ir.Value]:
        fits, named = find_named(context, node, at)
        coordinates = (named.get(v, it.value) for v, it in enumerate(variables[: len(node.shape)]))
        linear = ravel(context, coordinates, node.shape)
        return [*_ask_for_source(context, node, at), fits, linear]

    def take(_: ir.Value, values: Sequence[ir.Value], __: list[ir.Value]) -> list[ir.Value]:
        source, fits, linear = values
        with builder.if_then(fits):
            before = read_at(context, node.dtype, context.parameters[0], linear)
            finish(context, node, combine(context, node, before, source), linear)
        return []

    _fold(context, node, variables, [], ask, take)


def _random(context: Context, node: Node, number: ir.Value) -> None:
    value = write_uniform(context, node.seed, node.stream, context.parameters[-1], number)
    finish(context, node, vectors.splat(context.builder, value, 1), number)


_BODIES: Mapping[Kind, Body] = {
    Kind.MAP: _map,
    Kind.MOVE: _move,
    Kind.SOURCE: _move,
    Kind.SINK: _move,
    Kind.GATHER: _gather,
    Kind.CONTRACT: _contract,
    Kind.REDUCE: _reduce,
    Kind.SCATTER: _scatter,
    Kind.RANDOM: _random,
}
