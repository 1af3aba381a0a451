"""All decompositions of our own, and where they apply."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from operator import attrgetter
from typing import Any

import torch
from torch._C import DispatchKey
from torch._ops import OpOverload

from offchain.programs.decompositions.alignments import ALIGNMENTS
from offchain.programs.decompositions.counting import COUNTING
from offchain.programs.decompositions.distances import DISTANCES
from offchain.programs.decompositions.drawing import DRAWING
from offchain.programs.decompositions.embeddings import BAGS, EMBEDDINGS
from offchain.programs.decompositions.experts import EXPERTS
from offchain.programs.decompositions.gamma import GAMMA
from offchain.programs.decompositions.inverse import INVERSE
from offchain.programs.decompositions.margins import MARGINS
from offchain.programs.decompositions.quantization import QUANTIZATION
from offchain.programs.decompositions.resampling import RESAMPLING
from offchain.programs.decompositions.selection import MASKED, SELECTION
from offchain.programs.decompositions.signs import SIGNS
from offchain.programs.decompositions.strides import STRIDES

DECOMPOSITIONS: Mapping[str, Callable[..., Any]] = {
    **COUNTING,
    **EXPERTS,
    **GAMMA,
    **DRAWING,
    **EMBEDDINGS,
    **INVERSE,
    **QUANTIZATION,
    **SELECTION,
    **SIGNS,
    **STRIDES,
}
"""ATen overload -> decomposition of it, and of its gradient if that is an operator."""

COMPOSITIONS: Mapping[str, Callable[..., Any]] = {
    **ALIGNMENTS,
    **BAGS,
    **DISTANCES,
    **MARGINS,
    **MASKED,
    **RESAMPLING,
}
"""ATen overload -> composition that autograd sees, so that its gradient follows from its parts."""


EARLY: Mapping[str, Callable[..., Any]] = {**EXPERTS}
"""ATen overload -> decomposition of an operator whose shape torch does not infer for our types."""


def find_overload(name: str) -> OpOverload:
    """Return ATen's overload of a name."""
    overload: OpOverload = attrgetter(name)(torch.ops)
    return overload


@contextmanager
def compose() -> Iterator[None]:
    """Let autograd see the compositions in place of their operators, as torch does with its own.

    They take effect where torch's Python dispatcher is enabled.
    """
    kept = {n: find_overload(n).py_kernels.get(DispatchKey.Autograd) for n in COMPOSITIONS}
    for name, function in COMPOSITIONS.items():
        _replace(name, function)
    try:
        yield
    finally:
        for name, before in kept.items():
            _replace(name, before)


def _replace(name: str, function: Callable[..., Any] | None) -> None:
    """Give an operator a Python kernel above autograd, or none."""
    overload = find_overload(name)
    overload.py_kernels.pop(DispatchKey.Autograd, None)
    if function is not None:
        overload.py_kernels[DispatchKey.Autograd] = function
    overload._dispatch_cache.clear()  # noqa: SLF001 - torch clears it itself when it adds a kernel
