"""Tasks for games: tiny programs with their start states and batches."""

from functools import cache

import numpy as np

from offchain.arithmetic.functions import DType
from offchain.commitments.tensors import NUMPY_TYPES, Array
from offchain.programs.graph import Kind
from tests.lockstep.claims import Claim, Task
from tests.lockstep.programs import every_function, every_kind, fold


def draw(seed: int, *shape: int) -> Array:
    """Return a tensor of normal numbers."""
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


@cache
def kinds(steps: int = 2, checkpoint_every: int = 1) -> Task:
    """Return a task for the program of all kinds."""
    start = (draw(0, 2, 3), draw(1, 70), np.array(-3, np.int64))
    indices = np.array([2, 0, 2], np.int64)
    batches = tuple((draw(2 + step, 3, 4), indices) for step in range(steps))
    return Task(every_kind(), start, batches, checkpoint_every)


@cache
def honest_kinds(steps: int = 2, checkpoint_every: int = 1) -> Claim:
    """Return the honest run of the program of all kinds."""
    return Claim(kinds(steps, checkpoint_every))


@cache
def folds(length: int, kind: Kind = Kind.CONTRACT) -> Task:
    """Return a task of one fold of this length; it has no batch."""
    return Task(fold(length, kind), (draw(length, length),), ((),))


@cache
def functions() -> tuple[Task, tuple[int, ...]]:
    """Return a task for the program of all functions, and the indices of its maps."""
    program, indices = every_function()
    patterns = {
        DType.FLOAT32: np.array([1.5, -0.0, -2.75, 3e-39, np.inf, 0.5, -1e30, 7.0], "<f4"),
        DType.INT64: np.array([7, -(2**63), -5, 2**62, 3, 0, -1, 2**63 - 1], "<i8"),
        DType.INT32: np.array([7, -(2**31), -5, 2**30, 3, 0, -1, 2**31 - 1], "<i4"),
        DType.BOOL: np.array([1, 0, 0, 1, 1, 1, 0, 0], "?"),
    }
    batch = tuple(patterns[dtype].astype(NUMPY_TYPES[dtype]) for dtype in DType)
    return Task(program, (draw(9, 1),), (batch,)), indices
