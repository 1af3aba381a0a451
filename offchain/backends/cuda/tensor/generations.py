"""Generations of tensor cores: which of their arithmetics a compute capability should have."""

from collections.abc import Sequence

from moot.offchain.arithmetic.tensor import AMPERE, HOPPER
from moot.offchain.arithmetic.tensor.blocks import BLOCKS, Block

_LEAST = (((9, 0), HOPPER.name), ((8, 0), AMPERE.name))
"""The least compute capability of a generation, the latest first."""

_HOPPER = 9


def find_generations(capability: tuple[int, int]) -> Sequence[str]:
    """Return the names of the arithmetics of a device's tensor cores: one, or none.

    Turing's multiply no bfloat16. What is newer than any that is known counts as the latest.
    """
    return [name for least, name in _LEAST if capability >= least][:1]


def has_groups(capability: tuple[int, int], block: Block | None) -> bool:
    """Whether warp groups multiply in such blocks, or bytes: by `wgmma`, which Hopper's have."""
    return capability[0] == _HOPPER and block in (None, BLOCKS[HOPPER.name])
