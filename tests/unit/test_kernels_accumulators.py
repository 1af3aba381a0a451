"""Extremes that are accumulated on integers are those of the definition."""

import ctypes
from itertools import product

import numpy as np
import pytest
from llvmlite import ir

from moot.offchain.arithmetic import evaluate
from moot.offchain.arithmetic.functions import DType, Function
from moot.offchain.backends.cpu.kernels.fused.accumulators import Accumulator
from moot.offchain.native import emit, native, vectors
from moot.offchain.native.vectors import FLOAT, WORD

_MAGNITUDES = (0, 1, 0x3F800000, 0x7F7FFFFF, 0x7F800000, 0x7F800001, 0x7FC00000, 0x7FFFFFFF)
_BITS = [sign | size for sign in (0, 1 << 31) for size in _MAGNITUDES]


@pytest.mark.parametrize("function", [Function.MAX, Function.MIN])
def test_extremes_of_specials_equal_definition(function: Function) -> None:
    """For zeros, infinities and NaNs of both signs an extreme is what the definition says."""
    first, second = np.array(list(product(_BITS, _BITS)), np.uint32).T.copy()
    found = np.empty_like(first)
    lanes, module = len(first), ir.Module()
    signature = ir.FunctionType(ir.VoidType(), [WORD] * 3)
    code = ir.Function(module, signature, "extreme")
    builder = ir.IRBuilder(code.append_basic_block())
    accumulator, kind = Accumulator(function, DType.FLOAT32), ir.VectorType(FLOAT, lanes)
    entered = [
        accumulator.enter(builder, vectors.load(builder, kind, address))
        for address in code.args[:2]
    ]
    result = accumulator.leave(builder, accumulator.step(builder, *entered))
    vectors.store(builder, emit.to_stored(builder, DType.FLOAT32, result), code.args[2])
    builder.ret_void()
    run = native.load(module, "extreme", *[ctypes.c_int64] * 3)
    run(*(array.ctypes.data for array in (first, second, found)))
    types = (DType.FLOAT32, DType.FLOAT32)
    defined = [
        evaluate.evaluate(function, types, DType.FLOAT32, (int(x), int(y)))
        for x, y in zip(first, second, strict=True)
    ]
    assert found.tolist() == defined
