# pragma version 0.4.3
"""
@title The transcendental functions of binary32 numbers, by number
@license Apache-2.0
@notice The result is the binary32 number nearest to the value of the real function. A NaN is
        2_143_289_344 (0x7fc00000). Numbers of functions are those of the arithmetic `ordered`,
        version 1; an operand is the bit pattern of a number, below 2 ** 32.
"""

import circular
import elementary
import error
import exponential
import logarithm
import power

EXP: constant(uint256) = 64
EXPM1: constant(uint256) = 65
EXP2: constant(uint256) = 66
LOG: constant(uint256) = 67
LOG1P: constant(uint256) = 68
LOG2: constant(uint256) = 69
SIN: constant(uint256) = 70
COS: constant(uint256) = 71
TAN: constant(uint256) = 72
TANH: constant(uint256) = 73
SINH: constant(uint256) = 74
COSH: constant(uint256) = 75
ERF: constant(uint256) = 76
ERFC: constant(uint256) = 77
RSQRT: constant(uint256) = 78
SIGMOID: constant(uint256) = 79
POW: constant(uint256) = 80


@external
@pure
def evaluate(function: uint256, x: uint256, y: uint256) -> uint256:
    """
    @notice The result of a function of one operand, or of two.
    @param function Number of the function.
    @param x First operand.
    @param y Second operand; 0 if there is none.
    """
    assert (x | y) >> 32 == 0, "transcendental: not a binary32 number"
    if function < SIN:
        if function == EXP:
            return exponential.exp(x)
        if function == EXPM1:
            return exponential.expm1(x)
        if function == EXP2:
            return exponential.exp2(x)
        if function == LOG:
            return logarithm.ln(x)
        if function == LOG1P:
            return logarithm.log1p(x)
        if function == LOG2:
            return logarithm.log2(x)
    elif function < ERF:
        if function == SIN:
            return circular.sin(x)
        if function == COS:
            return circular.cos(x)
        if function == TAN:
            return circular.tan(x)
        if function == TANH:
            return exponential.tanh(x)
        if function == SINH:
            return exponential.sinh(x)
        if function == COSH:
            return exponential.cosh(x)
    else:
        if function == ERF:
            return error.erf(x)
        if function == ERFC:
            return error.erfc(x)
        if function == RSQRT:
            return elementary.reciprocal_square_root(x)
        if function == SIGMOID:
            return exponential.sigmoid(x)
        if function == POW:
            return power.pow(x, y)
    raise "transcendental: unknown function"
