"""The true verdict between two stories, and their first difference, found without any tree.

A story is a rule for what every output, element and accumulator is. So the first place at which two
of them differ is found by looking at all places in order, and what should be there by computing it,
with another library's arithmetic.
"""

from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import TypeVar

from moot.contracts.reasons import Ending, LeafMode, Outcome
from moot.offchain.arithmetic.base import Arithmetic
from moot.offchain.arithmetic.exact import EXACT
from moot.offchain.arithmetic.functions import DType
from moot.offchain.arithmetic.tensor.blocks import BLOCKS
from moot.sim.synthetic.products import FACTORS, FIRST_PRODUCT
from tests import oracle
from tests.rational_blocks import add_rationals
from tests.referee.games_stories import FALSE_FLAG, SHAPES, Shape, Story

Wrong = tuple[int, int]
"""Of a tensor: the element from which on it is wrong, and by which bits."""
RIGHT: Wrong = (0, 0)

_UNIT = Fraction(1, 1 << 298)
_NEGATIVE, _HAS_OTHER = 1 << 704, 1 << 708
"""Of an exact sum: its unit, and two of its flags."""
_Said = TypeVar("_Said")


@dataclass(frozen=True, slots=True)
class Truth:
    """How a match between two stories has to end, if both are told to the end.

    Attributes:
        ending: what decides it.
        is_right: which side is right where they first differ; not both.
        place: step, operator, element and accumulator of that place, as far as it has them.
    """

    ending: Ending
    is_right: tuple[bool, bool]
    place: tuple[int, ...] = ()

    @property
    def outcome(self) -> Outcome:
        """Who wins."""
        return Outcome(self.is_right.index(True)) if True in self.is_right else Outcome.NEITHER


@dataclass(frozen=True, slots=True)
class _Account:
    """The errors in one side's story, place by place."""

    story: Story
    shape: Shape

    def get_output(self, step: int, operator: int) -> Wrong:
        """Say how an operator's output is wrong; behind the last operator stands the state."""
        lie = self.story.lie
        if lie is None or self.story.is_true:
            return RIGHT
        is_product = FIRST_PRODUCT <= operator < self.shape.sinks
        is_touched = is_product or operator >= self.shape.size.operators - 1
        is_late = (step, operator) >= (lie.step, lie.operator)
        return (lie.element, lie.mask) if is_touched and is_late else RIGHT

    def get_state(self, step: int) -> Wrong:
        """Say how the state after a step is wrong."""
        return self.get_output(step, self.shape.size.operators)

    def get_error(self, step: int, operator: int, element: int) -> int:
        """Say by which bits an element is wrong."""
        first, mask = self.get_output(step, operator)
        return mask if element >= first else 0

    def list_accumulators(self, step: int, operator: int, element: int) -> list[int]:
        """Say what the accumulators of an element of a product are, the initial one first."""
        bits, lie = list(_fold(self.story.arithmetic, self.shape.size.terms)), self.story.lie
        if lie is None:
            return bits
        error, end = self.get_error(step, operator, element), len(bits)
        if self.story.kind == FALSE_FLAG:
            error, end = lie.mask, len(bits) - 1
        return [b ^ error if lie.term < i < end else b for i, b in enumerate(bits)]


@lru_cache(maxsize=2 * len(SHAPES))
def _fold(arithmetic: Arithmetic, terms: int) -> tuple[int, ...]:
    """Return the true accumulators of every element, and the element if that is another step."""
    bits = [_encode(Fraction(0)) if arithmetic == EXACT else 0]
    for place in range(terms + _finishes(arithmetic)):
        bits.append(_advance(arithmetic, terms, bits[-1], place))
    return tuple(bits)


def _finishes(arithmetic: Arithmetic) -> bool:
    """Return whether an accumulator is no element, and is made one by a step of its own."""
    return arithmetic.accumulator_bytes is not None


def _advance(arithmetic: Arithmetic, terms: int, accumulator: int, place: int) -> int:
    """Return the accumulator after x * w, or after all terms the element, of a finite one."""
    x, w = FACTORS[arithmetic.short_factors or DType.FLOAT32]
    if arithmetic.short_factors:
        return _advance_chain(arithmetic, terms, accumulator, place)
    if arithmetic != EXACT:
        return oracle.FLOAT["fma"](x, w, accumulator)
    magnitude = (accumulator & _NEGATIVE - 1) * _UNIT
    total = -magnitude if accumulator & _NEGATIVE else magnitude
    if place == terms:
        return oracle.round_fraction(total)
    return _encode(total + Fraction(oracle.to_float(x)) * Fraction(oracle.to_float(w)))


def _advance_chain(arithmetic: Arithmetic, terms: int, accumulator: int, place: int) -> int:
    """Return the number so far beside the pairs that wait, or with a block of them added."""
    block, pair = BLOCKS[arithmetic.name], FACTORS[DType.BFLOAT16]
    bits, count = accumulator & (1 << 32) - 1, place % block.pairs + (place < terms)
    if place < terms and count < block.pairs:
        waiting = (sum(bits << 16 * place for place in range(count)) for bits in pair)
        first, second = waiting
        return bits | count << 32 | first << 256 | second << 512
    return oracle.round_fraction(add_rationals(bits, [pair] * count, block)) if count else bits


def _encode(total: Fraction) -> int:
    """Return an exact sum that has a term which is not -0."""
    return int(abs(total) / _UNIT) | (_NEGATIVE if total < 0 else 0) | _HAS_OTHER


@lru_cache(maxsize=1 << 16)
def find_truth(one: Story, other: Story) -> Truth:
    """Return how a match between members that tell these stories has to end."""
    shape = SHAPES[one.shape]
    sides = (_Account(one, shape), _Account(other, shape))
    every = shape.size.checkpoint_every
    ends = range(every - 1, shape.steps, every)
    end = next(step for step in ends if sides[0].get_state(step) != sides[1].get_state(step))
    steps = range(end - every + 1, end + 1)
    step = next(step for step in steps if sides[0].get_state(step) != sides[1].get_state(step))
    operators = range(shape.size.operators)
    differing = (
        place
        for place in operators
        if sides[0].get_output(step, place) != sides[1].get_output(step, place)
    )
    return _find_in_step(shape, sides, step, next(differing, None))


def _find_in_step(
    shape: Shape, sides: tuple[_Account, _Account], step: int, operator: int | None
) -> Truth:
    """Return how a match ends that is about an output of a step, or (None) the state after it."""
    last, copied = shape.sinks - 1, shape.size.operators - 1
    if operator is None:
        states = [side.get_state(step) for side in sides]
        return Truth(Ending.SINK, _compare(states, sides[0].get_output(step, copied)), (step,))
    is_copy = operator == copied
    if shape.leaf_mode is LeafMode.OPERATOR:
        right = sides[0].get_output(step, last) if is_copy else RIGHT
        outputs = [side.get_output(step, operator) for side in sides]
        return Truth(Ending.VERIFIER, _compare(outputs, right), (step, operator))
    elements = range(shape.elements)
    errors = ([side.get_error(step, operator, e) for e in elements] for side in sides)
    element = next(
        e for e, (mine, theirs) in enumerate(zip(*errors, strict=True)) if mine != theirs
    )
    if is_copy:
        said = [side.get_error(step, operator, element) for side in sides]
        copy = sides[0].get_error(step, last, element)
        return Truth(Ending.SCALAR, _compare(said, copy), (step, operator, element, 0))
    folds = [side.list_accumulators(step, operator, element) for side in sides]
    low = _narrow(*folds, 17 if _finishes(sides[0].story.arithmetic) else 64)
    said = [fold[low + 1] for fold in folds]
    right = _advance(sides[0].story.arithmetic, shape.size.terms, folds[0][low], low)
    return Truth(Ending.SCALAR, _compare(said, right), (step, operator, element, low))


def _narrow(one: list[int], other: list[int], arity: int) -> int:
    """Return the accumulator that is agreed while the next is not, as the rounds find it."""
    low, high = 0, len(one) - 1
    while high - low > 1:
        parts = min(arity, high - low)
        bounds = [low + (high - low) * part // parts for part in range(parts + 1)]
        place = next(i for i, bound in enumerate(bounds) if one[bound] != other[bound])
        low, high = bounds[place - 1], bounds[place]
    return low


def _compare(said: list[_Said], right: _Said) -> tuple[bool, bool]:
    return said[0] == right, said[1] == right
