"""Packed factors: copies that a run makes once, and that several of its contractions read.

The weights of a recurrence are the same at every step, and so is the order in which its products
would rather have them.
"""

from collections import Counter, defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

from moot.offchain.arithmetic.functions import Function
from moot.offchain.planning.accesses import project
from moot.offchain.planning.schedule import Task
from moot.offchain.programs.graph import Kind, Node, Operand, Origin, Program, Row

_LEAST_READERS = 4
"""Contractions that make up for the copy of a factor, at least."""

_UNKNOWN = -1
"""The number of a copy until all are known."""


class Packing(NamedTuple):
    """The order in which a contraction would rather have the elements of a factor.

    Attributes:
        position: which operand it is.
        nest: the variables of the domain that a dense copy nests, the outermost first.
        least_readers: contractions that make up for the copy.
        panel: if given, the last variable is one of the output's; the copy has a panel of so many
            values of it after the other, each of which nests the variables.
    """

    position: int
    nest: tuple[int, ...]
    least_readers: int = _LEAST_READERS
    panel: int | None = None


class Packed(NamedTuple):
    """The copies that a run makes, and the contractions that read them.

    Copies are numbered after the program's operators, and contractions have the number of the
    operator that they stand for. One that reads panels has the elements of that operator's output
    in the same order, but another shape: a variable is split.

    Attributes:
        copies: the operators that make the copies.
        readers: the contractions by their numbers.
        begins: the numbers of the copies of which a contraction is the first reader, and
        ends: those of which it is the last.
    """

    copies: tuple[Node, ...]
    readers: Mapping[int, Node]
    begins: Mapping[int, Sequence[int]]
    ends: Mapping[int, Sequence[int]]


def pack_factors(
    program: Program, tasks: Sequence[Task], find_packing: Callable[[Node], Packing | None]
) -> Packed:
    """Return the copies of factors that are worth it in a run.

    Args:
        program: the program.
        tasks: the tasks of the run, in their order.
        find_packing: returns how a contraction would rather have a factor, if it would.
    """
    found: dict[Node, dict[int, Node]] = defaultdict(dict)
    least: dict[Node, int] = {}
    for index in _list_candidates(program, tasks):
        node = program.nodes[index]
        packing = find_packing(node)
        if packing is not None:
            copy, reader = _pack(node, packing)
            found[copy][index], least[copy] = reader, packing.least_readers
    shared = {copy: own for copy, own in found.items() if len(own) >= least[copy]}
    readers: dict[int, Node] = {}
    begins, ends = defaultdict(list), defaultdict(list)
    for number, own in enumerate(shared.values(), len(program.nodes)):
        readers.update((index, _refer(reader, number)) for index, reader in own.items())
        begins[next(iter(own))].append(number)
        ends[next(reversed(own))].append(number)
    return Packed(tuple(shared), readers, begins, ends)


def _list_candidates(program: Program, tasks: Sequence[Task]) -> list[int]:
    """Return the contractions by themselves a factor of which enough others read, too."""
    alone = [task.unit for task in tasks if isinstance(task.unit, int)]
    contractions = [index for index in alone if program.nodes[index].kind is Kind.CONTRACT]
    factors = {
        index: {(o.origin, o.reference) for o in program.nodes[index].operands[1:]}
        for index in contractions
    }
    counts = Counter(factor for own in factors.values() for factor in own)
    return [i for i in contractions if max(counts[f] for f in factors[i]) >= _LEAST_READERS]


def _pack(node: Node, packing: Packing) -> tuple[Node, Node]:
    """Return the copy of a contraction's factor, and the contraction that reads it instead."""
    nest = packing.nest
    if packing.panel is not None:
        *outer, last = nest
        node = _split(node, last, packing.panel)
        nest = (last, *(v + (v > last) for v in outer), last + 1)
    sizes = node.shape + node.fold_shape
    operands = list(node.operands)
    factor = operands[packing.position]
    shape = tuple(sizes[v] for v in nest)
    copied = project(factor, nest)
    copy = Node(Kind.MOVE, Function.COPY, factor.dtype, shape, (copied,))
    rows = tuple(Row(sizes[v], terms=((v, 1),)) for v in nest)
    operands[packing.position] = Operand(Origin.NODE, factor.dtype, _UNKNOWN, rows=rows)
    return copy, replace(node, operands=tuple(operands))


def _split(node: Node, variable: int, size: int) -> Node:
    """Return a contraction one of whose output's variables is two: which part, and where in it."""
    shape = list(node.shape)
    shape[variable : variable + 1] = node.shape[variable] // size, size

    def split(row: Row) -> Row:
        terms: list[tuple[int, int]] = []
        for v, coefficient in row.terms:
            if v == variable:
                terms += [(v, coefficient * size), (v + 1, coefficient)]
            else:
                terms.append((v + (v > variable), coefficient))
        return replace(row, terms=tuple(terms))

    operands = tuple(replace(o, rows=tuple(map(split, o.rows))) for o in node.operands)
    return replace(node, shape=tuple(shape), operands=operands)


def _refer(reader: Node, copy: int) -> Node:
    """Return the contraction that reads the copy of this number."""
    operands = [
        replace(o, reference=copy) if o.reference == _UNKNOWN else o for o in reader.operands
    ]
    return replace(reader, operands=tuple(operands))
