"""The machine code of fused kernels: a loop over blocks of rows around the passes of each block."""

import ctypes
from collections.abc import Sequence
from functools import cache

from llvmlite import ir

from moot.offchain.backends.cpu.kernels.fused.columns import ColumnPass
from moot.offchain.backends.cpu.kernels.fused.frame import Frame
from moot.offchain.backends.cpu.kernels.fused.rows import RowPass
from moot.offchain.native import native
from moot.offchain.native.vectors import WORD
from moot.offchain.planning.region import Region

_NAME = "region"


class Kernel:
    """A region's machine code.

    Attributes:
        scratch_bytes: how much memory of its own each call needs.
        address: address of the function behind `run`.
    """

    def __init__(self, region: Region) -> None:
        module, self.scratch_bytes = write(region)
        self._run = native.load(module, _NAME, *[ctypes.c_int64] * 5)
        self.address = native.get_entry_address(self._run)

    def run(self, pointers: int, first: int, stop: int, scratch: int, columns: int) -> None:
        """Compute some rows.

        Args:
            pointers: address of the addresses of the region's buffers, 64 bits each.
            first: the first row.
            stop: the row after the last one.
            scratch: address of `scratch_bytes` bytes that nobody else uses.
            columns: how many columns to compute, if the region is cut.
        """
        self._run(pointers, first, stop, scratch, columns)


class WideKernel:
    """The machine code of a wide region.

    Attributes:
        scratch_bytes: how much memory each row needs, whoever computes its parts.
        passes: the passes over a row in their order, each as its number and its parts, which are
            computed apart; 0 if it is one for the whole row.
        address: the address of a function of six words: the address of the addresses of the
            region's buffers; that of the row's scratch memory; the row; the number of a pass, those
            before which are computed; its first part, and the part behind the last one.
    """

    def __init__(self, region: Region) -> None:
        module, self.scratch_bytes, self.passes = write_wide(region)
        self.address = native.load_address(module, _NAME)


@cache
def compile_region(region: Region) -> Kernel | WideKernel:
    """Return the kernel of a region; equal regions share it."""
    return WideKernel(region) if region.is_wide else Kernel(region)


def write(region: Region) -> tuple[ir.Module, int]:
    """Return a region's code, and the bytes of scratch memory that it needs."""
    builder, (pointers, first, stop, scratch, columns) = _begin(5)
    frame = Frame(region, builder, pointers, scratch, columns)
    block = WORD(region.block)
    with frame.counting(first, stop, block) as start:
        left = builder.sub(stop, start)
        size = builder.select(builder.icmp_signed("<", block, left), block, left)
        for stage, this in enumerate(frame.plan.passes):
            if this.folded and region.segments > 1:
                with frame.counting(WORD(0), size, WORD(1)) as row:
                    ColumnPass(frame, stage, start, row).emit_starts()
            if this.reached:
                segments = WORD(region.segments)
                with (
                    frame.counting(WORD(0), segments, WORD(1)) as segment,
                    frame.counting(WORD(0), size, WORD(1)) as row,
                ):
                    ColumnPass(frame, stage, start, row, segment).emit()
            RowPass(frame, stage, start, size).emit()
    if region.is_streamed:
        builder.fence("seq_cst")
    builder.ret_void()
    return builder.module, frame.scratch_bytes


def write_wide(region: Region) -> tuple[ir.Module, int, list[tuple[int, int]]]:
    """Return a wide region's code, the bytes of scratch that it needs, and the passes of a row."""
    builder, (pointers, scratch, row, number, first, stop) = _begin(6)
    frame = Frame(region, builder, pointers, scratch)
    passes = []
    for stage, this in enumerate(frame.plan.passes):
        with builder.if_then(builder.icmp_signed("==", number, WORD(2 * stage))):
            columns = ColumnPass(frame, stage, row, WORD(0))
            if columns.parts:
                columns.emit_parts(first, stop)
                passes.append((2 * stage, columns.parts))
        with builder.if_then(builder.icmp_signed("==", number, WORD(2 * stage + 1))):
            if this.picked:
                ColumnPass(frame, stage, row, WORD(0)).emit_picks()
            rows = RowPass(frame, stage, row, WORD(1))
            rows.emit()
            if this.picked or not rows.is_empty:
                passes.append((2 * stage + 1, 0))
    builder.ret_void()
    return builder.module, frame.scratch_bytes, passes


def _begin(parameters: int) -> tuple[ir.IRBuilder, Sequence[ir.Value]]:
    """Return where a kernel's code is written, in a module of its own, and its parameters."""
    signature = ir.FunctionType(ir.VoidType(), [WORD] * parameters)
    function = ir.Function(ir.Module(), signature, _NAME)
    return ir.IRBuilder(function.append_basic_block()), function.args
