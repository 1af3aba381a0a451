"""Tails of rows: last columns in which a mask leaves nothing of a product, and which so stay out.

Where a mask has one constant in the last columns of a row, as -infinity after the diagonal, all
values of these columns may be the same, whatever the product was, if that was finite at all. A
maximum, or a sum of zeros, takes up such a value once and for all; so a few of the columns stand
for the rest. What is known of a value there is found here, from the arithmetic's own functions.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from math import prod
from typing import ClassVar, NamedTuple

from moot.offchain.arithmetic import float32
from moot.offchain.arithmetic.evaluate import evaluate
from moot.offchain.arithmetic.functions import CANONICAL_NAN, DType, Function
from moot.offchain.planning.preconditions import Form, Precondition
from moot.offchain.planning.region import (
    Apply,
    Constant,
    Fold,
    Lanes,
    Load,
    Pick,
    Region,
    get_arguments,
    is_full,
)

_INFINITY, _SIGN, _ONE = 0x7F800000, 0x80000000, 0x3F800000
_INFINITE = frozenset({_INFINITY, _INFINITY | _SIGN, CANONICAL_NAN})
_SIGNED_ZEROS = frozenset({0, _SIGN})
_ZEROS = _SIGNED_ZEROS | {CANONICAL_NAN}
_CLASSES = _INFINITE | _ZEROS | {_ONE, _ONE | _SIGN}
"""One number of each class; on these alone depends a sum with an infinity, or a zero's multiple."""

_MASKS: Mapping[DType, Sequence[int]] = {DType.FLOAT32: (_INFINITY | _SIGN, 0), DType.BOOL: (0, 1)}
"""The constants of masks, by their type."""

_MOST_CHOICES = 64
_LEAST = 1
_VECTOR = 32
"""Columns that a kernel computes at once, at most."""

_IDEMPOTENT = frozenset({Function.MAX, Function.MIN, Function.AND, Function.OR})

_ABSORBED: Mapping[Function, tuple[frozenset[int], frozenset[int]]] = {
    Function.ADD: (_INFINITE, _INFINITE),
    Function.SUB: (_INFINITE, _INFINITE),
    Function.MUL: (_ZEROS, _ZEROS),
    Function.DIV: (_ZEROS, frozenset()),
}
"""Left or right operands with which a result depends on the class of the other one alone."""

_SUMS = frozenset({Function.ADD, Function.SUB})

_FINITE_OPERANDS: Mapping[Function, frozenset[int]] = {
    Function.ADD: frozenset({_ONE}),
    Function.SUB: frozenset({_ONE}),
    Function.MUL: frozenset({_ONE, _ONE | _SIGN}),
}
"""What finite numbers do to an infinity that absorbs them, or to a zero."""


class _Known(NamedTuple):
    """What is known of a value in the tail of a row.

    Attributes:
        bits: what it may be, None if that is not known.
        is_same: whether it is the same in all columns of the tail.
        is_finite: whether it is a finite number.
    """

    bits: frozenset[int] | None
    is_same: bool
    is_finite: bool = False


_ANY, _SAME, _FINITE = _Known(None, False), _Known(None, True), _Known(None, False, True)


@dataclass(frozen=True, slots=True)
class Tail(Form):
    """The tails that a mask makes in the rows of a region.

    Attributes:
        mask: the operand that has a constant there.
        bits: the constant.
        unit: of so many columns a whole number is computed.
        least: so many of them belong to the tail at least.
        zeros: the values that are zeros there, of any sign, or NaN in all of a row's tail.
    """

    mask: Load
    bits: int
    unit: int
    least: int
    zeros: frozenset[int]

    preconditions: ClassVar[tuple[Precondition, ...]] = (
        Precondition(
            "mask",
            "the mask's columns lie side by side, and its constant is one of a mask's",
            lambda form: (
                form.mask.column_stride == 1 and form.bits in _MASKS.get(form.mask.dtype, ())
            ),
        ),
        Precondition(
            "unit",
            "columns are computed by whole vectors, and a part of one belongs to the tail",
            lambda form: form.unit % _VECTOR == 0 and 1 <= form.least <= form.unit,
        ),
    )


def find_tail(
    region: Region, product_buffer: int, folded: Collection[int] = frozenset()
) -> Tail | None:
    """Return the tails of a region's rows, if it has a mask that makes some.

    Every full value that is stored is the same there, in all columns of a row, or is in `zeros`.

    Args:
        region: the values.
        product_buffer: the buffer that holds a product; it is finite in the tails.
        folded: values that are stored for products alone, for which one zero is as good as another.
    """
    lanes = [v.lanes for v in region.values if isinstance(v, Lanes)]
    unit = max([_VECTOR, *lanes])
    if region.columns % unit or region.is_wide:
        return None
    for load in region.values:
        if isinstance(load, Load) and load.column_stride == 1 and load.buffer != product_buffer:
            for bits in _MASKS.get(load.dtype, ()):
                known = _follow(region, product_buffer, load, bits)
                if known is None:
                    continue
                zeros = _list_zeros(region, known)
                stored = [i for i, _ in region.stores if is_full(region.values[i])]
                if all(known[i].is_same or (i in folded and i in zeros) for i in stored):
                    least = _LEAST if _is_taken_up_at_once(region, known) else unit
                    return Tail(load, bits, unit, least, zeros)
    return None


def _is_taken_up_at_once(region: Region, known: Sequence[_Known]) -> bool:
    """Whether rows take up a tail in one of their lanes, as if it were in all of them.

    So does a maximum; and to add zeros changes no lane. What lanes are wanted for is not known.
    """
    stored = {value for value, _ in region.stores}
    lanes = [(i, v) for i, v in enumerate(region.values) if isinstance(v, Lanes)]
    return all(
        i not in stored and (v.function in _IDEMPOTENT or _adds_zeros(v, known[v.argument]))
        for i, v in lanes
    )


def _list_zeros(region: Region, known: Sequence[_Known]) -> frozenset[int]:
    return frozenset(
        i
        for i, (value, what) in enumerate(zip(region.values, known, strict=True))
        if value.dtype is DType.FLOAT32 and what.bits is not None and what.bits <= _ZEROS
    )


def _follow(region: Region, product_buffer: int, mask: Load, bits: int) -> list[_Known] | None:
    """Return what is known of each value where a mask is a constant; None if that does not do."""
    found: list[_Known] = []
    for value in region.values:
        arguments = get_arguments(value)
        known = [found[i] for i in arguments]
        types = [region.values[i].dtype for i in arguments]
        if isinstance(value, Fold) and not isinstance(region.values[value.argument], Lanes):
            return None
        if isinstance(value, Pick) or (isinstance(value, Lanes) and not _is_kept(value, known[0])):
            return None
        if isinstance(value, Constant) or value == mask:
            fixed = value.bits if isinstance(value, Constant) else bits
            found.append(_Known(frozenset({fixed}), is_same=True))
        elif isinstance(value, Load) and value.buffer == product_buffer:
            found.append(_FINITE)
        elif isinstance(value, Apply) and not value.is_row:
            found.append(_apply(value, types, known))
        else:
            is_repeated = isinstance(value, Load) and value.column_stride == 0
            found.append(_SAME if not is_full(value) or is_repeated else _ANY)
    return found


def _is_kept(fold: Lanes, operand: _Known) -> bool:
    """Whether a fold that has taken up an operand once does not change when it comes again."""
    if fold.function in _IDEMPOTENT:
        return operand.is_same
    if not _is_sum(fold) or operand.bits is None:
        return False
    is_absorbed = operand.is_same and operand.bits <= _INFINITE | _ZEROS
    return is_absorbed or _adds_zeros(fold, operand)


def _is_sum(fold: Lanes) -> bool:
    return fold.function is Function.ADD and fold.dtype is DType.FLOAT32


def _adds_zeros(fold: Lanes, operand: _Known) -> bool:
    """Whether a fold adds zeros, of any signs, to a sum that is never -0."""
    is_zero = operand.bits is not None and operand.bits <= _SIGNED_ZEROS
    return _is_sum(fold) and fold.init == 0 and is_zero


def _apply(value: Apply, types: Sequence[DType], arguments: Sequence[_Known]) -> _Known:
    """Return what is known of a function's result."""
    if value.function is Function.WHERE:
        return _choose(*arguments)
    if value.function is Function.COPY:
        return arguments[0]
    sets = _list_choices(value.function, types, arguments)
    if sets is not None and prod(map(len, sets)) <= _MOST_CHOICES:
        return _evaluate(value, types, arguments, sets)
    if all(a.is_same for a in arguments):
        return _SAME
    return _FINITE if _stays_finite(value.function, arguments) else _ANY


def _evaluate(
    value: Apply,
    types: Sequence[DType],
    arguments: Sequence[_Known],
    sets: Sequence[frozenset[int]],
) -> _Known:
    """Return what a function makes of all choices; NaN comes in all of a row's tail or nowhere."""
    results, nans = set(), set()
    for choice in product(*sets):
        result = evaluate(value.function, types, value.dtype, choice)
        pairs = zip(choice, arguments, strict=True)
        row = tuple(x if a.is_same else x == CANONICAL_NAN for x, a in pairs)
        results.add(result)
        nans.add((row, result == CANONICAL_NAN))
    is_sum = value.function in _SUMS
    is_same = all(a.is_same or (is_sum and a.is_finite) for a in arguments)
    is_uniform = len({row for row, _ in nans}) == len(nans)
    return _Known(frozenset(results), is_same) if is_same or is_uniform else _ANY


def _list_choices(
    function: Function, types: Sequence[DType], arguments: Sequence[_Known]
) -> list[frozenset[int]] | None:
    """Return for each argument all that a result depends on; None if that is not known."""
    bits = [a.bits for a in arguments]
    known = [b for b in bits if b is not None]
    if len(known) == len(bits):
        return known
    absorbed = zip(bits, _ABSORBED.get(function, ()), strict=False)
    absorbs = any(b is not None and b <= classes for b, classes in absorbed)
    is_clear = all(a.is_same or (function in _FINITE_OPERANDS and a.is_finite) for a in arguments)
    if not absorbs or not is_clear or types[0] is not DType.FLOAT32:
        return None
    others = (_CLASSES if a.is_same else _FINITE_OPERANDS[function] for a in arguments)
    return [other if b is None else b for b, other in zip(bits, others, strict=True)]


def _choose(condition: _Known, x: _Known, y: _Known) -> _Known:
    if condition.is_same and condition.bits is not None and len(condition.bits) == 1:
        return x if 1 in condition.bits else y
    if not (condition.is_same and x.is_same and y.is_same):
        return _FINITE if x.is_finite and y.is_finite else _ANY
    return _SAME if x.bits is None or y.bits is None else _Known(x.bits | y.bits, is_same=True)


def _stays_finite(function: Function, arguments: Sequence[_Known]) -> bool:
    """Whether a function of a finite number, and perhaps a constant, is surely finite."""
    if function in {Function.NEG, Function.ABS}:
        return arguments[0].is_finite
    constants = [b for a in arguments for b in a.bits or ()]
    is_scaled = sum(a.is_finite for a in arguments) == 1 and len(constants) == 1
    small = is_scaled and float32.less_equal(float32.absolute(constants[0]), _ONE)
    return function is Function.MUL and small
