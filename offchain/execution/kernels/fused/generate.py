"""The machine code of fused kernels: a loop over blocks of rows around the passes of each block."""

import ctypes
from functools import cache

from llvmlite import ir

from offchain.execution.kernels import native
from offchain.execution.kernels.fused.columns import ColumnPass
from offchain.execution.kernels.fused.frame import Frame
from offchain.execution.kernels.fused.region import Region
from offchain.execution.kernels.fused.rows import RowPass
from offchain.execution.kernels.vectors import WORD

_NAME = "region"


class Kernel:
    """A region's machine code.

    Attributes:
        scratch_bytes: how much memory of its own each call needs.
    """

    def __init__(self, region: Region) -> None:
        module, self.scratch_bytes = write(region)
        self._run = native.load(module, _NAME, *[ctypes.c_int64] * 4)

    def run(self, pointers: int, first: int, stop: int, scratch: int) -> None:
        """Compute some rows.

        Args:
            pointers: address of the addresses of the region's buffers, 64 bits each.
            first: the first row.
            stop: the row after the last one.
            scratch: address of `scratch_bytes` bytes that nobody else uses.
        """
        self._run(pointers, first, stop, scratch)


@cache
def compile_region(region: Region) -> Kernel:
    """Return the kernel of a region; equal regions share it."""
    return Kernel(region)


def write(region: Region) -> tuple[ir.Module, int]:
    """Return a region's code, and the bytes of scratch memory that it needs."""
    module = ir.Module()
    signature = ir.FunctionType(ir.VoidType(), [WORD] * 4)
    function = ir.Function(module, signature, _NAME)
    pointers, first, stop, scratch = function.args
    builder = ir.IRBuilder(function.append_basic_block())
    frame = Frame(region, builder, pointers, scratch)
    block = WORD(region.block)
    with frame.counting(first, stop, block) as start:
        left = builder.sub(stop, start)
        size = builder.select(builder.icmp_signed("<", block, left), block, left)
        for stage, this in enumerate(frame.plan.passes):
            if this.reached:
                with frame.counting(WORD(0), size, WORD(1)) as row:
                    ColumnPass(frame, stage, start, row).emit()
            RowPass(frame, stage, start, size).emit()
    builder.ret_void()
    return module, frame.scratch_bytes
