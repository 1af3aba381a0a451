"""The table of Moot's own decompositions, and the operators to which they apply."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from operator import attrgetter
from typing import Any

import torch
from torch._C import DispatchKey
from torch._ops import OpOverload

from moot.offchain.frontend.decompositions.alignments import ALIGNMENTS
from moot.offchain.frontend.decompositions.complex_numbers import COMPLEX
from moot.offchain.frontend.decompositions.counting import COUNTING, COUNTS
from moot.offchain.frontend.decompositions.distances import DISTANCES
from moot.offchain.frontend.decompositions.drawing import DRAWING
from moot.offchain.frontend.decompositions.embeddings import BAGS, EMBEDDINGS
from moot.offchain.frontend.decompositions.experts import EXPERTS
from moot.offchain.frontend.decompositions.exponentials import EXPONENTIALS
from moot.offchain.frontend.decompositions.fourier import FOURIER
from moot.offchain.frontend.decompositions.fractions import FRACTIONS
from moot.offchain.frontend.decompositions.gamma import GAMMA
from moot.offchain.frontend.decompositions.inverse import INVERSE
from moot.offchain.frontend.decompositions.lists import LISTS
from moot.offchain.frontend.decompositions.losses import EMPTY, LOSSES
from moot.offchain.frontend.decompositions.margins import MARGINS
from moot.offchain.frontend.decompositions.methods import METHODS
from moot.offchain.frontend.decompositions.packing import PACKING
from moot.offchain.frontend.decompositions.pivots import PIVOTS
from moot.offchain.frontend.decompositions.quantization import QUANTIZATION
from moot.offchain.frontend.decompositions.reflections import PRODUCTS, REFLECTIONS
from moot.offchain.frontend.decompositions.resampling import RESAMPLING
from moot.offchain.frontend.decompositions.rotations import RANKS, ROTATIONS
from moot.offchain.frontend.decompositions.selection import MASKED, SELECTION
from moot.offchain.frontend.decompositions.signs import SIGNS
from moot.offchain.frontend.decompositions.solvers import SOLVERS, SYSTEMS
from moot.offchain.frontend.decompositions.statistics import SPREADS, STATISTICS
from moot.offchain.frontend.decompositions.strides import STRIDES
from moot.offchain.frontend.decompositions.zeros import ZEROS

DECOMPOSITIONS: Mapping[str, Callable[..., Any]] = {
    **COUNTING,
    **FOURIER,
    **EXPERTS,
    **GAMMA,
    **DRAWING,
    **EMBEDDINGS,
    **EXPONENTIALS,
    **INVERSE,
    **LISTS,
    **LOSSES,
    **PIVOTS,
    **QUANTIZATION,
    **REFLECTIONS,
    **ROTATIONS,
    **SELECTION,
    **SIGNS,
    **SOLVERS,
    **SPREADS,
    **STRIDES,
    **COMPLEX,
}
"""ATen overload -> decomposition of it, and of its gradient if that is an operator."""

COMPOSITIONS: Mapping[str, Callable[..., Any]] = {
    **ALIGNMENTS,
    **BAGS,
    **DISTANCES,
    **FRACTIONS,
    **MARGINS,
    **MASKED,
    **PACKING,
    **PRODUCTS,
    **RANKS,
    **RESAMPLING,
    **STATISTICS,
    **SYSTEMS,
}
"""ATen overload -> composition that autograd sees, so that its gradient follows from its parts."""


EARLY: Mapping[str, Callable[..., Any]] = {
    **EXPERTS,
    **COUNTS,
    **EMPTY,
    **ZEROS,
}
"""ATen overload -> decomposition of an operator that torch can't trace: it does not infer the shape
for our types, loses the device, or divides by zero."""


def find_overload(name: str) -> OpOverload:
    """Return ATen's overload of a name."""
    overload: OpOverload = attrgetter(name)(torch.ops)
    return overload


@contextmanager
def compose() -> Iterator[None]:
    """Let autograd see the compositions in place of their operators, as torch does with its own.

    They take effect where torch's Python dispatcher is enabled. Methods are replaced as well.
    """
    kernels = {name: dict(find_overload(name).py_kernels) for name in COMPOSITIONS}
    methods = [(owner, name, getattr(owner, name)) for owner, name, _ in METHODS]
    for name, function in COMPOSITIONS.items():
        _set_kernels(name, {**kernels[name], _find_key(name): function})
    for owner, name, function in METHODS:
        setattr(owner, name, function)
    try:
        yield
    finally:
        for name, before in kernels.items():
            _set_kernels(name, before)
        for owner, name, function in methods:
            setattr(owner, name, function)


def _find_key(name: str) -> DispatchKey:
    """Return where a composition goes: over the operator's own, or above autograd."""
    own = DispatchKey.CompositeImplicitAutograd
    has_own = find_overload(name).has_kernel_for_dispatch_key(own)
    return own if has_own else DispatchKey.Autograd


def _set_kernels(name: str, kernels: Mapping[DispatchKey, Callable[..., Any]]) -> None:
    """Give an operator these Python kernels and no others."""
    overload = find_overload(name)
    overload.py_kernels.clear()
    overload.py_kernels.update(kernels)
    overload._dispatch_cache.clear()  # noqa: SLF001 - torch clears it itself when it adds a kernel
