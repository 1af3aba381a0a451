"""The plans of moves, which copy one or several operands box by box."""

from collections.abc import Sequence
from itertools import combinations
from math import gcd, prod

from moot.offchain.backends.cpu.calls import lay_out_whole
from moot.offchain.backends.cpu.views import Filler, list_fills, make_constant
from moot.offchain.commitments.tensors import NUMPY_TYPES, Array
from moot.offchain.native import buffers
from moot.offchain.native.memory_layout import Memory
from moot.offchain.native.sequences import Call, Place
from moot.offchain.planning.accesses import Box
from moot.offchain.programs.graph import Node, Origin

_MAX_COMPARED = 16


class Alias:
    """The plan of a move that copies a whole tensor: its output is that tensor."""

    is_called = True

    def __init__(self, node: Node) -> None:
        self._shape = node.shape

    def run(self, flats: Sequence[Array | None], _step: int) -> Array:
        """Return the output, given the tensors of the candidates."""
        (flat, *_) = flats
        assert flat is not None
        return flat.reshape(self._shape)


class Move:
    """The plan of a move of several candidates, or of one that is not in range everywhere.

    Args:
        node: a move node with a positive number of elements.
    """

    def __init__(self, node: Node) -> None:
        self._shape = node.shape
        self._dtype = NUMPY_TYPES[node.dtype]
        last = node.operands[-1]
        self._candidates: list[tuple[int, Filler]] = []
        self._fill: Array | None = make_constant(last.dtype, last.value)
        for place, operand in enumerate(node.operands):
            if operand.origin is Origin.IMMEDIATE:
                self._fill = make_constant(operand.dtype, operand.value)
                break
            filler = Filler(operand, node.shape)
            self._candidates.append((place, filler))
            if filler.covers:
                self._fill = None
                break
        if _is_partition([filler for _, filler in self._candidates], node.elements):
            self._fill = None

    @property
    def is_called(self) -> bool:
        """Whether a few calls of machine code copy all."""
        return all(filler.is_short for _, filler in self._candidates)

    def list_calls(
        self, sources: Sequence[Place | None], targets: Sequence[Place], memory: Memory
    ) -> list[Call]:
        """Return the calls that compute the output."""
        out = lay_out_whole(targets[0], self._dtype.itemsize, self._shape)
        calls = [] if self._fill is None else list_fills(self._fill, out, memory)
        for place, filler in reversed(self._candidates):
            source = sources[place]
            assert source is not None
            calls += filler.list_overlay_calls(source, out, memory)
        return calls

    def run(self, flats: Sequence[Array | None], _step: int) -> Array:
        """Return the output, given the tensors of the candidates (None for constants)."""
        out = buffers.empty(self._shape, self._dtype)
        if self._fill is not None:
            out[...] = self._fill
        for place, filler in reversed(self._candidates):
            flat = flats[place]
            assert flat is not None
            filler.overlay(out, flat)
        return out


def _is_partition(fillers: Sequence[Filler], elements: int) -> bool:
    """Whether the ranges of some accesses are disjoint and leave nothing out."""
    boxes: list[Box] = []
    for filler in fillers:
        if filler.boxes is None:
            return False
        boxes += filler.boxes
    if len(boxes) > _MAX_COMPARED or sum(prod(box.shape) for box in boxes) != elements:
        return False
    return all(_are_disjoint(a, b) for a, b in combinations(boxes, 2))


def _are_disjoint(a: Box, b: Box) -> bool:
    return any(
        x.stop <= y.start or y.stop <= x.start or (x.start - y.start) % gcd(x.step, y.step)
        for x, y in zip(a.region, b.region, strict=True)
    )
