"""Tails of rows that a mask makes, in regions that nobody designed, against the definition.

A row is computed twice by the arithmetic's own functions: with all of its columns, and with those
alone that a kernel computes. The values of its row and of its tail have to be what was promised.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cache, reduce
from random import Random

import pytest

from moot.offchain.arithmetic.evaluate import UndefinedTypesError, check_types, evaluate
from moot.offchain.arithmetic.functions import CANONICAL_NAN, DType, Function
from moot.offchain.planning.region import (
    Apply,
    Constant,
    Fold,
    Lanes,
    Load,
    Region,
    Value,
    is_full,
    is_row,
)
from moot.offchain.planning.tails import Tail, find_tail
from tests.quick import every

FLOAT32, BOOL = DType.FLOAT32, DType.BOOL

UNIT, COLUMNS = 32, 96
"""Columns that a kernel computes together, and those of a row."""

PRODUCT, MASK, OTHER, ROW, REPEATED = range(5)
"""The operands, by the places of their values and their buffers."""

ZEROS = (0, 0x80000000)
FINITE = [
    *ZEROS, 0x3F800000, 0xBF800000, 0x3F7FFFFF, 0x3E000000, 0xC0490FDB, 0x41200000, 1, 0x80000001,
    0x007FFFFF, 0x00800000, 0x80800000, 0x7E800000, 0xFE800000,
]  # fmt: skip
ANY = [*FINITE, 0x7F800000, 0xFF800000, CANONICAL_NAN, 0x7F7FFFFF, 0xFF7FFFFF]
MASKS = {FLOAT32: [0xFF800000, 0, 0x80000000, 0x3F800000, 0x7F800000, CANONICAL_NAN], BOOL: [0, 1]}

UNARY = [Function.NEG, Function.ABS, Function.EXP, Function.SIGMOID, Function.SQRT, Function.COPY]
BINARY = [Function.ADD, Function.SUB, Function.MUL, Function.DIV, Function.MAX, Function.MIN]
COMPARISONS = [Function.EQ, Function.NE, Function.LT, Function.GE]
LOGICAL = [Function.AND, Function.OR, Function.XOR]
FOLDS = ["ADD", "ADD", "MAX", "MIN", "MUL"]

Step = Function | str
"""A function, or the name of one that is folded."""

DRAWN: Sequence[tuple[Sequence[Step], *tuple[DType, ...]]] = [
    (UNARY, FLOAT32),
    *[(BINARY, FLOAT32, FLOAT32)] * 3,
    (FOLDS, FLOAT32),
    (COMPARISONS, FLOAT32, FLOAT32),
    (LOGICAL, BOOL, BOOL),
    ([Function.WHERE], BOOL, FLOAT32, FLOAT32),
]
"""Functions, and the types of what they are drawn for."""

ATTENTION: Sequence[tuple[str, Sequence[Step], Sequence[Sequence[str]]]] = [
    ("scaled", [Function.MUL, Function.DIV], [("product", "scale")]),
    ("masked", [Function.ADD, Function.MUL], [("scaled", "mask"), ("mask", "scaled")]),
    ("chosen", [Function.WHERE], [("mask", "masked", "scale"), ("mask", "scale", "masked")]),
    ("maximum", ["MAX", "MIN"], [("chosen",)]),
    ("below", [Function.SUB], [("chosen", "maximum"), ("chosen", "row")]),
    ("power", [Function.EXP], [("below",)]),
    ("sum", ["ADD"], [("power",)]),
    ("weights", [Function.DIV, Function.MUL], [("power", "sum"), ("power", "row")]),
    ("terms", [Function.MUL], [("weights", "product"), ("product", "weights")]),
    ("mean", ["ADD"], [("terms",)]),
    ("apart", [Function.SUB, Function.ADD], [("product", "mean"), ("product", "row")]),
    ("gradient", [Function.MUL], [("apart", "weights"), ("weights", "apart")]),
    ("result", [Function.MUL, Function.NEG], [("gradient", "scale"), ("gradient",)]),
]
"""Attention's steps: a name, functions, and what each may be applied to."""


known = cache(evaluate)
"""The definition; operands are of few kinds, so that it is asked the same again and again."""


def draw_region(rng: Random) -> Region:
    """Return a region of one row whose values are drawn, of which the last full ones are stored."""
    loads = [
        Load(FLOAT32, PRODUCT, 0, (COLUMNS,), 1),
        Load(rng.choice([FLOAT32, BOOL]), MASK, 0, (COLUMNS,), 1),
        Load(FLOAT32, OTHER, 0, (COLUMNS,), 1),
        Load(FLOAT32, ROW, 0, (1,), None),
        Load(FLOAT32, REPEATED, 0, (1,), 0),
    ]
    constants = [Constant(FLOAT32, rng.choice([*ANY, *ZEROS])) for _ in range(2)]
    values: list[Value] = [*loads, *constants]
    if rng.random() < 0.7:
        draw_attention(rng, values)
    for _ in range(rng.randint(0, 5)):
        draw_value(rng, values)
    full = [i for i, value in enumerate(values) if isinstance(value, Apply) and is_full(value)]
    stored = sorted({*full[-1:], *(i for i in full if rng.random() < 0.1)})
    places = [(value, len(loads) + n) for n, value in enumerate(stored)]
    return Region((1,), COLUMNS, COLUMNS, 1, tuple(values), tuple(places))


def draw_attention(rng: Random, values: list[Value]) -> None:
    """Append the values of a softmax of masked rows, or of its gradients, with some of them off."""
    places = {"product": PRODUCT, "mask": MASK, "row": ROW, "scale": REPEATED + 1}
    for name, functions, arguments in ATTENTION:
        chosen = [places.get(argument, PRODUCT) for argument in rng.choice(arguments)]
        if rng.random() < 0.2:
            places[name] = chosen[0]
            continue
        off = draw(rng, values, FLOAT32)
        if off is not None and rng.random() < 0.1:
            chosen[rng.randrange(len(chosen))] = off
        places[name] = append(rng, values, rng.choice(functions), chosen)


def draw_value(rng: Random, values: list[Value]) -> None:
    """Append a value of those that are there, of late ones most often, or a fold and its lanes."""
    functions, *types = rng.choice(DRAWN)
    arguments = [draw(rng, values, dtype) for dtype in types]
    found = [argument for argument in arguments if argument is not None]
    if len(found) == len(arguments):
        append(rng, values, rng.choice(functions), found)


def draw(rng: Random, values: Sequence[Value], dtype: DType) -> int | None:
    """Return the place of a value of a type, if there is one."""
    found = [i for i, v in enumerate(values) if v.dtype is dtype and not isinstance(v, Lanes)]
    late = [i for i in found if i in {PRODUCT, MASK} or i > REPEATED][-4:]
    return rng.choice(late if late and rng.random() < 0.7 else found) if found else None


def append(rng: Random, values: list[Value], function: Step, arguments: Sequence[int]) -> int:
    """Append a function of values if their types are its own, or a fold; return its place."""
    types = [values[i].dtype for i in arguments]
    is_of_row = not any(is_full(values[i]) for i in arguments)
    if isinstance(function, str):
        if is_of_row or types != [FLOAT32]:
            return arguments[0]
        of = Function[function]
        init = rng.choice([0, 0, 0x80000000, 0xFF800000, 0x3F800000])
        values.append(Lanes(FLOAT32, of, arguments[0], rng.choice([8, 16]), init, init))
        values.append(Fold(FLOAT32, of, len(values) - 1, init))
        return len(values) - 1
    result = BOOL if function in {*COMPARISONS, *LOGICAL} else FLOAT32
    try:
        check_types(function, types, result)
    except UndefinedTypesError:
        return arguments[0]
    values.append(Apply(result, function, tuple(arguments), is_of_row))
    return len(values) - 1


def draw_row(
    rng: Random, region: Region, tail: Tail, end: int, columns: int
) -> Mapping[int, list[int]]:
    """Return the operands of a row, whose mask is one constant from a column on."""
    masks = MASKS[region.values[MASK].dtype]
    ends = rng.choice([ANY, [rng.choice(ANY)], ZEROS])
    row = {
        PRODUCT: draw_columns(rng, FINITE, columns),
        MASK: draw_columns(rng, masks, columns),
        OTHER: draw_columns(rng, rng.choice([ANY, FINITE, ZEROS]), columns),
        ROW: [rng.choice(ANY)] * COLUMNS,
        REPEATED: [rng.choice(ends)] * COLUMNS,
    }
    return row | {tail.mask.buffer: [*row[tail.mask.buffer][:end], *[tail.bits] * (COLUMNS - end)]}


def draw_columns(rng: Random, numbers: Sequence[int], columns: int) -> list[int]:
    """Return elements of a row; what a kernel computes of the tail may be unlike what follows."""
    some, other = rng.choice(numbers), rng.choice(numbers)
    if rng.random() < 0.3:
        return [some] * columns + [other] * (COLUMNS - columns)
    return [rng.choice(numbers) for _ in range(COLUMNS)]


def compute(region: Region, row: Mapping[int, list[int]], columns: int) -> list[list[int]]:
    """Return each value in the first columns of a row; a row value once."""
    found: list[list[int]] = []

    def get(place: int, column: int) -> int:
        return found[place][column] if is_full(region.values[place]) else found[place][0]

    def fold(value: Lanes | Fold, elements: Sequence[int]) -> int:
        types = (value.dtype,) * 2
        return reduce(
            lambda a, b: known(value.function, types, value.dtype, (a, b)), elements, value.init
        )

    for value in region.values:
        count = columns if is_full(value) else 1
        if isinstance(value, Load):
            found.append(row[value.buffer][:count])
        elif isinstance(value, Constant):
            found.append([value.bits])
        elif isinstance(value, Lanes):
            every_lane = [found[value.argument][lane :: value.lanes] for lane in range(value.lanes)]
            found.append([fold(value, elements) for elements in every_lane])
        elif isinstance(value, Fold):
            found.append([fold(value, found[value.argument])])
        else:
            assert isinstance(value, Apply)
            types = tuple(region.values[i].dtype for i in value.arguments)
            columnwise = (tuple(get(i, c) for i in value.arguments) for c in range(count))
            found.append([known(value.function, types, value.dtype, x) for x in columnwise])
    return found


def is_zero_or_nan(tail: Sequence[int]) -> bool:
    """Whether what a row holds in its tail are zeros, or NaN everywhere."""
    return {*tail} <= {*ZEROS} or {*tail} == {CANONICAL_NAN}


def check(rng: Random) -> bool:
    """Draw a region; where it has tails, compare rows with all columns and with fewer."""
    region = draw_region(rng)
    stored = [value for value, _ in region.stores]
    folded = {value for value in stored if rng.random() < 0.5}
    tail = find_tail(region, PRODUCT, folded)
    if tail is None:
        return False
    assert tail.unit == UNIT
    for _ in range(2):
        end = rng.choice([0, rng.randint(0, 2 * UNIT - tail.least)])
        columns = -(-(end + tail.least) // UNIT) * UNIT
        row = draw_row(rng, region, tail, end, columns)
        whole, part = compute(region, row, COLUMNS), compute(region, row, columns)
        for place, value in enumerate(region.values):
            assert not is_row(value) or whole[place] == part[place], (region, row)
            assert (
                place not in tail.zeros or not is_full(value) or is_zero_or_nan(whole[place][end:])
            ), (region, row)
        for place in stored:
            beyond = whole[place][end:]
            if is_full(region.values[place]):
                may_differ = place in folded and place in tail.zeros
                assert may_differ or len({*beyond}) == 1, (region, row)
    return True


@pytest.mark.parametrize("seed", every(32, range(64)))
def test_what_is_left_out_of_a_row_changes_nothing(seed: int) -> None:
    """Row values are those of whole rows, and what is stored of a tail is one number or zeros."""
    rng = Random(f"tails {seed}")
    assert sum(check(rng) for _ in range(300)) > 10


def test_all_of_a_tail_that_lanes_are_wanted_for_is_computed() -> None:
    """One column of a tail is enough for a row, but not for its lanes where they are stored."""
    rng, found = Random("lanes of tails"), 0
    for _ in range(1500):
        region = draw_region(rng)
        tail = find_tail(region, PRODUCT)
        lanes = [i for i, value in enumerate(region.values) if isinstance(value, Lanes)]
        if tail is None or tail.least == UNIT or not lanes:
            continue
        found += 1
        stored = replace(region, stores=(*region.stores, (rng.choice(lanes), 9)))
        wanted = find_tail(stored, PRODUCT)
        assert wanted is not None
        assert wanted.least == UNIT
    assert found > 5
