# pragma version 0.4.3
"""
@title The scalar functions that are not transcendental, by number
@license Apache-2.0
@notice Numbers of functions and of types are those of the arithmetic `ordered`, version 1. An
        operand is the bit pattern of its type, as a natural number: below 2 ** 32 for FLOAT32
        and INT32, 2 ** 64 for INT64, 2 ** 16 for BFLOAT16 and 2 ** 8 for INT8 and BOOL, where everything
        but 0 is true. Results are canonical: one NaN, and 0 or 1 for BOOL. A BFLOAT16 number is the
        upper half of a FLOAT32 one; it is compared as such, and converted through such.
"""

import float32
import integers

FLOAT32: constant(uint256) = 1
INT64: constant(uint256) = 2
INT32: constant(uint256) = 3
BOOL: constant(uint256) = 4
BFLOAT16: constant(uint256) = 5
INT8: constant(uint256) = 6
LOWER_BITS: constant(uint256) = 16
# One less than half of what the lower half of a FLOAT32 pattern counts to.
HALF_BELOW: constant(uint256) = 2**15 - 1

COPY: constant(uint256) = 0
ADD: constant(uint256) = 1
SUB: constant(uint256) = 2
MUL: constant(uint256) = 3
DIV: constant(uint256) = 4
FMA: constant(uint256) = 5
SQRT: constant(uint256) = 6
MAX: constant(uint256) = 7
MIN: constant(uint256) = 8
NEG: constant(uint256) = 9
ABS: constant(uint256) = 10
EQ: constant(uint256) = 11
GE: constant(uint256) = 16
# Vyper reserves AND, OR and NOT.
BIT_AND: constant(uint256) = 17
BIT_OR: constant(uint256) = 18
BIT_XOR: constant(uint256) = 19
BIT_NOT: constant(uint256) = 20
WHERE: constant(uint256) = 21
CONVERT: constant(uint256) = 22
FLOOR: constant(uint256) = 23
ROUND: constant(uint256) = 26
FLOOR_DIVIDE: constant(uint256) = 27
REMAINDER: constant(uint256) = 28

# Sets of functions: bit f stands for function f.
COMPARISONS: constant(uint256) = 63 << EQ
ROUNDINGS: constant(uint256) = 15 << FLOOR
BITWISE: constant(uint256) = (1 << BIT_AND) | (1 << BIT_OR) | (1 << BIT_XOR)
ON_ALL: constant(uint256) = (1 << COPY) | (1 << WHERE) | (1 << CONVERT) | COMPARISONS
ON_NUMBERS: constant(uint256) = (
    (1 << ADD) | (1 << SUB) | (1 << MUL) | (1 << MAX) | (1 << MIN) | (1 << NEG) | (1 << ABS)
)
ON_FLOATS: constant(uint256) = (
    ON_ALL | ON_NUMBERS | ROUNDINGS
    | (1 << DIV) | (1 << FMA) | (1 << SQRT)
)
ON_BOOLS: constant(uint256) = ON_ALL | BITWISE | (1 << BIT_NOT)
ON_INTEGERS: constant(uint256) = (
    ON_BOOLS | ON_NUMBERS | (1 << FLOOR_DIVIDE) | (1 << REMAINDER)
)
KNOWN: constant(uint256) = ON_FLOATS | ON_INTEGERS
OF_ONE: constant(uint256) = (
    (1 << COPY) | (1 << SQRT) | (1 << NEG) | (1 << ABS) | (1 << BIT_NOT) | (1 << CONVERT)
    | ROUNDINGS
)

# Which outcomes of a comparison (LESS, EQUAL, GREATER, UNORDERED: bits 0 to 3) make it true,
# four bits each, from EQ on: EQ 2, NE 13, LT 1, LE 3, GT 4, GE 6.
TRUE_OUTCOMES: constant(uint256) = 2 | 13 << 4 | 1 << 8 | 3 << 12 | 4 << 16 | 6 << 20


@internal
@pure
def is_known(function: uint256) -> bool:
    """
    @notice Whether this is one of them.
    """
    return (KNOWN >> function) & 1 != 0


@internal
@pure
def evaluate(
    function: uint256,
    type_0: uint256,
    type_1: uint256,
    type_2: uint256,
    result_type: uint256,
    x: uint256,
    y: uint256,
    z: uint256,
) -> uint256:
    """
    @notice The result of a scalar function, as a bit pattern of its type.
    @param function Number of the function; all that `is_known` says.
    @param type_0 Type of x.
    @param type_1 Type of y, or 0 if the function has one operand.
    @param type_2 Type of z, or 0 if the function has fewer than three operands.
    @param result_type Type of the result.
    @param x First operand.
    @param y Second operand; ignored where there is none.
    @param z Third operand; ignored where there is none.
    """
    assert self.is_known(function), "scalar: unknown function"
    is_defined: bool = self._is_defined(function, type_0, type_1, type_2, result_type)
    assert is_defined, "scalar: undefined types"
    if function == WHERE:
        if x != 0:
            return self._convert(type_1, type_1, y)
        return self._convert(type_1, type_1, z)
    if function == COPY or function == CONVERT:
        return self._convert(type_0, result_type, x)
    if type_0 == FLOAT32:
        return self._evaluate_float(function, x, y, z)
    if type_0 == BFLOAT16:
        return self._evaluate_float(function, x << LOWER_BITS, y << LOWER_BITS, 0)
    if type_0 == BOOL:
        return self._evaluate_bool(function, convert(x != 0, uint256), convert(y != 0, uint256))
    return self._evaluate_integer(function, self._width(type_0), x, y)


@internal
@pure
def _is_defined(
    function: uint256, type_0: uint256, type_1: uint256, type_2: uint256, result_type: uint256
) -> bool:
    """
    @notice Whether a known function has these types.
    """
    subject: uint256 = type_0
    expected_1: uint256 = type_0
    expected_2: uint256 = 0
    expected_result: uint256 = type_0
    if (OF_ONE >> function) & 1 != 0:
        expected_1 = 0
    if (COMPARISONS >> function) & 1 != 0:
        expected_result = BOOL
    elif function == CONVERT:
        if result_type < FLOAT32 or result_type > INT8:
            return False
        expected_result = result_type
    elif function == FMA:
        expected_2 = type_0
    elif function == WHERE:
        if type_0 != BOOL:
            return False
        subject = type_1
        expected_1 = type_1
        expected_2 = type_1
        expected_result = type_1
    functions: uint256 = 0
    if subject == FLOAT32:
        functions = ON_FLOATS
    elif subject == INT64 or subject == INT32:
        functions = ON_INTEGERS
    elif subject == BOOL:
        functions = ON_BOOLS
    elif subject == BFLOAT16 or subject == INT8:
        functions = ON_ALL
    return (
        (functions >> function) & 1 != 0
        and type_1 == expected_1
        and type_2 == expected_2
        and result_type == expected_result
    )


@internal
@pure
def _width(type: uint256) -> uint256:
    """
    @notice The width of an integer type in bits.
    """
    if type == INT64:
        return 64
    if type == INT32:
        return 32
    return 8


@internal
@pure
def _convert(source: uint256, target: uint256, x: uint256) -> uint256:
    """
    @notice The same value as another type, or made canonical as its own type.
    """
    if source == BFLOAT16:
        if target == BFLOAT16:
            return self._narrow(float32.canonical(x << LOWER_BITS))
        return self._convert_wide(FLOAT32, target, x << LOWER_BITS)
    if target == BFLOAT16:
        return self._narrow(self._convert_wide(source, FLOAT32, x))
    return self._convert_wide(source, target, x)


@internal
@pure
def _narrow(x: uint256) -> uint256:
    """
    @notice The BFLOAT16 number nearest to a canonical FLOAT32 one, ties to even.
    @dev The canonical NaN is a tie between a NaN of even bits, the canonical one, and another.
    """
    odd: uint256 = (x >> LOWER_BITS) & 1
    return unsafe_add(unsafe_add(x, HALF_BELOW), odd) >> LOWER_BITS


@internal
@pure
def _convert_wide(source: uint256, target: uint256, x: uint256) -> uint256:
    """
    @notice The same value as another type, or as its own, neither of which is BFLOAT16.
    """
    if source == FLOAT32:
        if target == FLOAT32:
            return float32.canonical(x)
        if target == BOOL:
            return convert(x & (float32.SIGN - 1) != 0, uint256)
        return float32.to_integer(x, self._width(target))
    if source == BOOL or target == BOOL:
        truth: uint256 = convert(x != 0, uint256)
        if target == FLOAT32:
            return unsafe_mul(truth, float32.ONE)  # One factor is 0 or 1.
        return truth
    source_width: uint256 = self._width(source)
    if target == FLOAT32:
        if integers.is_negative(source_width, x):
            return float32.from_integer(float32.SIGN, integers.negate(source_width, x))
        return float32.from_integer(0, x)
    return integers.wrap(self._width(target), integers.extend(source_width, x))


@internal
@pure
def _is_true(function: uint256, outcome: uint256) -> uint256:
    """
    @notice Whether a comparison is true for the order of its operands.
    @dev The comparison lies between EQ and GE, and the outcome is below 4.
    """
    return (TRUE_OUTCOMES >> unsafe_add(unsafe_sub(function, EQ) << 2, outcome)) & 1


@internal
@pure
def _evaluate_float(function: uint256, x: uint256, y: uint256, z: uint256) -> uint256:
    """
    @notice A function of FLOAT32 operands.
    """
    if function == FMA:
        return float32.fma(x, y, z)
    if function == ADD:
        return float32.add(x, y)
    if function == SUB:
        return float32.subtract(x, y)
    if function == MUL:
        return float32.multiply(x, y)
    if function == DIV:
        return float32.divide(x, y)
    if function == SQRT:
        return float32.square_root(x)
    if function == MAX:
        return float32.maximum(x, y)
    if function == MIN:
        return float32.minimum(x, y)
    if function == NEG:
        return float32.negate(x)
    if function == ABS:
        return float32.absolute(x)
    if function <= GE:
        return self._is_true(function, float32.compare(x, y))
    return float32.to_integral(x, unsafe_sub(function, FLOOR))  # FLOOR to ROUND are left.


@internal
@pure
def _evaluate_integer(function: uint256, width: uint256, x: uint256, y: uint256) -> uint256:
    """
    @notice A function of INT64, INT32 or INT8 operands.
    """
    if function == ADD:
        return integers.add(width, x, y)
    if function == SUB:
        return integers.subtract(width, x, y)
    if function == MUL:
        return integers.multiply(width, x, y)
    if function == NEG:
        return integers.negate(width, x)
    if function == ABS:
        return integers.absolute(width, x)
    if function == BIT_AND:
        return x & y
    if function == BIT_OR:
        return x | y
    if function == BIT_XOR:
        return x ^ y
    if function == BIT_NOT:
        return integers.complement(width, x)
    if function == FLOOR_DIVIDE:
        return integers.floor_divide(width, x, y)
    if function == REMAINDER:
        return integers.remainder(width, x, y)
    outcome: uint256 = integers.compare(width, x, y)
    if function > MIN:
        return self._is_true(function, outcome)
    if (function == MAX) == (outcome == integers.LESS):
        return y
    return x


@internal
@pure
def _evaluate_bool(function: uint256, x: uint256, y: uint256) -> uint256:
    """
    @notice A function of BOOL operands, each 0 or 1.
    """
    if function == BIT_AND:
        return x & y
    if function == BIT_OR:
        return x | y
    if function == BIT_XOR:
        return x ^ y
    if function == BIT_NOT:
        return x ^ 1
    return self._is_true(function, integers.compare(64, x, y))
