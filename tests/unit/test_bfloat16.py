"""Bfloat16 beside torch's own: every pattern, and the roundings of many binary32 numbers."""

import numpy as np
import pytest
import torch

from moot.offchain.arithmetic import bfloat16
from moot.offchain.arithmetic.evaluate import evaluate
from moot.offchain.arithmetic.functions import DType, Function
from moot.offchain.backends.cpu.scalars import get_function
from moot.offchain.commitments.tensors import compute_tensor_root, encode_elements

F32, BF16 = DType.FLOAT32, DType.BFLOAT16
ALL = np.arange(1 << 16, dtype=np.uint16)


def round_by_torch(numbers: np.ndarray) -> np.ndarray:
    """Return the patterns of binary32 numbers rounded by torch, NaN canonical."""
    rounded = torch.from_numpy(numbers).to(torch.bfloat16)
    patterns = rounded.view(torch.uint16).numpy().copy()
    patterns[np.isnan(numbers)] = bfloat16.NAN
    return patterns


def make_numbers() -> np.ndarray:
    """Return numbers of all binades, and every pattern with the lower halves around a tie."""
    anything = np.random.default_rng(5).integers(0, 1 << 32, 200_000, np.uint32)
    lower = np.array([0, 1, 0x7FFF, 0x8000, 0x8001, 0xFFFF], np.uint32)
    ties = (ALL.astype(np.uint32)[:, None] << np.uint32(16) | lower).reshape(-1)
    return np.append(anything, ties).view(np.float32)


def test_numbers_are_rounded_as_torch_rounds_them() -> None:
    """The executor's rounding of many numbers is torch's, and so is the definition's of some."""
    numbers = make_numbers()
    expected = round_by_torch(numbers)
    found = np.empty(len(numbers), np.uint16)
    get_function(Function.CONVERT, [F32], BF16)(found, numbers)
    assert np.array_equal(found, expected)
    for pattern, right in list(zip(numbers.view(np.uint32), expected, strict=True))[::37]:
        assert evaluate(Function.CONVERT, (F32,), BF16, (int(pattern),)) == right


def test_every_pattern_is_the_number_that_torch_says() -> None:
    """Widened, every pattern is the number that torch says; narrowed again, it is itself."""
    wide = torch.from_numpy(ALL.copy()).view(torch.bfloat16).float().numpy()
    for pattern, number in zip(ALL.tolist(), wide, strict=True):
        found = evaluate(Function.CONVERT, (BF16,), F32, (pattern,))
        assert found == (bfloat16.NAN << 16 if np.isnan(number) else int(number.view(np.uint32)))
        assert evaluate(Function.CONVERT, (F32,), BF16, (found,)) == evaluate(
            Function.COPY, (BF16,), BF16, (pattern,)
        )


@pytest.mark.parametrize("function", [Function.EQ, Function.LT, Function.GE, Function.NE])
def test_patterns_are_compared_as_numbers(function: Function) -> None:
    """Zeros of both signs are equal, NaN is unordered, and all else is as torch has it."""
    patterns = np.random.default_rng(6).integers(0, 1 << 16, (2, 4000)).astype(np.uint16)
    patterns[:, :4] = [[0, 0x8000, bfloat16.NAN, 0x7F80], [0x8000, 0, bfloat16.NAN, 0x7F80]]
    x, y = (torch.from_numpy(row).view(torch.bfloat16) for row in patterns)
    expected = getattr(torch, function.name.lower())(x, y).tolist()
    pairs = zip(*patterns.tolist(), strict=True)
    assert [evaluate(function, (BF16, BF16), DType.BOOL, pair) for pair in pairs] == expected
    found = np.empty(patterns.shape[1], np.bool_)
    get_function(function, [BF16, BF16], DType.BOOL)(found, *patterns)
    assert found.tolist() == expected


def test_numbers_are_not_added_in_bfloat16() -> None:
    """What is computed is computed in binary32: the arithmetic has no sum of such numbers."""
    with pytest.raises(ValueError, match="ADD is not defined"):
        evaluate(Function.ADD, (BF16, BF16), BF16, (0, 0))


def test_every_nan_is_committed_as_one() -> None:
    """NaN of any pattern has one root, and no other pattern is changed."""
    encoded = encode_elements(ALL).view(np.uint16)
    is_nan = np.isnan(torch.from_numpy(ALL.copy()).view(torch.bfloat16).float().numpy())
    assert np.array_equal(encoded, np.where(is_nan, bfloat16.NAN, ALL))
    nans = [np.array([pattern], np.uint16) for pattern in (0x7FC0, 0x7F81, 0xFFFF)]
    assert len({compute_tensor_root(nan) for nan in nans}) == 1
    assert compute_tensor_root(np.array([0x7F80], np.uint16)) != compute_tensor_root(nans[0])
