"""Hostile operators, programs, evidence and code: a ruling or one line, and nothing left behind."""

import pytest

from tests.parties.drawn import play
from tests.parties.escapes import KINDS
from tests.quick import only

SEEDS = 40
QUICK = {"operator": 6, "program": 6, "evidence": 6, "code": 3}
"""How many of each kind are tried where slow tests are left out; of others each starts a worker."""
CASES = [(kind, seed) for kind in KINDS for seed in range(SEEDS)]


@pytest.mark.parametrize(
    ("kind", "seed"), only({it for it in CASES if it[1] < QUICK.get(it[0], 0)}, CASES)
)
def test_nothing_gets_out(kind: str, seed: int) -> None:
    """Whatever is drawn ends within its bounds, without a process, a file or memory that stays."""
    play(KINDS, kind, seed)
