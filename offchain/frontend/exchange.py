"""Tensors of torch as arrays, and back: bfloat16 elements are patterns in arrays of uint16."""

import numpy as np
import torch

from moot.offchain.arithmetic.functions import DType
from moot.offchain.commitments.tensors import NUMPY_TYPES, Array

_PATTERNS = NUMPY_TYPES[DType.BFLOAT16]


NARROW = (torch.uint8, torch.int16)
"""Types whose elements are INT32 numbers in a program."""


def widen(tensor: torch.Tensor) -> torch.Tensor:
    """Return a tensor in the type that its elements have in a program."""
    return tensor.to(torch.int32) if tensor.dtype in NARROW else tensor


def to_array(tensor: torch.Tensor) -> Array:
    """Return a dense tensor on the processor as an array; both share their memory.

    Integers of `NARROW` types are INT32 numbers, in an array of its own.
    """
    tensor = widen(tensor)
    is_half = tensor.dtype is torch.bfloat16
    array: Array = (tensor.detach().view(torch.uint16) if is_half else tensor.detach()).numpy()
    return array


def to_tensor(array: Array) -> torch.Tensor:
    """Return an array that may be written to as a tensor; both share their memory."""
    tensor = torch.from_numpy(array)
    return tensor.view(torch.bfloat16) if array.dtype == _PATTERNS else tensor


def zeros(shape: tuple[int, ...], dtype: torch.dtype) -> torch.Tensor:
    """Return zeros, whose memory is taken when it is written to."""
    kind = to_array(torch.empty((), dtype=dtype)).dtype
    return to_tensor(np.zeros(shape, kind))
