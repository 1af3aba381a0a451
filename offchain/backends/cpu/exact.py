"""The engine of `exact`: the plans of its sums, which are made in binary64 and rounded once.

A sum is rounded where a proven bound of its error allows only one result. A product of matrices is
made by the device's own binary64 product, whose order nobody knows; what its bound leaves in doubt
is summed anew by two-sums; and what is doubtful even then is added up as integers, which
is the definition. So every result is the defined one; the machine decides only how fast it comes.
"""

from collections.abc import Callable, Mapping, Sequence
from math import prod

import numpy as np
import numpy.typing as npt

from moot.offchain.arithmetic.exact import EXACT, is_sum, sums
from moot.offchain.backends.cpu.called_products import Products
from moot.offchain.backends.cpu.contractions import Contraction
from moot.offchain.backends.cpu.exact_products import multiply
from moot.offchain.backends.cpu.folds import Fold, Reduction
from moot.offchain.backends.cpu.gathers import read_integers
from moot.offchain.backends.cpu.indexing import Integers, open_grid
from moot.offchain.backends.cpu.kernels.bounded_sums import sum_rows
from moot.offchain.backends.cpu.kernels.exact_sums import scatter_sums, settle_rows
from moot.offchain.backends.cpu.partials import list_defined_partials, list_wide_elements
from moot.offchain.backends.cpu.plans import plan_node
from moot.offchain.backends.cpu.scatters import Scatter, depends_on_named
from moot.offchain.backends.cpu.views import Reader
from moot.offchain.backends.port import Plan
from moot.offchain.commitments.tensors import Array
from moot.offchain.planning.accesses import iterate_slabs, project, restrict
from moot.offchain.programs.graph import Kind, Node

Floats = npt.NDArray[np.float32]

_BLOCK_ELEMENTS = 1 << 22
"""Elements that are in memory at once where each fold step is compared with every element."""


def plan_exact(node: Node) -> Plan:
    """Return the plan of a legal node."""
    is_empty = node.elements == 0 or node.fold_length == 0
    if not node.kind.folds or is_empty or not is_sum(node.function, node.dtype):
        return plan_node(node)
    return _PLANS[node.kind](node)


def is_fusible(node: Node) -> bool:
    """Whether an operator may be computed in a kernel that rounds after every step."""
    is_rounded_once = node.kind is Kind.REDUCE and is_sum(node.function, node.dtype)
    return node.kind is not Kind.CONTRACT and not is_rounded_once


@np.errstate(all="ignore")
def fold_rows(matrix: Array, init: Array) -> Floats:
    """Return the sum of each row, from its element of init."""
    x, start = np.asarray(matrix, np.float32), np.ascontiguousarray(init, np.float32)
    out, doubtful = np.empty(len(x), np.float32), np.empty(len(x), np.bool_)
    sum_rows(x, start, out, doubtful)
    if doubtful.any():
        rows = np.flatnonzero(doubtful)
        settled = np.empty(len(rows), np.float32)
        settle_rows(x[rows], start[rows], settled)
        out[rows] = settled
    return out


@np.errstate(all="ignore")
def scatter_rows(buffer: Array, rows: Integers, matrix: Array) -> None:
    """Add the matrix's rows to these rows of the buffer."""
    scatter_sums(rows, np.ascontiguousarray(matrix, np.float32), np.asarray(buffer, np.float32))


class ComparedScatter:
    """The plan of any scatter that adds up: every fold step is compared with every element.

    A step that does not land on an element adds -0 to it, which changes no sum.

    Args:
        node: a scatter node with a positive number of elements and of fold steps.
        fold: folds rows.
    """

    def __init__(self, node: Node, fold: Fold) -> None:
        self._node, self._fold = node, fold
        ranges = [range(size) for size in node.shape + node.fold_shape]
        order, limit = range(len(node.shape)), _BLOCK_ELEMENTS
        self._slabs = list(iterate_slabs(ranges, order, lambda r: prod(map(len, r)), limit))

    def run(self, flats: Sequence[Array | None], _step: int) -> Array:
        """Return the output, given the tensors of init, source and indices (None for constants)."""
        node, rank = self._node, len(self._node.shape)
        starts = Reader(project(node.operands[0], range(rank)), node.shape).read(flats[0])
        out = np.empty(node.shape, np.float32)
        for ranges in self._slabs:
            part = tuple(slice(r.start, r.stop) for r in ranges[:rank])
            terms = self._read(flats, ranges).reshape(-1, node.fold_length)
            folded = self._fold(terms, starts[part].reshape(-1))
            out[part] = folded.reshape(starts[part].shape)
        return out

    def _read(self, flats: Sequence[Array | None], ranges: Sequence[range]) -> Array:
        sizes = [len(r) for r in ranges]
        readers = [Reader(restrict(o, ranges), tuple(sizes)) for o in self._node.operands[1:]]
        grid = open_grid(sizes, [r.start for r in ranges])
        source, *indices = zip(readers, flats[1:], strict=True)
        is_matching = np.ones(sizes, np.bool_)
        for (reader, flat), target in zip(indices, self._node.targets, strict=True):
            is_matching &= read_integers(reader, flat) == grid[target]
        reader, flat = source
        return np.where(is_matching, reader.read(flat), np.float32(-0.0))


def list_partials(node: Node, element: int, operands: Sequence[Array | None]) -> Array:
    """Return the accumulators of one element of a fold, of 96 bytes each, the initial one first."""
    if not is_sum(node.function, node.dtype):
        return list_wide_elements(node, element, operands, sums.WIDTH_BYTES)
    return list_defined_partials(EXACT, node, element, operands)


def _plan_product(node: Node) -> Plan:
    return Contraction(node, Products(multiply), keeps_folds=True)


def _plan_reduction(node: Node) -> Plan:
    return Reduction(node, fold_rows)


def _plan_scatter(node: Node) -> Plan:
    return (
        ComparedScatter(node, fold_rows) if depends_on_named(node) else Scatter(node, scatter_rows)
    )


_PLANS: Mapping[Kind, Callable[[Node], Plan]] = {
    Kind.CONTRACT: _plan_product,
    Kind.REDUCE: _plan_reduction,
    Kind.SCATTER: _plan_scatter,
}
