"""The plans of `logged`: stock binary64 first, and then a second look at what that marks."""

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from functools import cached_property, partial
from math import fsum

import numpy as np

from moot.offchain.arithmetic.functions import Function
from moot.offchain.arithmetic.logged.band import FUNCTION_EXPONENT, REACH, depth
from moot.offchain.arithmetic.logged.binary64 import FUNCTIONS
from moot.offchain.backends.cpu.called_products import Products
from moot.offchain.backends.cpu.contractions import Contraction
from moot.offchain.backends.cpu.exact import ComparedScatter
from moot.offchain.backends.cpu.folds import Reduction
from moot.offchain.backends.cpu.indexing import Integers
from moot.offchain.backends.cpu.kernels import elementary
from moot.offchain.backends.cpu.kernels.doubts import MARK, round_values
from moot.offchain.backends.cpu.kernels.exact_sums import settle_products
from moot.offchain.backends.cpu.kernels.terms import weigh_terms
from moot.offchain.backends.cpu.logged import engine_sums, stock
from moot.offchain.backends.cpu.logged.stock import (
    UNIT,
    WIDEN,
    Flags,
    Floats,
    bound_error,
)
from moot.offchain.backends.cpu.logged.terms import TermReader, Terms, read_operands
from moot.offchain.backends.cpu.maps import Map
from moot.offchain.backends.cpu.plans import plan_node
from moot.offchain.backends.cpu.scalars import Apply
from moot.offchain.backends.cpu.scatters import Scatter, depends_on_named
from moot.offchain.backends.port import Plan
from moot.offchain.commitments.tensors import Array, encode_elements
from moot.offchain.errors import ProgramError
from moot.offchain.native.binary64.current import evaluate
from moot.offchain.native.doubles import Doubles
from moot.offchain.programs.graph import Kind, Node, Operand
from moot.offchain.programs.rounding.entries import StepLog
from moot.offchain.programs.rounding.journals import Journal, Reading
from moot.offchain.programs.rounding.judgement import Judgement, find_boundaries
from moot.offchain.programs.rounding.meaning import apply_entry, count_allowed, is_loggable

_TERMS_AT_ONCE = 1 << 22

_TIGHT = WIDEN * (1 + 2.0**-10)
"""More than what E' may be above E where the terms' magnitudes have been added up."""

_SHARE = WIDEN * 2.0**FUNCTION_EXPONENT
"""E' of a function, as a share of its result."""


def plan_logged(node: Node) -> Plan:
    """Return the plan of a legal node.

    Raises:
        ProgramError: nothing is known of the error of its function in binary64.
    """
    if not is_loggable(node):
        return plan_node(node)
    if node.kind is Kind.MAP and node.function not in FUNCTIONS:
        name = node.function.name.lower()
        raise ProgramError(f"no bound is known of the error of {name}; choose another arithmetic")
    return _Function(node) if node.kind is Kind.MAP else _Sum(node)


def is_fusible(node: Node) -> bool:
    """Whether an operator may be computed in one kernel with its neighbours."""
    return not is_loggable(node) and not node.multiplies_integers


class Journaled(ABC):
    """The plan of an operator whose elements may have entries in a log.

    Args:
        node: the operator.
    """

    def __init__(self, node: Node) -> None:
        self._node, self._most = node, count_allowed(node)
        self._plans: dict[float, Plan] = {}

    def run(self, flats: Sequence[Array | None], step: int) -> Array:
        """Return the output without a log: correctly rounded."""
        return self.run_journaled(flats, step, 0, Reading(StepLog()))

    @np.errstate(all="ignore")
    def run_journaled(
        self, flats: Sequence[Array | None], step: int, operator: int, journal: Journal
    ) -> Array:
        """Return the output as `run` of a plan does.

        Args:
            flats: the operands' tensors.
            step: number of the training step.
            operator: the operator's index in its program.
            journal: decides about elements that are near a boundary.
        """
        stock_plan = self._plans.get(journal.reach)
        if stock_plan is None:
            stock_plan = self._plans.setdefault(journal.reach, self._plan(journal.reach))
        out = np.asarray(stock_plan.run(flats, step), np.float32)
        flat = out.reshape(-1)
        marked = np.flatnonzero(flat.view(np.uint32) == MARK)
        named = journal.get_elements(operator)
        elements = np.union1d(marked, named) if len(named) else marked
        if len(elements):
            judgement = self._judge(elements, flats)
            flat[elements] = journal.decide(operator, self._most, judgement)
        return out

    @abstractmethod
    def _plan(self, reach: float) -> Plan:
        """Return the plan in binary64, which marks what is within a reach of a boundary."""

    @abstractmethod
    def _judge(self, elements: Integers, flats: Sequence[Array | None]) -> Judgement:
        """Look at some elements again."""

    def _obey(
        self, elements: Integers, ups: Flags, flats: Sequence[Array | None]
    ) -> tuple[Floats, Flags]:
        """Return what entries say, by definition, and which of them count."""

        def fetch(place: int, operand: Operand, index: int) -> int:
            del operand
            tensor = flats[place]
            assert tensor is not None
            found = encode_elements(tensor.reshape(-1)[index : index + 1])
            return int.from_bytes(found.tobytes(), "little")

        entries = zip(elements.tolist(), ups.tolist(), strict=True)
        found = [apply_entry(self._node, element, fetch, up=up) for element, up in entries]
        values = np.array([bits or 0 for bits in found], np.uint32).view(np.float32)
        return values, np.array([bits is not None for bits in found], np.bool_)


class _Sum(Journaled):
    """The plan of a contraction, or of a reduction or a scatter that adds."""

    def _plan(self, reach: float) -> Plan:
        node = self._node
        if node.kind is Kind.CONTRACT:
            return Contraction(node, Products(partial(stock.multiply, reach)), keeps_folds=True)
        if node.kind is Kind.REDUCE:
            return Reduction(node, partial(engine_sums.fold_rows, reach))
        if depends_on_named(node):
            return ComparedScatter(node, partial(engine_sums.fold_rows, reach))
        return Scatter(node, partial(stock.scatter_rows, reach))

    def _judge(self, elements: Integers, flats: Sequence[Array | None]) -> Judgement:
        reader = self._reader

        whole: Terms | None = None
        results, error = np.empty(len(elements)), np.empty(len(elements))
        exact = np.empty(len(elements), np.bool_)
        for part in self._cut(elements):
            terms = reader.read(elements[part], flats)
            results[part], error[part], exact[part] = self._add(terms)
            whole = terms if len(part) == len(elements) else None

        def settle(places: Integers) -> Floats:
            chosen = elements[places]
            if whole is not None:
                return _settle(whole.take(places))
            values = np.empty(len(chosen), np.float32)
            for part in self._cut(chosen):
                terms = reader.read(chosen[part], flats)
                values[part] = _settle(terms)
            return values

        def obey(places: Integers, ups: Flags) -> tuple[Floats, Flags]:
            return self._obey(elements[places], ups, flats)

        return Judgement(elements, find_boundaries(results, error, exact), settle, obey)

    def _obey(
        self, elements: Integers, ups: Flags, flats: Sequence[Array | None]
    ) -> tuple[Floats, Flags]:
        """Decide by sums that are rounded once, and by definition where these cannot tell.

        Whoever writes a log chooses its entries, and the definition takes each term by itself.
        """
        values, counts = np.empty(len(elements), np.float32), np.empty(len(elements), np.bool_)
        for part in self._cut(elements):
            values[part], counts[part], is_open = self._look(elements[part], ups[part], flats)
            left = part[is_open]
            values[left], counts[left] = super()._obey(elements[left], ups[left], flats)
        return values, counts

    def _look(
        self, elements: Integers, ups: Flags, flats: Sequence[Array | None]
    ) -> tuple[Floats, Flags, Flags]:
        """Return what entries say, which of them count, and of which that is not known."""
        terms = self._reader.read(elements, flats)
        results, error, exact = self._add(terms)
        for place in np.flatnonzero(np.isfinite(results)):
            results[place] = fsum([*terms.products[place].tolist(), float(terms.initial[place])])
        found, spare = find_boundaries(results, error, exact, _TIGHT), UNIT * np.abs(results)
        is_near = found.distance + spare <= REACH * error / _TIGHT
        is_far = found.distance - spare > REACH * error
        counts, is_void = found.has_band & is_near, found.lacks_band | is_far
        return found.turn(ups), counts, ~(counts | is_void)

    @cached_property
    def _reader(self) -> TermReader:
        return TermReader(self._node)

    def _cut(self, elements: Integers) -> Iterator[Integers]:
        """Yield the places of elements of which the terms fit into memory at once."""
        count = max(1, _TERMS_AT_ONCE // self._node.fold_length)
        is_whole = len(elements) <= count
        order = np.arange(len(elements)) if is_whole else self._reader.arrange(elements)
        for start in range(0, len(elements), count):
            yield order[start : start + count]

    def _add(self, terms: Terms) -> tuple[Doubles, Doubles, Flags]:
        """Return sums, their bounds, and where they are exact."""
        products, initial = terms.products, terms.initial.astype(np.float64)
        results = engine_sums.add_up(products) + initial
        # A scatter's terms that don't land are -0: only additions of others can err.
        is_scatter, steps = self._node.kind is Kind.SCATTER, products.shape[1]
        additions = terms.landed + 1 if is_scatter else depth(steps + 1)
        magnitudes, exact = np.empty(len(products)), np.empty(len(products), np.bool_)
        weigh_terms(products, terms.initial, magnitudes, exact)
        # A zero may be one of a number that is too small, or of either sign.
        zeros = np.flatnonzero(results.astype(np.float32) == 0)
        if len(zeros):
            results[zeros] = _settle(terms.take(zeros))
            exact[zeros] = True
        return results, bound_error(additions, magnitudes, initial), exact


def _settle(terms: Terms) -> Floats:
    """Return sums, correctly rounded."""
    count = len(terms.products)
    out = np.empty(count, np.float32)
    ones, init = np.ones((terms.products.shape[1], 1)), terms.initial[:, None]
    settle_products(terms.products, ones, init, np.arange(count), out)
    return out


class _Function(Journaled):
    """The plan of a transcendental function."""

    def _plan(self, reach: float) -> Plan:
        return Map(self._node, _make_apply(self._node.function, reach))

    def _judge(self, elements: Integers, flats: Sequence[Array | None]) -> Judgement:
        operands = [x.astype(np.float64) for x in read_operands(self._node, elements, flats)]
        function = self._node.function
        results = evaluate(function, *operands)

        def settle(places: Integers) -> Floats:
            chosen = [x[places].astype(np.float32) for x in operands]
            return elementary.apply(function, *chosen) if len(places) else np.zeros(0, np.float32)

        def obey(places: Integers, ups: Flags) -> tuple[Floats, Flags]:
            return self._obey(elements[places], ups, flats)

        none = np.zeros(len(elements), np.bool_)
        return Judgement(elements, find_boundaries(results, _bound(results), none), settle, obey)


def _bound(results: Doubles) -> Doubles:
    error: Doubles = np.abs(results) * _SHARE
    return error


def _make_apply(function: Function, reach: float) -> Apply:
    def apply(out: Array, *operands: Array) -> None:
        results = evaluate(function, *(x.astype(np.float64) for x in operands))
        round_values(results.reshape(-1), reach * _SHARE, np.asarray(out, np.float32).reshape(-1))

    return apply
