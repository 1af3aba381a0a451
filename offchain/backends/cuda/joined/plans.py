"""Plans of rows between products: one kernel where its preconditions hold, or several in turn."""

from collections.abc import Collection, Mapping, Sequence
from functools import cached_property, partial
from itertools import chain
from typing import Any

from moot.offchain.arithmetic.tensor.blocks import Block
from moot.offchain.backends.cuda.factors import find_rows
from moot.offchain.backends.cuda.joined import kernel
from moot.offchain.backends.cuda.joined.cores import BY_CORES, OnCores
from moot.offchain.backends.cuda.joined.estimates import (
    estimate_joined,
    estimate_product,
    estimate_traffic,
)
from moot.offchain.backends.cuda.joined.form import Joined, Product
from moot.offchain.backends.cuda.joined.threads import BY_THREADS, OnThreads
from moot.offchain.backends.cuda.machine import Launch, Machine, Tensor
from moot.offchain.backends.cuda.matrices import Matrices
from moot.offchain.backends.cuda.plans import plan_contraction
from moot.offchain.backends.cuda.regions.form import Form as RegionForm
from moot.offchain.backends.cuda.regions.form import Limits
from moot.offchain.backends.cuda.regions.plans import FusedRegion
from moot.offchain.backends.cuda.single import Flats, LaunchedPlan, Reserve, launch_all
from moot.offchain.backends.cuda.tensor.pairs import ChainedPair, find_pair
from moot.offchain.backends.cuda.tensor.plans import Chained
from moot.offchain.backends.cuda.tiling import find_split
from moot.offchain.commitments.tensors import NUMPY_TYPES
from moot.offchain.planning.back_to_back import MOST_ACROSS, BackToBack
from moot.offchain.planning.preconditions import make_form
from moot.offchain.programs.graph import Node, Operand, Origin

_SIDES = {BY_CORES: (32, 16), BY_THREADS: (32, 16, 8)}
"""Rows of a block, by how products are made."""

_ROW_BYTES = 8 << 10
"""What a row's values may have of shared memory, scores and weights apart."""

_BLOCK_BYTES = {(8, 0): 163 << 10, (8, 7): 163 << 10, (9, 0): 227 << 10, (10, 0): 227 << 10}
"""The shared memory that a block may have, by compute capability."""

_LEAST_BYTES = 99 << 10
"""The same of all others."""

LEAST_CAPABILITY = 8, 0
"""The least compute capability that copies to shared memory while it computes."""


class JoinedProducts:
    """The plan of back-to-back products.

    Args:
        machine: what computes them.
        fused: the operators; factors of all contractions are bfloat16, or all are floats.
        kept: indices of those whose outputs are wanted, ascending.
        block: how products of bfloat16 are added up; None if factors are floats.

    Attributes:
        operands: the accesses to what they read.
        form: the form of their kernel, of both products and the region or of all but the last one;
            None where they are computed one after the other.
    """

    is_launched = True

    def __init__(
        self, machine: Machine, fused: BackToBack, kept: Sequence[int], block: Block | None
    ) -> None:
        self._machine, self._fused, self._kept, self._block = machine, fused, tuple(kept), block
        self._nodes = {m.index: m.node for m in fused.group.members} | dict(fused.nodes)
        folded = {index for _, index in fused.across} | {fused.middle}
        members = [m.index for m in fused.group.members]
        self._made = [i for i in members if i in kept or i in folded]
        self._stored = {*self._kept, *(index for _, index in fused.across)}
        self._region = FusedRegion(machine, fused.group, self._made)
        inside = set(fused.indices)
        self._parts = [self._region.operands, *(n.operands for n in fused.nodes.values())]
        self._inside = [[_find_inside(o, inside) for o in part] for part in self._parts]
        named = zip(chain(*self._parts), chain(*self._inside), strict=True)
        self.operands: tuple[Operand, ...] = tuple(o for o, name in named if name is None)
        self._product: Product = BY_THREADS if block is None else BY_CORES
        self.form = self._choose_form()

    def _choose_form(self) -> Joined | None:
        """Return the form of the kernel: of most rows in a block, or the one that takes least.

        The last product may be apart, where threads multiply: then tiles of its own are larger.
        """
        sides = _SIDES[self._product]
        made = [self._make_form(side, is_ended=True) for side in sides]
        if self._block is None:
            made += [None, *(self._make_form(side, is_ended=False) for side in sides)]
            return min(made, key=self._estimate)
        return next((form for form in made if form is not None), None)

    def _estimate(self, form: Joined | None) -> float:
        """Return about how many cycles a kernel spends on products and on what is between them.

        That is what differs: region and gradients are the same in all.
        """
        fused, nodes, machine = self._fused, self._nodes, self._machine
        first = nodes[fused.first]
        if form is None:
            cycles = estimate_product(first, machine) + estimate_traffic(first, 2, machine)
        else:
            cycles = estimate_joined(form, machine)
        if fused.last is not None and (form is None or form.last is None):
            cycles += estimate_product(nodes[fused.last], machine)
            cycles += estimate_traffic(first, 1 if fused.middle in self._stored else 2, machine)
        return cycles

    def _make_form(self, side: int, *, is_ended: bool) -> Joined | None:
        """Return the form of a kernel, with the last product or without, if one computes that."""
        fused, nodes = self._fused, self._nodes
        scores = [n for n, name in enumerate(self._inside[0]) if name == fused.first]
        first, last, middle = _split(nodes[fused.first]), None, None
        if len(scores) != 1 or first is None or fused.first in self._kept:
            return None
        region, stores = self._region.form, [v for v, _ in self._region.form.region.stores]
        if is_ended:
            last = self._split_last(first)
            if last is None or fused.middle is None:
                return None
            middle = stores[self._made.index(fused.middle)]
        threads = self._product.count_threads(side)
        limits = Limits(threads, _ROW_BYTES, _ROW_BYTES * threads)
        vector = self._product.vector
        return make_form(
            Joined,
            *(first.sides[0], first.sides[1], first.node.fold_length),
            *(last.sides[1] if last else 0, side, self._product),
            (find_rows(first, 0), find_rows(first, 1)),
            (find_rows(last, 0, vector), find_rows(last, 1)) if last else None,
            tuple(_find_start(each.node) for each in (first, last) if each),
            RegionForm(region.region, region.accesses, limits),
            scores[0],
            middle,
            fused.middle in self._stored,
            _BLOCK_BYTES.get(self._machine.capability, _LEAST_BYTES),
        )

    def _split_last(self, first: Matrices) -> Matrices | None:
        """Return the last product as matrices, if it has the rows of the first one."""
        fused = self._fused
        if fused.last is None or fused.middle is None or fused.last not in self._kept:
            return None
        node = self._nodes[fused.last]
        last = _split(node)
        is_left = _find_inside(node.operands[1], {fused.middle}) is not None
        if last is None or not is_left:
            return None
        is_alike = (first.batches, first.sides[0]) == (last.batches, last.sides[0])
        return last if is_alike else None

    def run(self, flats: Flats) -> list[Tensor]:
        """Return the wanted outputs, given the tensors of the operands."""
        nodes = [self._nodes[index] for index in self._kept]
        outputs = [Tensor(self._machine, n.shape, NUMPY_TYPES[n.dtype]) for n in nodes]
        launch_all(self._machine, self, flats, outputs)
        return outputs

    def list_launches(
        self, sources: Sequence[int], targets: Sequence[int], reserve: Reserve
    ) -> list[Launch]:
        """Return the launch, or those of all operators."""
        given = iter(sources)
        places = dict(zip(self._kept, targets, strict=True))
        if self.form is None:
            written = [self._fused.first, *self._made, *self._fused.nodes]
        else:
            stored = {*self._stored, *(() if self.form.last else (self._fused.middle,))}
            written = [i for i in (*self._made, *self._fused.nodes) if i in stored]
        for index in written:
            if index not in places:
                node = self._nodes[index]
                places[index] = reserve(node.elements * node.dtype.width)
        of_region, *of_nodes = [
            [next(given) if name is None else places.get(name, 0) for name in part]
            for part in self._inside
        ]
        calls = [*zip(self._fused.nodes, of_nodes, strict=True)]
        count = 1 if self.form is None or self.form.last is None else 2
        found, pair = list[Launch](), self._pair
        if self.form is None:
            found += self._multiply(*calls[0], places, reserve)
            writes = [places[index] for index in self._made]
            found += self._region.list_launches(of_region, writes, reserve)
        else:
            found.append(self._join(self.form, of_region, of_nodes, places))
        beside = 0 if pair is None else len(self._fused.across)
        for index, reads in calls[count : len(calls) - beside]:
            found += self._multiply(index, reads, places, reserve)
        if pair is not None:
            indices, of_both = zip(*calls[-beside:], strict=True)
            found.append(pair.make_launch(of_both, [places[index] for index in indices]))
        return found

    def _multiply(
        self, index: int, reads: Sequence[int], places: Mapping[int, int], reserve: Reserve
    ) -> list[Launch]:
        """Return the launches of a contraction."""
        return self._products[index].list_launches(reads, [places[index]], reserve)

    def _join(
        self,
        form: Joined,
        of_region: Sequence[int],
        of_nodes: Sequence[Sequence[int]],
        places: Mapping[int, int],
    ) -> Launch:
        """Return the launch of the kernel of the region between two products."""
        first, *others = of_nodes
        stores = [places.get(index, 0) for index in self._made]
        products = [first[1], first[2]]
        if form.last is not None:
            assert self._fused.last is not None
            products += [others[0][2], places[self._fused.last]]
        parameters = [*of_region, *stores, *products, *form.turns]
        return Launch(self._loaded, kernel.count_blocks(form), parameters)

    @cached_property
    def _pair(self) -> ChainedPair | None:
        """The plan of the contractions that fold columns, if these are two that are alike."""
        if len(self._fused.across) != MOST_ACROSS or self._block is None:
            return None
        first, second = (self._nodes[index] for index, _ in self._fused.across)
        return find_pair(self._machine, (first, second), self._block)

    @cached_property
    def _products(self) -> Mapping[int, LaunchedPlan]:
        """The plans of the contractions, by their indices, the first before the region."""
        machine, block, nodes = self._machine, self._block, self._fused.nodes.items()
        return {
            i: plan_contraction(machine, node) if block is None else Chained(machine, node, block)
            for i, node in nodes
        }

    @cached_property
    def _loaded(self) -> Any:
        assert self.form is not None
        last = None
        if self.form.last is not None:
            assert self._fused.last is not None
            last = _split(self._nodes[self._fused.last])
        make: kernel.Make = OnThreads if self._block is None else partial(OnCores, self._block)
        made = kernel.make_kernel(self.form, last, make)
        return self._machine.load(made)


def _find_inside(operand: Operand, inside: Collection[int]) -> int | None:
    """Return the index of the operator that an operand is the output of, if it is inside."""
    is_inside = operand.origin is Origin.NODE and operand.reference in inside
    return operand.reference if is_inside else None


def _find_start(node: Node) -> int | None:
    """Return the bits of the initial value, if it is a constant."""
    start = node.operands[0]
    return start.value if start.origin is Origin.IMMEDIATE else None


def _split(node: Node) -> Matrices | None:
    """Return a contraction as matrices, if its variables are batches, rows and columns in turn."""
    split = find_split(node)
    groups = split.batch, split.rows, split.columns
    is_plain = [*chain(*groups)] == [*range(len(node.shape))]
    return Matrices(node, split) if is_plain and node.fold_length else None
