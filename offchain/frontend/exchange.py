"""Tensors of torch as arrays, and back: bfloat16 elements are patterns in arrays of uint16."""

import numpy as np
import torch

from offchain.arithmetic.functions import DType
from offchain.commitments.tensors import NUMPY_TYPES, Array

_PATTERNS = NUMPY_TYPES[DType.BFLOAT16]


def to_array(tensor: torch.Tensor) -> Array:
    """Return a dense tensor on the processor as an array; both share their memory."""
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
