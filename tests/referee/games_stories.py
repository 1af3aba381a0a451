"""The claims of the games' members: the truth, or one of many lies, in jobs of several shapes.

Every game draws its lies from a deck of its own, of two lies of each kind for each shape of a job,
so that a run over many games tells tens of thousands of different ones.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, lru_cache
from random import Random

from moot.contracts.model.types import NOBODY, Address, Terms
from moot.contracts.reasons import LeafMode
from moot.offchain.arithmetic.base import Arithmetic
from moot.offchain.arithmetic.ordered import ORDERED
from moot.offchain.disputes.referee.terms import Stakes, make_terms
from moot.offchain.providers.run import Run
from moot.sim.synthetic.products import (
    FIRST_PRODUCT,
    SLOTS,
    Lie,
    ProductRun,
    ProductTask,
    Size,
    make_task,
)

HONEST = "honest"
FALSE_FLAG = "false flag"
VARIANTS = 2
"""Lies of each kind in a deck."""


@dataclass(frozen=True)
class Shape:
    """A kind of job: its size, and who decides its leaves."""

    size: Size
    leaf_mode: LeafMode = LeafMode.SCALAR

    def make_terms(self, client: Address, stakes: Stakes, arithmetic: Arithmetic) -> Terms:
        """Return the terms of a job; `client` rules, where a verifier is named."""
        verifier = client if self.leaf_mode is LeafMode.OPERATOR else NOBODY
        return make_terms(get_task(self, arithmetic), stakes, self.leaf_mode, verifier)

    @property
    def steps(self) -> int:
        """Steps of the history."""
        return self.size.checkpoints * self.size.checkpoint_every

    @property
    def elements(self) -> int:
        """Elements of a product."""
        return self.size.rows * self.size.columns

    @property
    def sinks(self) -> int:
        """The first operator that is not a product any more."""
        return self.size.operators - SLOTS


@cache
def get_task(shape: Shape, arithmetic: Arithmetic) -> ProductTask:
    """Return what is to be computed in a job."""
    return make_task(shape.size, arithmetic)


def _make_size(checkpoints: int, every: int, operators: int, columns: int, terms: int) -> Size:
    return Size(checkpoints, every, operators, 2, columns, terms)


SHAPES = {
    "sparse": Shape(_make_size(5, 2, 8, 40, 70)),
    "odd": Shape(_make_size(4, 3, 9, 40, 130)),
    "dense": Shape(_make_size(9, 1, 7, 9, 64)),
    "tiny": Shape(_make_size(1, 1, 6, 1, 1)),
    "whole": Shape(_make_size(5, 2, 8, 40, 70), LeafMode.OPERATOR),
}
"""With and without intervals, chunks, rounds of a fold, and the verifier; the tiny has one step."""


@dataclass(frozen=True, slots=True)
class Story:
    """A member's claim in a job of a shape; without a lie it is the truth.

    A false flag claims the truth, and defends it with accumulators that are wrong as its lie says.
    """

    kind: str
    shape: str
    lie: Lie | None = None
    arithmetic: Arithmetic = ORDERED

    @property
    def is_true(self) -> bool:
        """Whether the claim is the true history."""
        return self.lie is None or self.kind == FALSE_FLAG


def _lie(
    rng: Random,
    shape: Shape,
    *,
    step: int | None = None,
    operator: int | None = None,
    element: int | None = None,
    term: int | None = None,
    bit: int | None = None,
) -> Lie:
    """Return a lie of which some places are given, and the others drawn."""
    return Lie(
        rng.randrange(shape.steps) if step is None else step,
        rng.randrange(FIRST_PRODUCT, shape.sinks) if operator is None else operator,
        rng.randrange(shape.elements) if element is None else element,
        rng.randrange(shape.size.terms) if term is None else term,
        1 << (rng.randrange(23) if bit is None else bit),
    )


def _lie_inside(rng: Random, shape: Shape) -> Lie:
    every = shape.size.checkpoint_every
    first = rng.randrange(shape.size.checkpoints) * every
    return _lie(rng, shape, step=first + rng.randrange(max(1, every - 1)))


LIES: dict[str, Callable[[Random, Shape], Lie]] = {
    "first step": lambda rng, shape: _lie(rng, shape, step=0),
    "last step": lambda rng, shape: _lie(rng, shape, step=shape.steps - 1),
    "inside an interval": _lie_inside,
    "first product": lambda rng, shape: _lie(rng, shape, operator=FIRST_PRODUCT),
    "last product": lambda rng, shape: _lie(rng, shape, operator=shape.sinks - 1),
    "copied output": lambda rng, shape: _lie(rng, shape, operator=shape.size.operators - 1),
    "state": lambda rng, shape: _lie(rng, shape, operator=shape.size.operators),
    "first element": lambda rng, shape: _lie(rng, shape, element=0),
    "last element": lambda rng, shape: _lie(rng, shape, element=shape.elements - 1),
    "second half": lambda rng, shape: _lie(
        rng, shape, element=rng.randrange(shape.elements // 2, shape.elements)
    ),
    "first term": lambda rng, shape: _lie(rng, shape, term=0),
    "last term": lambda rng, shape: _lie(rng, shape, term=shape.size.terms - 1),
    "last bit": lambda rng, shape: _lie(rng, shape, bit=0),
    "exponent": lambda rng, shape: _lie(rng, shape, bit=30),
    "sign": lambda rng, shape: _lie(rng, shape, bit=31),
    FALSE_FLAG: _lie,
}
"""What can be false, of which a deck has VARIANTS lies each, with other places and bits."""


@lru_cache(maxsize=len(SHAPES))
def make_deck(
    number: int, shape: str, arithmetic: Arithmetic = ORDERED
) -> dict[str, tuple[Story, ...]]:
    """Return the stories of a deck for a shape, by kind."""
    rng = Random(f"{number} {shape}")
    return {
        kind: tuple(
            Story(kind, shape, tell(rng, SHAPES[shape]), arithmetic) for _ in range(VARIANTS)
        )
        for kind, tell in LIES.items()
    }


class _FalseFlag(ProductRun):
    """Claims the truth, and shows accumulators that are wrong between a term and the last."""

    def __init__(self, task: ProductTask, lie: Lie) -> None:
        super().__init__(task)
        self._flag = lie

    def get_partial(self, step: int, operator: int, element: int, place: int) -> int:
        bits, told = super().get_partial(step, operator, element, place), self._flag
        # The last accumulator is the claimed element, unless a step of its own makes that.
        is_element = self.task.program.arithmetic.accumulator_bytes is None
        is_claimed = is_element and place == self.task.size.terms
        return bits if place <= told.term or is_claimed else bits ^ told.mask


@lru_cache(maxsize=1 << 10)
def get_run(story: Story) -> Run:
    """Return the run of a member that tells a story."""
    task = get_task(SHAPES[story.shape], story.arithmetic)
    if story.kind == FALSE_FLAG and story.lie is not None:
        return _FalseFlag(task, story.lie)
    return ProductRun(task, story.lie)
