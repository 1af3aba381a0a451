"""The state before a step is found in the right place: the job, the history or an interval."""

from dataclasses import replace

import pytest

from moot.contracts.model.descent import get_before
from moot.contracts.model.types import Facts
from moot.offchain.commitments.tags import Tag
from moot.offchain.commitments.tree import Digest, is_member
from tests.property.test_descents import START, make_terms

CLAIM, TOPS = b"\1" * 32, (b"\2" * 32, b"\3" * 32)
TERMS = replace(make_terms(3), steps=10, checkpoint_every=4)
"""The terms of a job of three intervals, of four, four and two steps."""


def find(step: int, side: int) -> tuple[Tag, Digest, int, int]:
    """Return where a side's state before a step is looked for."""
    checkpoint, within = divmod(step, TERMS.checkpoint_every)
    facts = Facts(first_step=step - within, step=step, checkpoint=checkpoint, intervals=TOPS)
    return get_before(facts, TERMS, side, CLAIM)


@pytest.mark.parametrize("side", [0, 1])
def test_state_before_each_step_has_one_place(side: int) -> None:
    """Before step 0 it is the job's, before another interval a checkpoint, else in the interval."""
    assert TERMS.checkpoints == 3
    assert [find(step, side) for step in range(TERMS.steps)] == [
        (Tag.HISTORY_NODE, START, 0, 1),
        *((Tag.INTERVAL_NODE, TOPS[side], place, 4) for place in range(3)),
        (Tag.HISTORY_NODE, CLAIM, 0, 3),
        *((Tag.INTERVAL_NODE, TOPS[side], place, 4) for place in range(3)),
        (Tag.HISTORY_NODE, CLAIM, 1, 3),
        (Tag.INTERVAL_NODE, TOPS[side], 0, 2),
    ]


def test_start_is_a_tree_of_one_leaf() -> None:
    """Nothing but the job's start is a member of it, and that without a proof."""
    tag, top, index, count = find(0, 0)
    assert is_member(tag, top, START, index, count, ())
    for state, proof in ((CLAIM, ()), (START, (START,)), (START, (CLAIM,)), (CLAIM, (START,))):
        assert not is_member(tag, top, state, index, count, proof)
