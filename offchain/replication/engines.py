"""The engines of binary64 that are torch's: on the processor, and on an NVIDIA device."""

from collections.abc import Callable, Mapping
from typing import Any, ClassVar

import numpy as np
import torch

from moot.offchain.arithmetic.functions import Function
from moot.offchain.errors import DeviceError
from moot.offchain.native.binary64.base import Doubles, Engine

_FUNCTIONS: Mapping[Function, Callable[..., torch.Tensor]] = {
    Function.EXP: torch.exp,
    Function.EXPM1: torch.expm1,
    Function.EXP2: torch.exp2,
    Function.LOG: torch.log,
    Function.LOG1P: torch.log1p,
    Function.LOG2: torch.log2,
    Function.SIN: torch.sin,
    Function.COS: torch.cos,
    Function.TAN: torch.tan,
    Function.TANH: torch.tanh,
    Function.SINH: torch.sinh,
    Function.COSH: torch.cosh,
    Function.ERF: torch.erf,
    Function.ERFC: torch.erfc,
    Function.RSQRT: torch.rsqrt,
    Function.SIGMOID: torch.sigmoid,
    Function.POW: torch.pow,
}


class TorchEngine(Engine):
    """Torch's products, reductions and functions on a device; by default the processor."""

    adds_up: bool = True
    device: ClassVar[str] = "cpu"

    def multiply(self, a: Doubles, b: Doubles) -> Any:
        """See Engine."""
        return self._bring(torch.matmul(self._take(a), self._take(b)))

    def add_up(self, terms: Doubles) -> Any:
        """See Engine."""
        return self._bring(self._take(terms).sum(dim=1))

    def evaluate(self, function: Function, *operands: Doubles) -> Any:
        """See Engine."""
        return self._bring(_FUNCTIONS[function](*map(self._take, operands)))

    def _take(self, array: Doubles) -> Any:
        return torch.from_numpy(np.ascontiguousarray(array)).to(self.device)

    def _bring(self, tensor: Any) -> Any:
        return tensor.cpu().numpy()


class CudaEngine(TorchEngine):
    """An NVIDIA device's, by torch: cuBLAS, and the functions of CUDA's library."""

    device: ClassVar[str] = "cuda"

    def __init__(self) -> None:
        if not torch.cuda.is_available():
            raise DeviceError(
                "the engine cublas needs an NVIDIA device and a torch that is built for it; "
                "choose own, numpy or torch"
            )
