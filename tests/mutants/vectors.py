"""Encodings of operators, and leaves over drawn operands, right and wrong ones."""

import random

from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis.strategies import SearchStrategy

from offchain.arithmetic.base import Arithmetic
from offchain.arithmetic.functions import Function
from offchain.arithmetic.ordered import ORDERED
from offchain.programs.encoding import encode_node
from tests.mutants.replay import Call
from tests.mutants.tape import CLIENT, Tape
from tests.referee.chosen import list_forged, list_proven
from tests.referee.malformed import LIMITS, list_changed
from tests.referee.nodes import SEARCHES, Leaf, leaves
from tests.referee.test_leaf import list_wrong

LEAVES = 260
SEARCHED = 200
"""Further functions: a search compares elements, an exact sum adds, as no other operator does."""
SUMS = (Function.ADD, Function.FMA)
WRONG = 5


def ask_leaves(arithmetic: Arithmetic = ORDERED) -> list[Call]:
    """Return calls of the leaf contract."""
    tape, rng = Tape(arithmetic), random.Random(7)
    drawn = leaves(arithmetic)
    functions = SEARCHES if arithmetic == ORDERED else SUMS
    special = drawn.filter(lambda leaf: leaf.node.kind.folds and leaf.node.function in functions)
    for leaf in (*_draw(drawn, LEAVES), *_draw(special, SEARCHED)):
        encoding = encode_node(leaf.node)
        wrong = list(list_wrong(leaf))
        for evidence in (leaf.evidence, *rng.sample(wrong, min(WRONG, len(wrong)))):
            tape.note("compute", CLIENT, leaf.context, encoding, evidence)
    return tape.calls


def ask_chosen() -> list[Call]:
    """Return calls of the leaf contract about leaves that are not drawn."""
    tape = Tape()
    for leaf in (*list_proven(), *list_forged()):
        tape.note("compute", CLIENT, leaf.context, encode_node(leaf.node), leaf.evidence)
    return tape.calls


def ask_encodings() -> list[Call]:
    """Return calls that show encodings of operators, right and wrong ones."""
    tape, rng = Tape(), random.Random(7)
    for encoding in (*list_changed(rng), *(found for cases in LIMITS for found in cases())):
        tape.note("inspect", CLIENT, encoding)
    return tape.calls


def _draw(strategy: SearchStrategy[Leaf], count: int) -> list[Leaf]:
    drawn: list[Leaf] = []

    @seed(7)
    @settings(
        max_examples=count,
        database=None,
        deadline=None,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @given(leaf=strategy)
    def draw(leaf: Leaf) -> None:
        drawn.append(leaf)

    draw()
    return drawn
