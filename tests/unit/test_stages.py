"""Stages of a job: what a party serves begins in the right block, for the right member."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from moot.contracts.model.types import Address, Job
from moot.contracts.reasons import Standing, Status
from moot.offchain.commitments.tags import Tag
from moot.offchain.commitments.tensors import compute_history_root
from moot.offchain.commitments.tree import Tree
from moot.offchain.datastore.objects import HISTORIES, STATES, TENSORS, name_object
from moot.offchain.disputes.referee.terms import Stakes, make_terms
from moot.offchain.parties.serving import Stage, has_won, is_published, is_shown, publish
from moot.offchain.providers.store import Store
from tests.sim_helpers import make_task

CLAIM, OTHER = b"\x01" * 32, b"\x02" * 32
JOB = Job(
    Address("0x" + "c1" * 20), make_terms(make_task(), Stakes()), 0, opened_block=7, window_end=0
)


@given(st.integers(0, 100), st.integers(0, 100))
def test_claims_are_shown_until_confirmations_after_the_deadline(
    blocks: int, confirmations: int
) -> None:
    """The block after the last of them is the first in which a history may be served."""
    block = JOB.reveal_deadline + blocks
    assert is_shown(JOB, block, confirmations) == (blocks > confirmations)
    assert is_shown(JOB, block) == (blocks > 0)


@pytest.mark.parametrize("status", Status)
@pytest.mark.parametrize("standing", Standing)
@pytest.mark.parametrize("claims", [[], [CLAIM], [OTHER], [CLAIM, OTHER]])
def test_a_job_is_won_by_the_only_claim_left_and_for_who_is_paid(
    status: Status, standing: Standing, claims: list[bytes]
) -> None:
    """Whoever was defeated, or never showed its claim, is not paid with those that did."""
    is_paid = standing in {Standing.REVEALED, Standing.LATE, Standing.PAID}
    job = replace(JOB, status=status)
    wanted = status is Status.WON and is_paid and claims == [CLAIM]
    assert has_won(job, standing, CLAIM, claims) == wanted


def test_each_stage_serves_what_it_adds(tmp_path: Path) -> None:
    """A history is served from its stage on, a state and its tensors once they are paid for."""
    private, results = Store(tmp_path / "private"), Store(tmp_path / "results")
    tensors = [np.arange(size, dtype=np.float32) for size in (2, 3)]
    state = private.put_state(tensors)
    roots = [OTHER, state]
    history = Tree(Tag.HISTORY_NODE, roots)
    name = name_object(HISTORIES, compute_history_root(roots))
    names = {name_object(STATES, state)}
    names |= {name_object(TENSORS, it) for it in private.get_roots(STATES, state)}
    for stage, wanted in (
        (Stage.HIDDEN, set()),
        (Stage.SHOWN, {name}),
        (Stage.SHOWN, {name}),
        (Stage.PAID, {name} | names),
        (Stage.HIDDEN, {name} | names),
    ):
        publish(results, private, history, stage)
        assert {found for found, _ in results.list()} == wanted
        assert is_published(results, state) == (stage is Stage.PAID or len(wanted) > 1)


def test_a_state_that_is_not_kept_is_not_served(tmp_path: Path) -> None:
    """What a job's own folder no longer has is left out, and the history is served all the same."""
    private, results = Store(tmp_path / "private"), Store(tmp_path / "results")
    publish(results, private, Tree(Tag.HISTORY_NODE, [OTHER, CLAIM]), Stage.PAID)
    assert [found.partition("/")[0] for found, _ in results.list()] == [HISTORIES]
    assert not is_published(results, CLAIM)
