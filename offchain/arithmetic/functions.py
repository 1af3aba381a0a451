"""The scalar functions of the arithmetic, by number: the table that all else refers to."""

from enum import IntEnum


class DType(IntEnum):
    """Element types that the arithmetic defines; the number is the type's canonical encoding."""

    FLOAT32 = 1
    INT64 = 2
    INT32 = 3
    BOOL = 4
    BFLOAT16 = 5
    INT8 = 6

    @property
    def width(self) -> int:
        """Bytes of one element in its canonical little-endian form."""
        return _WIDTHS[self]


_WIDTHS = {
    DType.FLOAT32: 4,
    DType.INT64: 8,
    DType.INT32: 4,
    DType.BOOL: 1,
    DType.BFLOAT16: 2,
    DType.INT8: 1,
}

CANONICAL_NAN = 0x7FC00000
"""The one bit pattern under which every NaN is committed."""


class Function(IntEnum):
    """Scalar functions; the number is the canonical encoding and never changes its meaning.

    The comment gives (operands) -> result; F is FLOAT32, I INT64 or INT32, B BOOL, X any type.
    BFLOAT16 is a type to keep numbers in: it has comparisons, choices and conversions only, and
    what is computed with its numbers is computed in FLOAT32, and rounded when it is converted back.
    INT8 is another: what is computed with its numbers is computed in INT32, but for contractions,
    which may have factors of INT8.
    """

    COPY = 0  # (X) -> X
    ADD = 1  # (F, F) -> F, (I, I) -> I
    SUB = 2  # (F, F) -> F, (I, I) -> I
    MUL = 3  # (F, F) -> F, (I, I) -> I
    DIV = 4  # (F, F) -> F
    FMA = 5  # (F a, F b, F c) -> F, a * b + c rounded once; contractions have it of integers, too
    SQRT = 6  # (F) -> F
    MAX = 7  # (F, F) -> F, (I, I) -> I
    MIN = 8  # (F, F) -> F, (I, I) -> I
    NEG = 9  # (F) -> F, (I) -> I
    ABS = 10  # (F) -> F, (I) -> I
    EQ = 11  # (X, X) -> B
    NE = 12  # (X, X) -> B
    LT = 13  # (X, X) -> B
    LE = 14  # (X, X) -> B
    GT = 15  # (X, X) -> B
    GE = 16  # (X, X) -> B
    AND = 17  # (B, B) -> B, (I, I) -> I, bitwise
    OR = 18  # (B, B) -> B, (I, I) -> I, bitwise
    XOR = 19  # (B, B) -> B, (I, I) -> I, bitwise
    NOT = 20  # (B) -> B, logical; (I) -> I, bitwise
    WHERE = 21  # (B condition, X a, X b) -> X
    CONVERT = 22  # (X) -> any type
    FLOOR = 23  # (F) -> F
    CEIL = 24  # (F) -> F
    TRUNC = 25  # (F) -> F
    ROUND = 26  # (F) -> F, half to even
    FLOOR_DIVIDE = 27  # (I, I) -> I, toward minus infinity, by zero is 0
    REMAINDER = 28  # (I, I) -> I, with the divisor's sign, by zero is 0
    UNIFORM = 29  # () -> F, in [0, 1): Philox, see philox.py
    ARGMAX = 30  # fold over positions: see programs/semantics.py
    ARGMIN = 31  # likewise
    EXP = 64  # (F) -> F, correctly rounded, like all that follow
    EXPM1 = 65
    EXP2 = 66
    LOG = 67
    LOG1P = 68
    LOG2 = 69
    SIN = 70
    COS = 71
    TAN = 72
    TANH = 73
    SINH = 74
    COSH = 75
    ERF = 76
    ERFC = 77
    RSQRT = 78
    SIGMOID = 79
    POW = 80  # (F, F) -> F

    @property
    def is_transcendental(self) -> bool:
        """Whether mathematics (correct rounding), not IEEE 754, defines the function."""
        return self >= Function.EXP
