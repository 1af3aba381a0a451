"""Leaves of operators of all kinds over drawn operands, with right and wrong evidence."""

import random
from collections.abc import Iterator

from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis.strategies import SearchStrategy

from offchain.programs.encoding import encode_node
from tests.mutants.replay import Call
from tests.mutants.tape import CLIENT, Tape
from tests.referee.nodes import SEARCHES, Leaf, leaves
from tests.referee.programs import every_kind
from tests.referee.test_leaf import list_wrong

LEAVES = 260
SEARCHED = 200
"""Beside those of all kinds: a search compares in ways that nothing else does."""
WRONG = 5


def ask_leaves() -> list[Call]:
    """Return calls of the leaf contract."""
    tape, rng = Tape(), random.Random(7)
    searches = leaves().filter(lambda leaf: leaf.node.function in SEARCHES)
    for leaf in (*_draw(leaves(), LEAVES), *_draw(searches, SEARCHED)):
        encoding = encode_node(leaf.node)
        wrong = list(list_wrong(leaf))
        for evidence in (leaf.evidence, *rng.sample(wrong, min(WRONG, len(wrong)))):
            tape.note("compute", CLIENT, leaf.context, encoding, evidence)
    for encoding in _list_encodings():
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


def _list_encodings() -> Iterator[bytes]:
    for node in every_kind().nodes:
        encoding = encode_node(node)
        yield from (encoding, encoding[:-1], encoding + b"\0")
