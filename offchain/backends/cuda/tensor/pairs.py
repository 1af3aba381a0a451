"""Two products in one launch: the gradients of an attention's keys and values.

Each of them folds the columns of matrices of its own, from the first row to the last, and neither
reads what the other does. A tile of a block is as wide as a head, so that every element of both
comes to shared memory once; one launch more would bring nothing, and wait for the other's last
blocks. So the blocks of the second product are behind those of the first, in one grid: a block
runs the phases of its own product, and what tensor cores do between these is the same in both.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, ClassVar

from moot.offchain.arithmetic.tensor.blocks import Block
from moot.offchain.backends.cuda.factors import Rows
from moot.offchain.backends.cuda.kernel import Context, Kernel, Loop, Phase, Products, word
from moot.offchain.backends.cuda.machine import Launch, Machine
from moot.offchain.backends.cuda.tensor.generations import has_groups
from moot.offchain.backends.cuda.tensor.plans import Chained
from moot.offchain.backends.cuda.tensor.tiles import choose_tile, estimate_cycles
from moot.offchain.backends.cuda.tiling import LAUNCH_CYCLES
from moot.offchain.backends.cuda.warpgroups import Orders
from moot.offchain.planning.preconditions import Form, Precondition, make_form
from moot.offchain.programs.graph import Node

_Step = Phase | Products | Orders


@dataclass(frozen=True, slots=True)
class Pair(Form):
    """Two products that have the same phases.

    Attributes:
        steps: of both.
        factors: for both products where the rows of the first and of the second factor are.
    """

    steps: tuple[int, int]
    factors: tuple[tuple[Rows | None, Rows | None], tuple[Rows | None, Rows | None]]

    preconditions: ClassVar[tuple[Precondition, ...]] = (
        Precondition(
            "steps",
            "one loop goes through the steps of both",
            lambda form: form.steps[0] == form.steps[1],
        ),
        Precondition(
            "seen",
            "all factors are read where they are",
            lambda form: all(None not in factors for factors in form.factors),
        ),
        Precondition(
            "turned",
            "one instruction takes the lines of both, which are rows or steps",
            lambda form: (
                [rows and rows.is_turned for rows in form.factors[0]]
                == [rows and rows.is_turned for rows in form.factors[1]]
            ),
        ),
    )


class ChainedPair:
    """The plan of two contractions whose elements are chains of blocks.

    Args:
        machine: what computes them, and has such blocks.
        products: the plans of both, in the same tile.
    """

    def __init__(self, machine: Machine, products: tuple[Chained, Chained]) -> None:
        self._machine, self._products = machine, products

    def make_kernel(self) -> Kernel:
        """Return the kernel."""
        first, second = self._products
        return join_kernels(first.make_kernel(), second.make_kernel(), first.blocks)

    @cached_property
    def _loaded(self) -> Any:
        return self._machine.load(self.make_kernel())

    def make_launch(self, sources: Sequence[Sequence[int]], targets: Sequence[int]) -> Launch:
        """Return the launch.

        Args:
            sources: for each contraction the addresses of its operands.
            targets: those of the outputs.
        """
        parameters = [
            parameter
            for plan, own, target in zip(self._products, sources, targets, strict=True)
            for parameter in (target, *own, plan.turns)
        ]
        blocks = sum(plan.blocks for plan in self._products)
        return Launch(self._loaded, blocks, parameters)


def find_pair(machine: Machine, nodes: tuple[Node, Node], block: Block) -> ChainedPair | None:
    """Return the plan of two contractions in one launch, if one kernel computes them.

    It is None, too, where tiles of their own are estimated to take less time in two launches.
    """
    apart = [Chained(machine, node, block) for node in nodes]
    steps = tuple(node.fold_length for node in nodes)
    if make_form(Pair, steps, tuple(plan.seen for plan in apart)) is None:
        return None
    products = [(plan.matrices.sides, plan.matrices.batches) for plan in apart]
    devices = machine.multiprocessors
    groups = has_groups(machine.capability, block)
    tile = choose_tile(products, steps[0], devices, has_groups=groups)
    cycles = LAUNCH_CYCLES + sum(
        estimate_cycles(plan.tile, [product], steps[0], devices)
        for plan, product in zip(apart, products, strict=True)
    )
    if estimate_cycles(tile, products, steps[0], devices) > cycles:
        return None
    first, second = (Chained(machine, node, block, tile) for node in nodes)
    return ChainedPair(machine, (first, second))


def join_kernels(first: Kernel, second: Kernel, blocks: int) -> Kernel:
    """Return a kernel of both, whose parameters are those of the first and of the second.

    Args:
        first: the kernel of the first blocks.
        second: that of the others, which has the same steps and the same numbers.
        blocks: how many the first has.
    """
    sizes = [
        (each.threads, each.shared_bytes, each.cells, each.groups, each.copies, each.barriers)
        for each in (first, second)
    ]
    assert sizes[0] == sizes[1]
    joining = _Joining(first.parameters, blocks)
    steps: list[Phase | Orders | Loop] = []
    for one, other in zip(first.steps, second.steps, strict=True):
        if isinstance(one, Loop):
            assert isinstance(other, Loop)
            phases = map(joining.join, one.phases, other.phases)
            steps.append(Loop(one.count, tuple(phases)))
        else:
            assert not isinstance(other, Loop)
            joined = joining.join(one, other)
            assert not isinstance(joined, Products)
            steps.append(joined)
    parameters = first.parameters + second.parameters
    return replace(first, name=f"{first.name}_of_two", parameters=parameters, steps=tuple(steps))


class _Joining:
    """The joining of two kernels' phases: the first has so many parameters, and so many blocks."""

    def __init__(self, parameters: int, blocks: int) -> None:
        self._parameters, self._blocks = parameters, blocks

    def join(self, first: _Step, second: _Step) -> _Step:
        """Return what a block does of two steps: what tensor cores do is the same."""
        if isinstance(first, Products | Orders) or isinstance(second, Products | Orders):
            assert first == second
            return first

        def choose(context: Context) -> None:
            builder, count = context.builder, self._parameters
            block, parameters = context.block, context.parameters
            is_first = builder.icmp_unsigned("<", block, word(self._blocks))
            with builder.if_else(is_first) as (own, other):
                with own:
                    context.parameters = parameters[:count]
                    first(context)
                with other:
                    context.parameters = parameters[count:]
                    context.block = builder.sub(block, word(self._blocks))
                    second(context)
            context.block, context.parameters = block, parameters

        return choose
