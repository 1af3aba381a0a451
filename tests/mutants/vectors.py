"""Leaves of operators of all kinds over drawn operands, with right and wrong evidence."""

import random
from collections.abc import Iterator

from hypothesis import HealthCheck, Phase, given, seed, settings

from offchain.programs.encoding import encode_node
from tests.mutants.replay import Call
from tests.mutants.tape import CLIENT, Tape
from tests.referee.nodes import Leaf, leaves
from tests.referee.programs import every_kind
from tests.referee.test_leaf import list_wrong

LEAVES = 260
WRONG = 5


def ask_leaves() -> list[Call]:
    """Return calls of the leaf contract."""
    tape, rng = Tape(), random.Random(7)
    for leaf in _draw_leaves():
        encoding = encode_node(leaf.node)
        wrong = list(list_wrong(leaf))
        for evidence in (leaf.evidence, *rng.sample(wrong, min(WRONG, len(wrong)))):
            tape.note("compute", CLIENT, leaf.context, encoding, evidence)
    for encoding in _list_encodings():
        tape.note("inspect", CLIENT, encoding)
    return tape.calls


def _draw_leaves() -> list[Leaf]:
    drawn: list[Leaf] = []

    @seed(7)
    @settings(
        max_examples=LEAVES,
        database=None,
        deadline=None,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @given(leaf=leaves())
    def draw(leaf: Leaf) -> None:
        drawn.append(leaf)

    draw()
    return drawn


def _list_encodings() -> Iterator[bytes]:
    for node in every_kind().nodes:
        encoding = encode_node(node)
        yield from (encoding, encoding[:-1], encoding + b"\0")
