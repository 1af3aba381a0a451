"""The functions in binary64 of which the error is known: the only ones that `logged` computes."""

import math
from collections.abc import Callable, Mapping

import numpy as np
import numpy.typing as npt

from moot.offchain.arithmetic.functions import Function

Doubles = npt.NDArray[np.float64]


def _sigmoid(x: Doubles) -> Doubles:
    return np.asarray(1 / (1 + np.exp(-x)))


def _apply_by_c(function: Callable[[float], float]) -> Callable[[Doubles], Doubles]:
    apply = np.frompyfunc(function, 1, 1)
    return lambda x: np.asarray(apply(x), np.float64)


FUNCTIONS: Mapping[Function, Callable[..., Doubles]] = {
    Function.EXP: np.exp,
    Function.EXPM1: np.expm1,
    Function.EXP2: np.exp2,
    Function.LOG: np.log,
    Function.LOG1P: np.log1p,
    Function.LOG2: np.log2,
    Function.SIN: np.sin,
    Function.COS: np.cos,
    Function.TAN: np.tan,
    Function.TANH: np.tanh,
    Function.SINH: np.sinh,
    Function.COSH: np.cosh,
    Function.ERF: _apply_by_c(math.erf),
    Function.ERFC: _apply_by_c(math.erfc),
    Function.RSQRT: lambda x: np.asarray(1 / np.sqrt(x)),
    Function.SIGMOID: _sigmoid,
    Function.POW: np.power,
}
"""Functions whose binary64 form is known to err by at most 2^-46 of its value.

Numpy's own vector forms err by less than 4 units in the last place (2^-50), as its documentation of
SIMD says, and the others are the C library's: the GNU manual, "Known Maximum Errors in Math
Functions", has at most 4 units for all of these on x86-64 and aarch64, and erfc's 5 is the most. A
quotient or a sum of such values adds two. The bound is eight times the largest of these or more.
"""
