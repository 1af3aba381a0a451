"""Whether products of floats are worth one kernel with the rows between them, by estimates.

Apart, tensor after tensor is written and read again; joined, a block has few rows, so that threads
have smaller tiles, and read shared memory more often for each step.
"""

from math import prod

from moot.offchain.backends.cuda.joined.form import FLOAT_BYTES, Joined
from moot.offchain.backends.cuda.joined.threads import find_tiling
from moot.offchain.backends.cuda.kernel import WARP
from moot.offchain.backends.cuda.machine import Machine
from moot.offchain.backends.cuda.tiling import LANES, LAUNCH_CYCLES, Tiling, estimate_cycles
from moot.offchain.programs.graph import Node

_BUSY = 1.28
"""Cycles for each of those that a tile's steps should take: `STEP_CYCLES` of tiles of 64 by 128, as
an H200 took them."""

_SHARED_BYTES = 128
"""What threads of a multiprocessor read of its shared memory in a cycle. With this every measured
tile of `STEP_CYCLES` is within two cycles of the larger one of what it reads and what it computes.
"""

_WARPS_AT_ONCE = 4

_DEVICE_BYTES, _LEAST_BYTES = {(9, 0): 20}, 10
"""A multiprocessor's share of device memory in a cycle, by compute capability, and that of others:
of an H200's 4.8 TB/s, with 132 at 1.8 GHz, and of an A100's 1.56 TB/s, with 108 at 1.41 GHz."""


def estimate_joined(form: Joined, machine: Machine) -> float:
    """Return about how many cycles the products of one kernel take, the rows between them apart.

    Blocks have a multiprocessor of their own, or as much of it as others have.
    """
    scores, sums = (find_tiling(form, which) for which in (0, 1))
    parts = -(-form.columns // scores.sides[1])
    block = parts * form.steps * _estimate_step(scores)
    if form.last is not None:
        block += form.columns * _estimate_step(sums)
    blocks = prod(form.region.region.rows) // form.side
    return -(-blocks // machine.multiprocessors) * block


def estimate_product(node: Node, machine: Machine) -> float:
    """Return about how many cycles a product takes in a kernel of its own, one launch more."""
    return estimate_cycles(node, machine.multiprocessors) + LAUNCH_CYCLES


def estimate_traffic(node: Node, times: int, machine: Machine) -> float:
    """Return about how many cycles it takes to write or to read an output so many times."""
    share = _DEVICE_BYTES.get(machine.capability, _LEAST_BYTES) * machine.multiprocessors
    return times * node.elements * FLOAT_BYTES / share


def _estimate_step(tiling: Tiling) -> float:
    """Return about how many cycles a step of a block's tile takes."""
    threads, (rows, columns) = prod(tiling.threads), tiling.own
    lanes = max(threads, _WARPS_AT_ONCE * WARP)
    computed = lanes * rows * columns / LANES
    read = threads * (rows + columns) * FLOAT_BYTES / _SHARED_BYTES
    return max(_BUSY * computed, read)
