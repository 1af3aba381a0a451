"""The plans of back-to-back products: a block of rows goes through all of it while it is in cache.

Where a mask leaves nothing of the last columns (`planning/tails.py`), a block is computed without
most of them: they are the same, and zeros that the last product folds change nothing, as long as
they are multiplied by finite numbers and no sum is -0 when it comes to them.
"""

import threading
from bisect import bisect
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate, chain, pairwise
from math import prod

import numpy as np

from moot.offchain.arithmetic.functions import DType
from moot.offchain.backends.cpu.contractions import Contraction, Views
from moot.offchain.backends.cpu.kernels.contraction.back_to_back import (
    BLOCK,
    LEFT,
    MIDDLE,
    RIGHT,
    SCORES,
    compute_blocks,
    count_scratch_floats,
)
from moot.offchain.backends.cpu.kernels.contraction.blocks import CONFLICTING_BYTES
from moot.offchain.backends.cpu.kernels.contraction.gemm import Floats
from moot.offchain.backends.cpu.kernels.contraction.tile import ROWS
from moot.offchain.backends.cpu.kernels.tails import Integers
from moot.offchain.backends.cpu.regions import FusedRegion, reserve
from moot.offchain.backends.cpu.tails import Extents, Tails
from moot.offchain.commitments.tensors import NUMPY_TYPES, Array
from moot.offchain.native import buffers
from moot.offchain.native.machine import get_second_cache_bytes
from moot.offchain.native.scratch import get_scratch
from moot.offchain.native.threads import share
from moot.offchain.native.vectors import LANES
from moot.offchain.planning.back_to_back import MOST_ACROSS, BackToBack
from moot.offchain.planning.region import Load, Plan
from moot.offchain.planning.tails import find_tail
from moot.offchain.programs.graph import Operand, Origin

_BLOCK_BYTES = get_second_cache_bytes() // 4
"""Bytes of a block of rows between the products, of which each part is soon read again: packed
factors and what the region reads have the rest of the second-level cache."""

_LEAST_ROWS = 4 * ROWS
"""Rows of a block at least: so many tiles read each panel of a factor while it is near."""

_FLOAT_BYTES = 4
_NEGATIVE_ZERO = 0x80000000
_VECTOR = 2 * LANES
"""Columns that a fused kernel computes at once, at most."""


class BackToBackProducts:
    """The plan of back-to-back products.

    Args:
        fused: the operators.
        kept: indices of those whose outputs are wanted, ascending.

    Attributes:
        operands: the accesses to what they read.
    """

    def __init__(self, fused: BackToBack, kept: Sequence[int]) -> None:
        self._fused, self._kept = fused, tuple(kept)
        nodes = {m.index: m.node for m in fused.group.members} | dict(fused.nodes)
        self._outputs = {i: (nodes[i].shape, NUMPY_TYPES[nodes[i].dtype]) for i in kept}
        self._plans = [Contraction(node) for node in fused.nodes.values()]
        made = [i for i in fused.group.indices if i in kept or i == fused.middle]
        contractions = dict(zip(fused.nodes, self._plans, strict=True))
        self._region = FusedRegion(fused.group, made)
        self._made = made
        parts = [self._region.operands, *(node.operands for node in fused.nodes.values())]
        inside = set(fused.indices)
        self._inside = [[_find_inside(o, inside) for o in part] for part in parts]
        named = zip(chain(*parts), chain(*self._inside), strict=True)
        self.operands: tuple[Operand, ...] = tuple(o for o, name in named if name is None)
        first = nodes[fused.first]
        *_, self._width = first.shape
        self._rows, self._height = prod(first.shape[:-1]), self._plans[0].extents[1]
        self._pitch = _choose_pitch(self._width)
        self._block = _choose_block(self._height, self._pitch)
        shapes = [(self._width, first.fold_length)]
        if fused.last is not None:
            shapes.append((self._plans[1].columns, self._width))
        across = [nodes[index] for index, _ in fused.across]
        widths = [node.elements // (first.elements // self._height) for node in across]
        self._scratch_floats = count_scratch_floats(self._block, shapes, [self._width, *widths])
        self._kinds = [
            (LEFT if contractions[index].is_left(folded) else RIGHT)
            + (BLOCK if folded in fused.group.indices else 0)
            for index, folded in fused.across
        ]
        full = [i for i in made if nodes[i].elements == first.elements]
        is_float = len(full) == 1 and nodes[full[0]].dtype is DType.FLOAT32
        self._middle = full[0] if is_float else fused.middle
        self._tails = self._find_tails(kept) if is_float else None
        self._is_in_place = self._find_place()
        reads = [SCORES if name == fused.first else 0 for name in self._inside[0]]
        writes = [0 if index in kept else MIDDLE for index in made]
        lead = [] if self._tails is None else [0, 0]
        self._parts = np.array([*reads, *writes, *lead], np.int64)
        self._region.space(np.flatnonzero(self._parts).tolist(), self._pitch)

    def _find_place(self) -> bool:
        """Whether what the last product folds may be where the first product's result was."""
        region = self._region.region
        plan = Plan(region)
        is_last = [plan.stages[value] == len(plan.passes) - 1 for value, _ in region.stores]
        return all(is_last) and self._width % _VECTOR == 0

    def _find_tails(self, kept: Sequence[int]) -> Tails | None:
        """Return how the tails of rows are found, if there may be some."""
        region, fused = self._region.region, self._fused
        init, *starts = (
            fused.nodes[i].operands[0] for i in (fused.first, *(i for i, _ in fused.across))
        )
        scores = next(i for i, name in enumerate(self._inside[0]) if name == fused.first)
        stored = {index: value for (value, _), index in zip(region.stores, self._made, strict=True)}
        folded = {value for index, value in stored.items() if index not in kept}
        tail = find_tail(region, scores, folded)
        is_fixed = all(o.origin is Origin.IMMEDIATE for o in (init, *starts))
        if tail is None or not is_fixed or any(o.value == _NEGATIVE_ZERO for o in starts):
            return None
        self._region.allow_cuts()
        self._region.allow_lead(tail.mask)
        read = [o.reference if o.origin is Origin.NODE else None for o in self._region.operands]
        loads = [v for i in tail.zeros if isinstance(v := region.values[i], Load)]
        zeros = {read[v.buffer] for v in loads} | {i for i, v in stored.items() if v in tail.zeros}
        wanted = {i for _, i in fused.across}
        wanted.update(() if fused.middle is None else (fused.middle,))
        return Tails(region, tail, init.value, is_zero=wanted <= zeros)

    def run(self, flats: Sequence[Array | None]) -> list[Array]:
        """Return the wanted outputs, given the tensors of the operands."""
        given = iter(flats)
        parts = [[next(given) if n is None else None for n in names] for names in self._inside]
        outputs = {index: buffers.empty(*kind) for index, kind in self._outputs.items()}
        work = self._bind(self._region.read(parts[0]), parts[1:], outputs)
        down = -(-self._height // self._block)
        # Columns are folded from the first row of a matrix to its last one.
        unit = down if self._fused.across else 1

        def compute(begin: int, end: int) -> None:
            row = 0
            for views in work.segments:
                first, row = row // self._height * down, row + views[0].shape[0] * self._height
                last = row // self._height * down
                if max(begin * unit, first) < min(end * unit, last):
                    here = max(begin * unit, first) - first, min(end * unit, last) - first
                    self._compute(work, views, first // down * self._height, *here)

        share(compute, self._rows // self._height * down // unit, 1)
        return [outputs[index] for index in self._kept]

    def _bind(
        self,
        inputs: Sequence[Array | None],
        factors: Sequence[Sequence[Array | None]],
        outputs: Mapping[int, Array],
    ) -> "_Work":
        """Return the work of a run, given the region's operands and those of the contractions."""
        indices = list(self._fused.nodes)
        views = [
            plan.list_views(part, outputs.get(index))
            for plan, part, index in zip(self._plans, factors, indices, strict=True)
        ]
        first, *rest = views
        last = rest.pop(0) if self._fused.last is not None else None
        others = [b for _, b, _, _ in last or ()]
        for kind, each in zip(self._kinds, rest, strict=True):
            others += [view[1] if kind & LEFT else view[0] for view in each]
        tensors = (*inputs, *map(outputs.get, self._made))
        whole = None if self._middle is None else outputs.get(self._middle)
        extents = self._tails.find_extents(inputs) if self._tails else None
        if extents is not None:
            tensors = (*tensors, extents.leads, extents.constant)
        absent = [None] * (MOST_ACROSS - len(rest))
        return _Work(
            list(_align(first, last, *rest, *absent)),
            buffers.Addresses.of(tensors),
            None if whole is None else np.asarray(whole, np.float32).reshape(-1, self._width),
            self._find_ends(extents, first, others),
            extents,
        )

    def _find_ends(
        self, extents: Extents | None, first: Sequence[Views], others: Sequence[Floats]
    ) -> Integers:
        """Return in how many columns of each row something has to be computed; empty for all.

        Args:
            extents: what the mask holds, if there is one.
            first: the first product's factors.
            others: what the weights are multiplied with.
        """
        nothing, tails = np.empty(0, np.int64), self._tails
        if tails is None or extents is None or not extents.ends.size:
            return nothing
        is_left_out = tails.is_bounded(first) and (not others or tails.is_skipped(others))
        return extents.ends if is_left_out else nothing

    def _compute(
        self, work: "_Work", views: Sequence[Floats], top: int, begin: int, end: int
    ) -> None:
        """Compute blocks of a segment's rows, the first of which has a number among all."""
        size = self._block * self._pitch
        blocks = _memory.reserve(size if self._is_in_place else 2 * size)
        rows = blocks.reshape(-1, self._pitch)[:, : self._width]
        scores = rows[: self._block]
        middle = rows[-self._block :] if work.middle is None else work.middle
        kernel = self._region.kernel
        compute_blocks(
            *views,
            scores,
            middle,
            middle,
            get_scratch("panels", self._scratch_floats),
            np.empty_like(work.addresses.words),
            work.addresses.words,
            self._parts,
            work.ends,
            self._tails.unit if self._tails else 0,
            self._tails.least if self._tails else 0,
            work.middle is not None,
            *self._kinds,
            *[0] * (MOST_ACROSS - len(self._kinds)),
            kernel.address,
            reserve(kernel.scratch_bytes),
            top,
            self._block,
            begin,
            end,
        )


@dataclass(frozen=True, slots=True)
class _Work:
    """What the blocks of a run share.

    Attributes:
        segments: a, b and init of the first product, b, init and output of the last one, and all of
            those across, for matrices of as many batches.
        addresses: the region's operands, which may be copies that nobody else has, and its outputs;
            None for what is there in parts.
        middle: all rows of what the last product folds, if they are wanted.
        ends: in how many columns of each row something is not yet in its tail; empty without tails.
        extents: what a mask holds in each row, part of which the region reads.
    """

    segments: Sequence[Sequence[Floats]]
    addresses: buffers.Addresses
    middle: Floats | None
    ends: Integers
    extents: Extents | None


def _align(first: Sequence[Views], *others: Sequence[Views] | None) -> Iterator[list[Floats]]:
    """Yield the factors and starts of all products, and the results, for as many matrices each.

    Args:
        first: the first product's, without its result.
        *others: those of the last one, without its left factor, and of others; None for no product.
    """
    empty = [np.empty((len(views[1]), 0, 0), np.float32) for views in first]
    none = [(x, x, x, x) for x in empty]
    calls = [first, *(none if views is None else views for views in others)]
    chosen = [slice(0, 3), slice(1, 4), *[slice(0, 4)] * (len(others) - 1)]
    starts = [[0, *accumulate(len(views[2]) for views in each)] for each in calls]
    for begin, end in pairwise(sorted({0}.union(*starts))):
        parts: list[Floats] = []
        for each, sums, part in zip(calls, starts, chosen, strict=True):
            call = bisect(sums, begin) - 1
            inside = slice(begin - sums[call], end - sums[call])
            parts += [view[inside] for view in each[call][part]]
        yield parts


def _choose_pitch(width: int) -> int:
    """Return how many elements apart rows of a block lie: rows of a tile are near all at once."""
    return width + LANES if width * _FLOAT_BYTES % CONFLICTING_BYTES == 0 else width


def _choose_block(height: int, pitch: int) -> int:
    """Return how many rows of a matrix are computed together."""
    rows = max(_LEAST_ROWS, _BLOCK_BYTES // (pitch * _FLOAT_BYTES))
    parts = -(-height // rows)
    return -(-height // (parts * ROWS)) * ROWS


def _find_inside(operand: Operand, inside: Collection[int]) -> int | None:
    """Return the operator inside that an operand reads, if it does."""
    is_output = operand.origin is Origin.NODE and operand.reference in inside
    return operand.reference if is_output else None


class _Memory(threading.local):
    """A thread's blocks of rows, whose memory is kept between calls."""

    def __init__(self) -> None:
        self._floats = np.empty(0, np.float32)

    def reserve(self, size: int) -> Floats:
        """Return so many elements."""
        if self._floats.size < size:
            self._floats = buffers.empty((size,), np.float32)
        return self._floats[:size]


_memory = _Memory()
