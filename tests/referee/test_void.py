"""A job whose program is not legal, in lock-step and with all invariants, whatever came before."""

import random
from itertools import count

import pytest

from moot.contracts.model.types import Terms
from moot.contracts.reasons import LeafMode, Reason, Standing, Status
from moot.offchain.commitments.keccak import keccak256
from moot.offchain.commitments.tags import Tag
from moot.offchain.commitments.tree import Tree
from tests.lockstep.contracts import RefereeContract
from tests.lockstep.story import commit, join, meet
from tests.lockstep.twin import RefereeTwin
from tests.quick import every
from tests.referee.stage import ACCOUNTS, CLIENT, PROVIDERS, VERIFIER

REWARD_WEI = 1001
ENCODING = b"\1\2\3"
"""An operator that ends too early."""
PROGRAM = Tree(Tag.PROGRAM_NODE, [keccak256(bytes([Tag.OPERATOR]) + ENCODING)] * 3)
TERMS = Terms(
    operators=3,
    state_slots=1,
    batch_slots=0,
    layout=bytes(32),
    program_top=PROGRAM.top,
    start_root=bytes(32),
    data_top=bytes(32),
    steps=1,
    checkpoint_every=1,
    leaf_mode=LeafMode.SCALAR,
    verifier=VERIFIER,
    bond_wei=10**18 + 1,
    commit_blocks=5,
    reveal_blocks=5,
    window_blocks=9,
    clock_blocks=7,
    increment_blocks=2,
)
TOPS = [bytes([number]) * 32 for number in (1, 2, 2)]


def tell(twins: RefereeTwin, rng: random.Random) -> None:
    """Let members join, meet and lose for some time, and then prove that the job is not legal."""
    twins.call("open_job", CLIENT, TERMS, value_wei=REWARD_WEI)
    members = rng.sample(PROVIDERS, 4)
    for member, top in zip(members, TOPS, strict=False):
        commit(twins, member, top)
    twins.block = 7
    for member, top in zip(members, TOPS, strict=False):
        if rng.random() < 0.8:
            twins.call("reveal", member, 0, top, bytes(32))
    twins.block = 13
    if rng.random() < 0.5:
        join(twins, members[3], TOPS[0])
    for other in (1, 2):
        meet(twins, CLIENT, members[0], members[other])
    if rng.random() < 0.5:
        twins.block += 8
        for pair, position in list(twins.watcher.positions.items()):
            twins.call("timeout", CLIENT, pair, position)


@pytest.mark.parametrize("seed", every(6, range(6)))
def test_void_job_pays_everybody_back_in_lockstep(seed: int) -> None:
    """Hidden, contending, late and defeated members all get their bonds, and no prize is paid."""
    rng, twins = random.Random(seed), RefereeTwin(ACCOUNTS, RefereeContract(ACCOUNTS))
    tell(twins, rng)
    index = rng.randrange(3)
    args = (0, index, ENCODING, tuple(PROGRAM.proof(index)))
    assert twins.call("prove_operator", CLIENT, *args[:3], args[3][1:]) == Reason.UNPROVEN
    assert twins.call("prove_operator", rng.choice(ACCOUNTS), *args) is None
    assert twins.store.jobs[0].status is Status.VOID
    before = dict(twins.balances)
    accounts = rng.sample(ACCOUNTS, len(ACCOUNTS))
    for account, number in zip(accounts, count()):
        twins.call("collect", account, 0)
        assert twins.call("collect", account, 0) == Reason.NOTHING_OWED, number
    joined = {account for _, account in twins.store.members}
    for account in ACCOUNTS:
        brought = TERMS.bond_wei * (account in joined) + REWARD_WEI * (account == CLIENT)
        assert twins.balances[account] - before[account] == brought
    assert {member.standing for member in twins.store.members.values()} == {Standing.PAID}
    assert twins.store.balance_wei == twins.store.burned_wei == 0
