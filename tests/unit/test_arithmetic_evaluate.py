"""The dispatch of scalar functions: each combination of types follows the table, or is refused."""

import itertools

import pytest

from moot.offchain.arithmetic.evaluate import (
    SIGNATURES,
    OperandError,
    UndefinedTypesError,
    check_types,
    evaluate,
)
from moot.offchain.arithmetic.functions import CANONICAL_NAN, DType, Function

F, L, S, B = DType.FLOAT32, DType.INT64, DType.INT32, DType.BOOL
ONE = 0x3F800000
ALL_TYPES = [types for arity in range(4) for types in itertools.product(DType, repeat=arity)]

VALUES = [
    (Function.COPY, (L,), L, (1 << 63,), 1 << 63),
    (Function.COPY, (F,), F, (0xFFC00001,), CANONICAL_NAN),
    (Function.COPY, (B,), B, (2,), 1),
    (Function.ADD, (S, S), S, (0x7FFFFFFF, 1), 0x80000000),
    (Function.ADD, (F, F), F, (ONE, ONE), 0x40000000),
    (Function.NEG, (F,), F, (0xFF800001,), CANONICAL_NAN),
    (Function.EQ, (F, F), B, (0, 0x80000000), 1),
    (Function.EQ, (S, S), B, (0, 0x80000000), 0),
    (Function.EQ, (B, B), B, (1, 255), 1),
    (Function.NE, (F, F), B, (CANONICAL_NAN, CANONICAL_NAN), 1),
    (Function.LT, (B, B), B, (0, 1), 1),
    (Function.GE, (L, L), B, (0, (1 << 64) - 1), 1),
    (Function.NOT, (B,), B, (3,), 0),
    (Function.NOT, (S,), S, (0,), 0xFFFFFFFF),
    (Function.WHERE, (B, F, F), F, (1, ONE, 0), ONE),
    (Function.WHERE, (B, F, F), F, (0, ONE, 0x7F800001), CANONICAL_NAN),
    (Function.CONVERT, (S,), L, (0xFFFFFFFF,), (1 << 64) - 1),
    (Function.CONVERT, (L,), S, (0x1_8000_0001,), 0x80000001),
    (Function.CONVERT, (L,), F, ((1 << 64) - 1,), 0xBF800000),
    (Function.CONVERT, (F,), F, (0x7F800001,), CANONICAL_NAN),
    (Function.CONVERT, (F,), S, (0xBFC00000,), 0xFFFFFFFF),
    (Function.CONVERT, (F,), L, (0x7F800000,), (1 << 63) - 1),
    (Function.CONVERT, (F,), S, (CANONICAL_NAN,), 0),
    (Function.CONVERT, (F,), B, (0x80000000,), 0),
    (Function.CONVERT, (F,), B, (CANONICAL_NAN,), 1),
    (Function.CONVERT, (B,), F, (7,), ONE),
    (Function.CONVERT, (B,), L, (7,), 1),
    (Function.CONVERT, (L,), B, (1 << 40,), 1),
    (Function.POW, (F, F), F, (CANONICAL_NAN, 0), ONE),
]


@pytest.mark.parametrize(("function", "types", "result_type", "operands", "expected"), VALUES)
def test_values(
    function: Function,
    types: tuple[DType, ...],
    result_type: DType,
    operands: tuple[int, ...],
    expected: int,
) -> None:
    """Values where types decide the meaning of the same bits."""
    assert evaluate(function, types, result_type, operands) == expected


def is_defined(function: Function, types: tuple[DType, ...], result: DType) -> bool:
    """Whether the function is defined for these types."""
    try:
        check_types(function, types, result)
    except UndefinedTypesError:
        return False
    return True


@pytest.mark.parametrize("function", sorted(set(SIGNATURES)), ids=lambda function: function.name)
def test_defined_types_have_values_and_others_are_refused(function: Function) -> None:
    """Each combination of types yields a pattern of the result's width, or a typed error."""
    for types, result in itertools.product(ALL_TYPES, DType):
        operands = [1] * len(types)
        if is_defined(function, types, result):
            value = evaluate(function, types, result, operands)
            assert 0 <= value < (2 if result is B else 1 << 8 * result.width)
        else:
            with pytest.raises(UndefinedTypesError) as refusal:
                evaluate(function, types, result, operands)
            assert refusal.value.function is function
            assert refusal.value.operand_types == types


@pytest.mark.parametrize(
    ("function", "count"),
    [
        (Function.COPY, 6),
        (Function.ADD, 3),
        (Function.DIV, 1),
        (Function.EQ, 6),
        (Function.AND, 3),
        (Function.WHERE, 6),
        (Function.CONVERT, 36),
        (Function.FLOOR_DIVIDE, 2),
        (Function.POW, 1),
        (Function.UNIFORM, 0),
        (Function.ARGMAX, 0),
        (Function.EXP, 1),
    ],
)
def test_number_of_defined_types(function: Function, count: int) -> None:
    """As many combinations of types are defined as the table of functions lists."""
    combinations = itertools.product(ALL_TYPES, DType)
    assert sum(is_defined(function, types, result) for types, result in combinations) == count


def test_all_functions_but_those_of_a_position_have_signatures() -> None:
    """Only functions of more than their operands' values are left out of the table."""
    positional = {Function.UNIFORM, Function.ARGMAX, Function.ARGMIN}
    assert set(SIGNATURES) == set(Function) - positional


@pytest.mark.parametrize(("dtype", "operand"), [(F, 1 << 32), (L, -1), (S, 1 << 32), (B, 256)])
def test_operands_must_fit_their_type(dtype: DType, operand: int) -> None:
    """An operand outside of its type's patterns is refused, and named."""
    with pytest.raises(OperandError) as refusal:
        evaluate(Function.COPY, (dtype,), dtype, (operand,))
    assert (refusal.value.operand, refusal.value.dtype) == (operand, dtype)
