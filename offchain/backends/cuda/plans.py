"""Plans of operators on a machine: the launches that compute an output."""

from collections.abc import Sequence
from functools import cached_property
from math import prod
from typing import Any

import numpy as np

from moot.offchain.arithmetic.base import Arithmetic
from moot.offchain.arithmetic.evaluate import evaluate
from moot.offchain.arithmetic.exact import EXACT, is_sum
from moot.offchain.arithmetic.functions import DType, Function
from moot.offchain.arithmetic.tensor.blocks import BLOCKS
from moot.offchain.backends.cuda import contraction, scatters
from moot.offchain.backends.cuda.exact.plans import plan_sum
from moot.offchain.backends.cuda.extension import (
    Extension,
    choose_extensions,
    replace_factors,
)
from moot.offchain.backends.cuda.machine import Launch, Machine, Tensor
from moot.offchain.backends.cuda.operators import make_scatter
from moot.offchain.backends.cuda.single import (
    Flats,
    Reserve,
    Single,
    find_addresses,
    launch_all,
    make_launch,
)
from moot.offchain.backends.cuda.tensor.plans import Chained, multiplies_bytes
from moot.offchain.backends.cuda.tiling import Tiling, choose_tiling, count_blocks
from moot.offchain.backends.port import Plan
from moot.offchain.commitments.tensors import NUMPY_TYPES
from moot.offchain.planning.accesses import get_used, project
from moot.offchain.planning.readings import is_alias
from moot.offchain.programs.graph import Kind, Node, Operand, Origin


class Tiled:
    """The plan of a contraction whose output is in tiles.

    Args:
        machine: what computes it.
        node: the contraction, with a positive number of elements and of fold steps.
        tiling: the sizes of the tiles.
        extensions: how each factor is extended first; None if it is not.

    Attributes:
        node: the contraction of what is extended.
        tiling: the sizes.
    """

    is_launched = True

    def __init__(
        self,
        machine: Machine,
        node: Node,
        tiling: Tiling,
        extensions: Sequence[Extension | None] = (None, None),
    ) -> None:
        self._machine, self.tiling = machine, tiling
        self.node = replace_factors(node, extensions)
        self._moves = [
            (axis, found.size, Single(machine, found.move))
            for axis, found in enumerate(extensions)
            if found is not None
        ]

    @cached_property
    def _loaded(self) -> Any:
        return self._machine.load(contraction.make_kernel(self.node, self.tiling))

    def run(self, flats: Flats, _step: int) -> Tensor:
        """Return the output."""
        out = Tensor(self._machine, self.node.shape, NUMPY_TYPES[self.node.dtype])
        launch_all(self._machine, self, flats, [out])
        return out

    def list_launches(
        self, sources: Sequence[int], targets: Sequence[int], reserve: Reserve
    ) -> list[Launch]:
        """Return the launches: what extends factors, and the tiles."""
        node, tiling, launches = self.node, self.tiling, list[Launch]()
        init, *factors = sources
        for axis, size, move in self._moves:
            target = reserve(size)
            launches += move.list_launches([factors[axis]], [target], reserve)
            factors[axis] = target
        parameters = contraction.list_parameters(node, tiling, [*targets, init, *factors])
        return [*launches, Launch(self._loaded, count_blocks(node, tiling), parameters)]


class Empty:
    """The plan of an operator without elements."""

    is_launched = True

    def __init__(self, machine: Machine, node: Node) -> None:
        self._machine, self._node = machine, node

    def run(self, _flats: Flats, _step: int) -> Tensor:
        """Return the output."""
        return Tensor(self._machine, self._node.shape, NUMPY_TYPES[self._node.dtype])

    def list_launches(
        self, _sources: Sequence[int], _targets: Sequence[int], _reserve: Reserve
    ) -> list[Launch]:
        """Return none."""
        return []


class Alias:
    """The plan of an operator that copies a whole tensor: its output is that tensor's memory.

    In a sequence it is no launch, but another name of a place.
    """

    is_launched = True

    def __init__(self, node: Node) -> None:
        self._shape = node.shape

    def run(self, flats: Flats, _step: int) -> "Tensor":
        """Return the tensor under the operator's shape."""
        (flat, *_) = flats
        assert flat is not None
        return View(flat, self._shape)


class View(Tensor):
    """A tensor of another shape in the memory of one that it keeps."""

    def __init__(self, whole: Tensor, shape: tuple[int, ...]) -> None:
        self._whole, self.machine = whole, whole.machine
        self.shape, self.dtype, self.size = shape, whole.dtype, whole.size
        self.address = whole.address

    def __del__(self) -> None:
        """Leave the memory to the tensor whose it is."""


class Scattered:
    """The plan of a scatter whose source and indices don't depend on what they name.

    The initial values are copied first; then a thread folds a line of elements.
    """

    is_launched = True

    def __init__(self, machine: Machine, node: Node) -> None:
        self._machine, self._node = machine, node
        init = project(node.operands[0], range(len(node.shape)))
        self._start = Single(machine, _as_move(node, init))
        self._lines = prod(s for v, s in enumerate(node.shape) if v not in node.targets)

    @cached_property
    def _loaded(self) -> Any:
        return self._machine.load(make_scatter(self._node))

    def run(self, flats: Flats, _step: int) -> Tensor:
        """Return the output."""
        out = Tensor(self._machine, self._node.shape, NUMPY_TYPES[self._node.dtype])
        launch_all(self._machine, self, flats, [out])
        return out

    def list_launches(
        self, sources: Sequence[int], targets: Sequence[int], reserve: Reserve
    ) -> list[Launch]:
        """Return both launches."""
        start = self._start.list_launches(sources, targets, reserve)
        return [*start, make_launch(self._loaded, targets[0], sources, self._lines, 0)]


class ScatteredByBlocks:
    """The plan of a scatter of which each block has a line.

    Args:
        machine: what computes it.
        node: the scatter, for which `scatters.is_possible` is true.
        sizes: the threads of a block, and the steps that it brings at a time.
    """

    is_launched = True

    def __init__(
        self, machine: Machine, node: Node, sizes: scatters.Sizes = scatters.SIZES
    ) -> None:
        self._machine, self._node, self._sizes = machine, node, sizes

    @cached_property
    def _loaded(self) -> Any:
        return self._machine.load(scatters.make_kernel(self._node, self._sizes))

    def run(self, flats: Flats, _step: int) -> Tensor:
        """Return the output."""
        out = Tensor(self._machine, self._node.shape, NUMPY_TYPES[self._node.dtype])
        launch_all(self._machine, self, flats, [out])
        return out

    def list_launches(
        self, sources: Sequence[int], targets: Sequence[int], _reserve: Reserve
    ) -> list[Launch]:
        """Return the launch."""
        parts = scatters.count_parts(self._node, self._sizes)
        blocks = scatters.count_lines(self._node)
        return [Launch(self._loaded, blocks, [targets[0], *sources, parts])]


class Power(Single):
    """The plan of a power: what the device leaves in doubt is computed as it is defined.

    That is about one power in four million, and every one that is half way between two numbers.
    """

    is_launched = False

    def run(self, flats: Flats, _step: int) -> Tensor:
        """Return the output."""
        node = self.node
        out = Tensor(self._machine, node.shape, np.float32)
        doubts = Tensor(self._machine, node.shape, np.uint8)
        launch = self._make_launch(find_addresses(flats), out.address, doubts.address)
        self._machine.launch(*launch)
        places = np.flatnonzero(doubts.get().reshape(-1))
        if places.size:
            values, operands = out.get().reshape(-1), self._read(flats)
            for place in places.tolist():
                variables = np.unravel_index(place, node.shape)
                bits = [_get_bits(o, x, variables) for o, x in operands]
                found = evaluate(Function.POW, (DType.FLOAT32,) * 2, DType.FLOAT32, bits)
                values.view(np.uint32)[place] = found
            out.put(values)
        return out

    def _read(self, flats: Flats) -> list[tuple[Operand, Any]]:
        arrays = [None if flat is None else flat.get().reshape(-1) for flat in flats]
        return list(zip(self.node.operands, arrays, strict=True))


def _get_bits(operand: Operand, flat: Any, variables: Any) -> int:
    """Return an operand's bits at some variables."""
    is_constant = operand.origin is Origin.IMMEDIATE
    index = None if is_constant else operand.index([int(v) for v in variables])
    return operand.value if index is None else int(flat.view(np.uint32)[index])


def _as_move(node: Node, operand: Operand) -> Node:
    return Node(Kind.MOVE, Function.COPY, node.dtype, node.shape, (operand,))


def plan(machine: Machine, node: Node, arithmetic: Arithmetic) -> Plan:
    """Return the plan of a legal operator.

    Raises:
        ProgramError: a coordinate does not fit into 64 bits, or a sum has too many terms.
    """
    if node.elements == 0:
        return Empty(machine, node)
    if node.kind.folds and node.fold_length == 0:
        init = project(node.operands[0], range(len(node.shape)))
        return plan(machine, _as_move(node, init), arithmetic)
    if arithmetic == EXACT and node.kind.folds and is_sum(node.function, node.dtype):
        return plan_sum(machine, node)
    if node.has_short_factors:
        return Chained(machine, node, BLOCKS[arithmetic.name])
    if multiplies_bytes(machine, node):
        return Chained(machine, node, None)
    return Alias(node) if is_alias(node) else _plan_kernel(machine, node)


def _plan_kernel(machine: Machine, node: Node) -> Plan:
    """Return the plan of an operator that is computed."""
    if node.kind is Kind.CONTRACT:
        return plan_contraction(machine, node)
    if node.kind is Kind.SCATTER and not depends_on_named(node):
        by_blocks = scatters.is_worth_it(node, machine.multiprocessors)
        return (ScatteredByBlocks if by_blocks else Scattered)(machine, node)
    is_power = node.kind is Kind.MAP and node.function is Function.POW
    return Power(machine, node) if is_power else Single(machine, node)


def plan_contraction(machine: Machine, node: Node) -> Tiled | Single:
    """Return the plan of a contraction of floats, or of integers, that no tensor cores compute."""
    is_float = not node.multiplies_integers
    tiling = choose_tiling(node, machine.multiprocessors) if is_float else None
    if tiling is None:
        return Single(machine, node)
    extensions = choose_extensions(node, tiling, machine.multiprocessors)
    return Tiled(machine, node, tiling, extensions)


def depends_on_named(node: Node) -> bool:
    """Whether the source or an index depends on a dimension that an index names."""
    sizes, named = node.shape + node.fold_shape, set(node.targets)
    return any(named.intersection(get_used(operand, sizes)) for operand in node.operands[1:])
