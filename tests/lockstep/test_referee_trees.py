import random

import pytest

from contracts.model.referee import compute_commitment
from contracts.reasons import Phase, Reason
from offchain.commitments.tags import Tag
from offchain.commitments.tree import Tree
from tests.lockstep.game import SALT
from tests.lockstep.harness import Lockstep
from tests.lockstep.tasks import kinds

COUNTS = [2, 3, 4, 5, 15, 16, 17, 18, 31, 33, 100, 255, 257, 4_097]


def start(referee: Lockstep, trees: list[Tree]) -> tuple[str, str]:
    """Begin a match between two histories that nobody has computed; return both members."""
    client, *members = referee.chain.accounts[:3]
    steps = trees[0].count - 1
    referee.call("open_job", client, kinds().terms(steps=steps, checkpoint_every=1))
    job = referee.store.jobs[0]
    for member, tree in zip(members, trees, strict=True):
        digest = compute_commitment(referee.store, 0, member, tree.top, SALT)
        referee.call("commit", member, 0, digest, value_wei=job.terms.bond_wei)
    referee.mine_to(job.commit_deadline + 1)
    for member, tree in zip(members, trees, strict=True):
        referee.call("reveal", member, 0, tree.top, SALT)
    referee.mine_to(job.reveal_deadline + 1)
    referee.call("start_match", client, 0)
    return members[0], members[1]


@pytest.mark.parametrize("count", COUNTS)
def test_trees_of_any_size_are_descended_to_any_leaf(referee: Lockstep, count: int) -> None:
    """Both know which nodes an opening shows and how long a proof is, odd nodes included."""
    rng = random.Random(count)
    trees = [Tree(Tag.HISTORY_NODE, [rng.randbytes(32) for _ in range(count)]) for _ in range(2)]
    defender, challenger = start(referee, trees)
    for target in {count - 1, rng.randrange(1, count)}:
        with referee.branch():
            descend(referee, trees[0], defender, challenger, target)


def descend(referee: Lockstep, tree: Tree, defender: str, challenger: str, target: int) -> None:
    """Go down to a leaf, and try a node too many, one too few and a wrong proof on the way."""
    match = referee.store.jobs[0].match
    while match is not None and match.phase is Phase.HISTORY:
        nodes = tuple(tree.children(match.level, match.index))
        for wrong in (nodes[:-1], (*nodes, nodes[-1])):
            refused = referee.refused("open", defender, 0, referee.position(0), wrong)
            assert refused in {Reason.BAD_OPENING, Reason.NO_REASON}
        referee.call("open", defender, 0, referee.position(0), nodes)
        down = min(match.level, 4)
        child = (target >> (match.level - down)) - (match.index << down)
        proof = tuple(Tree(Tag.HISTORY_NODE, nodes).proof(child))
        beyond = (len(nodes), nodes[-1], proof)
        position = referee.position(0)
        assert referee.refused("pick", challenger, 0, position, *beyond) == Reason.OUT_OF_RANGE
        for wrong in (proof[:-1], (*proof, nodes[0])):
            if wrong != proof:
                args = (child, nodes[child], wrong)
                refused = referee.refused("pick", challenger, 0, position, *args)
                assert refused == Reason.BAD_PROOF
        referee.call("pick", challenger, 0, position, child, nodes[child], proof)
        match = referee.store.jobs[0].match
    assert match is not None
    assert (match.phase, match.index, match.node) == (
        Phase.ENTER_TRACE,
        target,
        tree.node(0, target),
    )


def test_four_halvings_cost_a_hundred_thousand_gas(referee: Lockstep) -> None:
    """Opening sixteen nodes and picking one of them stays below 54,500 and 46,500 gas."""
    rng = random.Random(0)
    trees = [Tree(Tag.HISTORY_NODE, [rng.randbytes(32) for _ in range(4_096)]) for _ in range(2)]
    defender, challenger = start(referee, trees)
    nodes = tuple(trees[0].children(12, 0))
    referee.call("open", defender, 0, referee.position(0), nodes)
    proof = tuple(Tree(Tag.HISTORY_NODE, nodes).proof(11))
    referee.call("pick", challenger, 0, referee.position(0), 11, nodes[11], proof)
    assert referee.gas["open"][-1] < 54_500
    assert referee.gas["pick"][-1] < 46_500
