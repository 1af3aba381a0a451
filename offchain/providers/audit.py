"""The audit of a provider's own run: drawn elements of drawn steps, by the definition.

What a provider loses its bond for is a step in which its executor and the definition part. So it
runs some steps twice while it computes: once more with all outputs shown. Elements that are drawn
of these are computed as `programs/semantics.py` defines them, and the state that the run goes on
with has to be what the shown step ends with, bit for bit. Nobody else can know what is drawn.
"""

import secrets
from collections import Counter
from collections.abc import Mapping, Sequence
from random import Random

import numpy as np

from moot.offchain.commitments.tensors import Array, encode_elements
from moot.offchain.errors import WrongComputation
from moot.offchain.programs.graph import Node, Operand, Origin, Program
from moot.offchain.programs.rounding.entries import Entries, StepLog
from moot.offchain.programs.semantics import compute_element

STEPS_A_DRAW = 200
"""Steps of a run for each that is drawn, which takes about two more: 1% of the run."""

_ELEMENTS_PART = 200
"""The inverse of the share of a run that its drawn elements may take, by what is counted."""

_LINK, _ELEMENT = 1 << 20, 1 << 21
"""Terms that the executor adds up while the definition computes one, and while it begins one."""

_OPERATOR = 1 << 18
"""Terms that the executor adds up while it calls an operator, at least."""

_LEAST_ELEMENTS, _MOST_ELEMENTS = 8, 1 << 11
"""Elements of a step that are drawn at least, and at most."""


class Audit:
    """The audit of one run.

    Args:
        program: what is run.
        steps: the steps that are still to be run.
        draws: how many of them are drawn, by default what costs 1% of the run, at least one.
        seed: what is drawn from, by default what nobody can know.

    Attributes:
        drawn: the numbers of the steps that are drawn.
    """

    def __init__(
        self, program: Program, steps: range, draws: int | None = None, seed: int | None = None
    ) -> None:
        drawn_from = secrets.randbits(256) if seed is None else seed
        self._random = Random(drawn_from)  # noqa: S311 - of its seed nothing is ever shown
        self.program = program
        most = max(1, len(steps) // STEPS_A_DRAW) if draws is None else draws
        self.drawn = frozenset(self._random.sample(steps, min(most, len(steps))))
        work = sum(max(_OPERATOR, _count_terms(node)) for node in program.nodes)
        self._budget = work * len(steps) // (_ELEMENTS_PART * max(1, len(self.drawn)))

    def begin(
        self, step: int, state: Sequence[Array], batch: Sequence[Array], log: StepLog | None = None
    ) -> "AuditedStep":
        """Return the audit of a step that is drawn.

        Args:
            step: its number.
            state: the state before it.
            batch: its batch.
            log: its log of roundings, if there is one; what it names is not drawn.
        """
        named: Mapping[int, Entries] = {} if log is None else log.operators
        return AuditedStep(self.program, step, state, batch, self._draw(named))

    def _draw(self, named: Mapping[int, Entries]) -> dict[int, int]:
        """Draw elements by their operators, until they cost what they may."""
        nodes = self.program.nodes
        places = [index for index, node in enumerate(nodes) if node.elements]
        self._random.shuffle(places)
        drawn: dict[int, int] = {}
        left = self._budget
        for index in places:
            cost = _ELEMENT + _LINK * (nodes[index].fold_length if nodes[index].kind.folds else 1)
            element = self._random.randrange(nodes[index].elements)
            is_wanted = cost <= left or len(drawn) < _LEAST_ELEMENTS
            if not is_wanted or element in {it for it, _ in named.get(index, ())}:
                continue
            drawn[index], left = element, left - cost
            if len(drawn) == _MOST_ELEMENTS:
                break
        return drawn


class AuditedStep:
    """The audit of one step, while it runs with all of its outputs shown.

    Args:
        program: what is run.
        step: its number.
        state: the state before it.
        batch: its batch.
        drawn: the element that is drawn of an operator, by its index.
    """

    def __init__(
        self,
        program: Program,
        step: int,
        state: Sequence[Array],
        batch: Sequence[Array],
        drawn: dict[int, int],
    ) -> None:
        self._program, self._step, self._drawn = program, step, drawn
        self._given = {Origin.STATE: state, Origin.BATCH: batch}
        self._held: dict[int, Array] = {}
        self._shown: Sequence[Array] = ()
        self._readers = Counter(read for i in drawn for read in program.nodes[i].inputs)

    def observe(self, index: int, output: Array) -> None:
        """Compare an output with its definition where it is drawn; keep it while others need it.

        Raises:
            WrongComputation: the executor differs from the definition.
        """
        if self._readers[index]:
            self._held[index] = output
        if index not in self._drawn:
            return
        node, element = self._program.nodes[index], self._drawn[index]
        right = compute_element(self._program.arithmetic, node, element, self._step, self._fetch)
        found = _get_bits(output, element)
        if found != right:
            raise self._make_error(index, element, found, right, "is defined to be")
        for read in node.inputs:
            self._readers[read] -= 1
            if not self._readers[read]:
                del self._held[read]

    def keep(self, shown: Sequence[Array]) -> None:
        """Keep the state after the shown step, and let everything else die."""
        self._shown = shown
        self._given.clear()
        self._held.clear()

    def finish(self, state: Sequence[Array]) -> None:
        """Compare the state after the shown step with the one that the run goes on with.

        Raises:
            WrongComputation: they differ.
        """
        for place, (right, found) in enumerate(zip(self._shown, state, strict=True)):
            if _is_same(right, found):
                continue
            mine, theirs = (encode_elements(x).reshape(-1, x.itemsize) for x in (found, right))
            differing = np.flatnonzero((mine != theirs).any(axis=1))
            if len(differing):
                element = int(differing[0])
                bits = _get_bits(found, element), _get_bits(right, element)
                index = self._program.first_sink + place
                raise self._make_error(index, element, *bits, "is by single operators")

    def _fetch(self, place: int, operand: Operand, index: int) -> int:
        del place
        if operand.origin is Origin.NODE:
            return _get_bits(self._held[operand.reference], index)
        return _get_bits(self._given[operand.origin][operand.reference], index)

    def _make_error(
        self, index: int, element: int, found: int, right: int, why: str
    ) -> WrongComputation:
        width = 2 * self._program.nodes[index].dtype.width
        return WrongComputation(
            f"operator {index}, {self._program.names[index]!r}, step {self._step}, element "
            f"{element}: computed as 0x{found:0{width}x}, and {why} 0x{right:0{width}x}"
        )


def _count_terms(node: Node) -> int:
    return node.elements * (node.fold_length if node.kind.folds else 1)


def _get_bits(array: Array, index: int) -> int:
    element = array.reshape(-1)[index : index + 1]
    return int.from_bytes(encode_elements(element).tobytes(), "little")


def _is_same(one: Array, other: Array) -> bool:
    """Whether two arrays have the same bytes, which is sooner found than what they mean."""
    if one is other:
        return True
    mine, theirs = (np.ascontiguousarray(x).reshape(-1).view(np.uint8) for x in (one, other))
    return np.array_equal(mine, theirs)
