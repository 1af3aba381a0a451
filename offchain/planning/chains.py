"""Chains of sums: products of few steps that are added up, one after the other.

The gradients of a recurrence's weights are such: every step of time adds a product. The order of
the additions is part of the program, but nobody reads the sums between. So a backend may compute
all of a chain for a tile of the output, which leaves its registers only in the end. A product is
folded by itself, from its own start, before it is added.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from math import prod
from typing import ClassVar, NamedTuple

from moot.offchain.arithmetic.functions import DType, Function
from moot.offchain.planning.accesses import get_used
from moot.offchain.planning.preconditions import Form, Precondition, make_form
from moot.offchain.planning.readings import is_whole
from moot.offchain.programs.graph import Kind, Node, Operand, Origin, Program

_LEAST_PRODUCTS = 3
"""Products that are worth a chain."""

_LEAST_ELEMENTS = 1 << 10
_LEAST_COLUMNS = 16
"""Elements, and columns, of a matrix that is worth a chain."""

_MOST_STEPS = 64
"""Steps of a product that takes longer than to write it, to read it and to add it."""

_MOST_READ = 2
"""What a chain reads at most, as a multiple of its output: about what products and sums took that
are not in memory any more. All of it has to live until the chain runs."""


class Factors(NamedTuple):
    """The variables of a product of two matrices.

    Attributes:
        rows: the output's outer variables, on which only one factor depends.
        columns: the inner ones, on which only the other factor depends.
        is_swapped: whether the second factor is the one with the rows.
    """

    rows: tuple[int, ...]
    columns: tuple[int, ...]
    is_swapped: bool


@dataclass(frozen=True, slots=True)
class Chain(Form):
    """Products of matrices, each of which is added to the sum of those before it.

    Attributes:
        indices: the operators, ascending; nobody needs any but the last one, which is the last sum.
        products: the contractions in the order in which they are added.
        output: the last addition.
        start: what the first product is added to, as an access on the variables of the first sum;
            None if that product is the first sum.
        start_shape: the shape of the first sum.
    """

    indices: tuple[int, ...]
    products: tuple[Node, ...]
    output: Node
    start: Operand | None
    start_shape: tuple[int, ...]

    preconditions: ClassVar[tuple[Precondition, ...]] = (
        Precondition(
            "steps",
            "each product has at least one step",
            lambda form: form.products and all(node.fold_length > 0 for node in form.products),
        ),
        Precondition(
            "extents",
            "the products are matrices of the same rows and columns, and so is the sum",
            lambda form: _have_extents(form.products, form.output),
        ),
        Precondition(
            "start",
            "what the first product is added to has an element for each of the sum",
            lambda form: prod(form.start_shape) == form.output.elements,
        ),
        Precondition(
            "types",
            "all are FLOAT32",
            lambda form: {DType.FLOAT32} == {n.dtype for n in (*form.products, form.output)},
        ),
    )


class _Link(NamedTuple):
    """A product of a chain, the addition that adds it, and what it is added to.

    Where a product begins a chain, nothing adds it to anything.
    """

    product: int
    addition: int | None = None
    before: Operand | None = None


def find_chains(
    program: Program, fusible: Iterable[int], readers: Mapping[int, Sequence[int | None]]
) -> dict[int, Chain]:
    """Return the chains among operators by each of their members.

    A chain can be computed where its last addition is.

    Args:
        program: the program.
        fusible: the operators that may be computed together with others.
        readers: what reads each operator's output, None for someone outside.
    """
    members: dict[int, Chain] = {}
    for links in _Finder(program.nodes, set(fusible), readers).list_chains():
        if len(links) < _LEAST_PRODUCTS:
            continue
        for part in _cut(program.nodes, links):
            chain = _make_chain(program.nodes, part)
            if chain is not None:
                members.update(dict.fromkeys(chain.indices, chain))
    return members


def find_factors(node: Node) -> Factors | None:
    """Return the variables of a contraction whose output is one matrix, rows first."""
    sizes, rank = node.shape + node.fold_shape, len(node.shape)
    used = [get_used(operand, sizes) for operand in node.operands[1:]]
    owners = {v: tuple(v in own for own in used) for v in range(rank) if sizes[v] > 1}
    runs = [(owner, tuple(run)) for owner, run in groupby(owners, owners.__getitem__)]
    if sorted(owner for owner, _ in runs) != [(False, True), (True, False)]:
        return None
    (owner, rows), (_, columns) = runs
    return Factors(rows, columns, owner == (False, True))


class _Finder:
    """The search for chains; its arguments are the nodes, and else those of `find_chains`."""

    def __init__(
        self,
        nodes: Sequence[Node],
        fusible: Collection[int],
        readers: Mapping[int, Sequence[int | None]],
    ) -> None:
        self._nodes, self._fusible, self._readers = nodes, fusible, readers
        self._chains: dict[int, list[_Link]] = {}

    def list_chains(self) -> Iterable[list[_Link]]:
        """Return the links of each chain in their order."""
        for index in sorted(self._fusible):
            if _is_addition(self._nodes[index]):
                self._add(index)
        return self._chains.values()

    def _add(self, index: int) -> None:
        """Let an addition go on with a chain, or begin one, if it adds a product."""
        left, right = self._nodes[index].operands
        pairs = (left, right), (right, left)
        fitting = [pair for pair in pairs if self._is_product(pair[1], index)]
        following = [pair for pair in fitting if self._is_sum(*pair, index)]
        if following:
            before, product = following[0]
            links = self._chains.pop(before.reference)
        elif fitting:
            before, product = fitting[0]
            if _get_index(before) == _get_index(product):
                return
            is_alike = self._is_product(before, index) and self._is_alike(before, product)
            links = [_Link(before.reference)] if is_alike else []
        else:
            return
        self._chains[index] = [*links, _Link(product.reference, index, before)]

    def _is_product(self, operand: Operand, reader: int) -> bool:
        """Whether an addition reads a product, in whole, that nobody else reads."""
        if not self._is_own(operand, reader):
            return False
        node = self._nodes[operand.reference]
        is_short = node.kind is Kind.CONTRACT and 0 < node.fold_length <= _MOST_STEPS
        factors = find_factors(node) if is_short and node.dtype is DType.FLOAT32 else None
        return factors is not None and _count(node, factors.columns) >= _LEAST_COLUMNS

    def _is_sum(self, before: Operand, product: Operand, reader: int) -> bool:
        """Whether an addition of a product goes on with a chain."""
        if not self._is_own(before, reader) or before.reference not in self._chains:
            return False
        last = self._chains[before.reference][-1]
        return self._extents(last.product) == self._extents(product.reference)

    def _is_alike(self, before: Operand, product: Operand) -> bool:
        return self._extents(before.reference) == self._extents(product.reference)

    def _is_own(self, operand: Operand, reader: int) -> bool:
        """Whether only this operator reads an output, and all of it in order."""
        index = _get_index(operand)
        is_own = index in self._fusible and list(self._readers[index]) == [reader]
        return is_own and is_whole(operand, self._nodes[reader].shape)

    def _extents(self, index: int) -> tuple[int, int]:
        """Return the rows and columns of a product."""
        node = self._nodes[index]
        factors = find_factors(node)
        assert factors is not None
        return _count(node, factors.rows), _count(node, factors.columns)


def _get_index(operand: Operand) -> int:
    """Return which operator's output an operand is, -1 if it is none's."""
    return operand.reference if operand.origin is Origin.NODE else -1


def _count(node: Node, variables: Sequence[int]) -> int:
    return prod((node.shape + node.fold_shape)[v] for v in variables)


def _is_addition(node: Node) -> bool:
    is_sum = node.kind is Kind.MAP and node.function is Function.ADD
    return is_sum and node.dtype is DType.FLOAT32 and node.elements >= _LEAST_ELEMENTS


def _cut(nodes: Sequence[Node], links: Sequence[_Link]) -> Iterator[list[_Link]]:
    """Yield parts of a chain of which each reads no more than it may."""
    part: list[_Link] = []
    read = 0
    for link in links:
        node = nodes[link.product]
        sizes = node.shape + node.fold_shape
        own = sum(_count(node, get_used(operand, sizes)) for operand in node.operands[1:])
        is_whole_sum = bool(part) and part[-1].addition is not None
        if is_whole_sum and read + own > _MOST_READ * node.elements:
            yield part
            part, read = [], 0
        part.append(link)
        read += own
    yield part


def _have_extents(products: Sequence[Node], output: Node) -> bool:
    """Whether products are matrices of the same extents, with the elements of the output."""
    found = [(find_factors(node), node) for node in products]
    extents = {
        None if it is None else (_count(node, it.rows), _count(node, it.columns))
        for it, node in found
    }
    return len(extents) == 1 and all(it and prod(it) == output.elements for it in extents)


def _make_chain(nodes: Sequence[Node], links: Sequence[_Link]) -> Chain | None:
    additions = [link.addition for link in links if link.addition is not None]
    return make_form(
        Chain,
        tuple(sorted([*additions, *(link.product for link in links)])),
        tuple(nodes[link.product] for link in links),
        nodes[additions[-1]],
        links[0].before,
        nodes[additions[0]].shape,
    )
