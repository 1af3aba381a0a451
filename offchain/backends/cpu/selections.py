"""The plans of operators that find the largest elements of rows, or sort lines.

`planning` says which operators these are, and why they find what is found here, provided that a
tensor that they read is the counter 0, 1, 2, ...; where it is not, they run one by one.
"""

from collections.abc import Collection, Mapping, Sequence
from math import prod

import numpy as np

from moot.offchain.backends.cpu.kernels.largest import find_largest
from moot.offchain.backends.cpu.kernels.sorting import is_counter, make_keys, sort_lines
from moot.offchain.backends.cpu.plans import plan_node
from moot.offchain.backends.cpu.views import view
from moot.offchain.commitments.tensors import Array
from moot.offchain.planning.accesses import Sizes
from moot.offchain.planning.selections import Selection
from moot.offchain.planning.sorts import Sort
from moot.offchain.programs.graph import Node, Operand, Origin


class LargestElements:
    """The plan of a selection.

    Attributes:
        operands: the accesses to the tensor and to the counter.
    """

    def __init__(self, selection: Selection, kept: Sequence[int]) -> None:
        self._selection, self._kept = selection, kept
        self.operands = selection.operands
        self._shape = (*selection.shape[:-1], 1)
        self._columns = _find_columns(selection, kept)

    def run(self, flats: Sequence[Array | None]) -> list[Array]:
        """Return the positions that are kept, given the tensor and the counter."""
        selection = self._selection
        x, counter = flats
        assert x is not None
        assert counter is not None
        size = selection.shape[-1]
        if not is_counter(counter.reshape(-1)):
            return self._run_rounds(x, counter)
        rows = x.reshape(-1, size).astype(np.float32, copy=False)
        places = find_largest(rows, len(selection.taken))
        rounds = dict(zip(selection.taken, places.reshape(-1, *self._shape), strict=True))
        columns = dict.fromkeys(self._columns, np.ascontiguousarray(places.T))
        if not {*rounds, *columns}.issuperset(self._kept):
            rounds = _run_joined(selection, rounds)
        return [
            columns[i].reshape(self._columns[i]) if i in columns else rounds[i] for i in self._kept
        ]

    def _run_rounds(self, x: Array, counter: Array) -> list[Array]:
        """Run the operators one by one."""
        selection = self._selection
        nodes = dict(_list_nodes(selection))
        values = _run_nodes(nodes, _name(selection.operands, (x, counter)))
        return [values[index] for index in self._kept]


def _find_columns(selection: Selection, kept: Collection[int]) -> dict[int, Sizes]:
    """Return the shapes of the outputs that are kept and have a column for each round.

    The moves are tried on numbers of all places, twice: what is not moved shows.
    """
    shape = (len(selection.taken), *selection.shape[:-1], 1)
    numbers = np.arange(prod(shape), dtype=np.int64).reshape(shape)
    columns = numbers.reshape(len(numbers), -1).T.reshape(-1)
    found = {i: n.shape for i, n in _list_nodes(selection) if i in kept and i in selection.joined}
    for first in (0, numbers.size) if found else ():
        rounds = dict(zip(selection.taken, numbers + first, strict=True))
        values = _run_joined(selection, rounds)
        found = {
            index: sizes
            for index, sizes in found.items()
            if np.array_equal(values[index].reshape(-1), columns + first)
        }
    return found


def _run_joined(selection: Selection, rounds: Mapping[int, Array]) -> dict[int, Array]:
    """Return the outputs of the rounds and of the moves that read them."""
    values = {(Origin.NODE, index): output for index, output in rounds.items()}
    joined = {index: node for index, node in _list_nodes(selection) if index in selection.joined}
    return {**rounds, **_run_nodes(joined, values)}


def _list_nodes(selection: Selection) -> Sequence[tuple[int, Node]]:
    return [*zip(selection.indices, selection.nodes, strict=True)]


class SortedLines:
    """The plan of a sort.

    Attributes:
        operands: the accesses to the tensor and to the counter.
    """

    def __init__(self, sort: Sort) -> None:
        self._sort = sort
        self.operands = sort.operands

    def run(self, flats: Sequence[Array | None]) -> list[Array]:
        """Return the order, given the tensor and the counter."""
        sort = self._sort
        x, counter = flats
        assert x is not None
        assert counter is not None
        size = sort.sizes[-1]
        if not is_counter(counter.reshape(-1)):
            values = _run_nodes(dict(sort.nodes), _name(sort.operands, (x, counter)))
            return [values[sort.indices[-1]]]
        lines = np.ascontiguousarray(view(x, sort.sizes, sort.line)).reshape(-1, size)
        places = sort_lines(make_keys(lines, is_descending=sort.is_descending))
        order = np.moveaxis(places.reshape(sort.sizes), -1, sort.target)
        return [np.ascontiguousarray(order)]


_Values = Mapping[tuple[Origin, int], Array]


def _name(operands: Sequence[Operand], flats: Sequence[Array]) -> _Values:
    """Return the tensors of operands by what they are."""
    pairs = zip(operands, flats, strict=True)
    return {(operand.origin, operand.reference): flat for operand, flat in pairs}


def _run_nodes(nodes: Mapping[int, Node], given: _Values) -> dict[int, Array]:
    """Return the outputs of operators by index, computed one by one, given what they read."""
    values = dict(given)
    for index, node in nodes.items():
        reads = [values.get((operand.origin, operand.reference)) for operand in node.operands]
        values[Origin.NODE, index] = plan_node(node).run(reads, 0)
    return {index: values[Origin.NODE, index] for index in nodes}
