"""Plans of regions on a device."""

from collections.abc import Collection, Sequence
from dataclasses import replace
from functools import cache, cached_property
from typing import Any

from moot.offchain.backends.cuda.kernel import Kernel
from moot.offchain.backends.cuda.machine import Launch, Machine, Tensor
from moot.offchain.backends.cuda.regions import maps, rows
from moot.offchain.backends.cuda.regions.form import LIMITS, MOST_LANES, Form, Layout, count_in_row
from moot.offchain.backends.cuda.single import Flats, Reserve, launch_all
from moot.offchain.commitments.tensors import NUMPY_TYPES
from moot.offchain.planning.assembly import Assembly
from moot.offchain.planning.gathers import find_fusible
from moot.offchain.planning.readings import Reading, as_fused_map
from moot.offchain.planning.region import Region
from moot.offchain.planning.roles import (
    EXPRESSIBLE,
    FEW_ROWS,
    SMALL_ELEMENTS,
    Group,
    as_folded,
    as_picked,
    is_one_hot,
)
from moot.offchain.programs.graph import Kind, Node, Origin


def is_fusible(node: Node) -> bool:
    """Whether an operator may be in a region.

    A fold of few and long rows is better alone, as many blocks share its lanes then. Contractions
    and folds of columns have kernels of their own.
    """
    if node.kind is Kind.CONTRACT:
        return False
    if node.kind is Kind.REDUCE:
        folded = as_folded(node)
        if folded is None or node.function not in EXPRESSIBLE:
            return False
        is_wide = SMALL_ELEMENTS < folded.elements < FEW_ROWS * folded.columns
        return not is_wide and (folded.lanes or 1) <= MOST_LANES
    if as_picked(node) or is_one_hot(node) or find_fusible(node):
        return True
    copy = as_fused_map(node)
    return copy is not None and copy.function in EXPRESSIBLE


class FusedRegion:
    """The plan of a region.

    Args:
        machine: what computes it.
        group: the operators and the matrix that they are on.
        kept: indices of the members whose outputs are wanted.

    Attributes:
        operands: the accesses to tensors from outside the region.
        form: the form of its kernel.
    """

    is_launched = True

    def __init__(self, machine: Machine, group: Group, kept: Collection[int]) -> None:
        self._machine = machine
        wanted = [member for member in group.members if member.index in kept]
        self._outputs = [(m.node.shape, m.node.dtype) for m in wanted]
        assembly = Assembly(group)
        self.operands = tuple(reading.operand for reading in assembly.readings)
        first = len(self.operands)
        stores = tuple((assembly.numbers[m.index], first + i) for i, m in enumerate(wanted))
        self.form = Form(
            Region(
                assembly.rows,
                assembly.columns,
                assembly.last_columns,
                1,
                tuple(assembly.values),
                stores,
                segments=assembly.segments,
            ),
            tuple(_forget(i, reading) for i, reading in enumerate(assembly.readings)),
            LIMITS,
        )

    @cached_property
    def _loaded(self) -> tuple[Any, int]:
        """The kernel, and the number of its blocks."""
        count = maps.count_blocks if self.form.is_of_maps else rows.count_blocks
        return self._machine.load(make_kernel(self.form)), count(self.form)

    @cached_property
    def _spilled(self) -> list[int]:
        """The bytes of what the kernel keeps in device memory."""
        form = self.form
        if form.is_of_maps:
            return []
        values = form.region.values
        return [
            form.rows * count_in_row(form.region, index) * values[index].dtype.width
            for index in Layout(form).spilled
        ]

    def run(self, flats: Flats) -> list[Tensor]:
        """Return the wanted outputs, given the tensors of the operands."""
        machine = self._machine
        outputs = [Tensor(machine, shape, NUMPY_TYPES[dtype]) for shape, dtype in self._outputs]
        launch_all(machine, self, flats, outputs)
        return outputs

    def list_launches(
        self, sources: Sequence[int], targets: Sequence[int], reserve: Reserve
    ) -> list[Launch]:
        """Return the launch."""
        loaded, blocks = self._loaded
        spilled = [reserve(size) for size in self._spilled]
        return [Launch(loaded, blocks, [*sources, *targets, *spilled])]


@cache
def make_kernel(form: Form) -> Kernel:
    """Return the kernel of a region."""
    return maps.make_maps(form) if form.is_of_maps else rows.make_rows(form)


def _forget(number: int, reading: Reading) -> Any:
    """Return how a buffer is read where strides can't say it, whichever tensor it is."""
    if reading.is_view:
        return None
    return replace(reading.operand, origin=Origin.STATE, reference=number), reading.sizes
