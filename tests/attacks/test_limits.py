"""The largest trees, tensors, folds and encodings that the protocol allows."""

from collections.abc import Sequence
from functools import cache
from pathlib import Path

import pytest

from contracts.compiler import compile_contract
from contracts.model.moves import get_boundary, get_segments
from contracts.model.types import MAX_MEMBERS, MAX_STEPS
from contracts.reasons import Ending, Phase, Standing
from offchain.arithmetic.functions import DType, Function
from offchain.commitments.tags import CHUNK_BYTES, Tag
from offchain.commitments.tensors import hash_chunk
from offchain.programs.encoding import MAX_NODE_BYTES, encode_node
from offchain.programs.graph import Kind, Node, Operand, Origin, immediate
from offchain.programs.semantics import compute_element
from tests.attacks.paper import EvenTree, Paper, claim_element
from tests.attacks.puppet import Puppet
from tests.lockstep.claims import Claim, cheating
from tests.lockstep.game import Game
from tests.lockstep.harness import Lockstep
from tests.lockstep.programs import row
from tests.lockstep.tasks import honest_kinds, kinds

F32 = DType.FLOAT32
ELEMENTS = 2**61 - 1
"""Four bytes each: the largest tensor, whose last chunk lacks one element."""


@pytest.mark.parametrize("is_right", [True, False])
def test_s8_last_element_of_the_largest_tensor(referee: Lockstep, is_right: bool) -> None:  # noqa: FBT001
    """Step 2^32 - 1, chunk 2^55 - 1, element 2^61 - 2: indices are neither cut nor confused."""
    node = Node(Kind.RANDOM, Function.UNIFORM, F32, (ELEMENTS,), seed=2**64 - 1, stream=2**32 - 1)

    def fetch(place: int, operand: Operand, index: int) -> int:
        raise AssertionError((place, operand, index))

    bits = compute_element(node, ELEMENTS - 1, MAX_STEPS - 1, fetch) ^ (not is_right)
    last_chunk = bytes(CHUNK_BYTES - 8) + bits.to_bytes(4, "little")
    leaves = (hash_chunk(bytes(CHUNK_BYTES)), hash_chunk(last_chunk))
    paper = Paper(referee, node, EvenTree(Tag.TENSOR_NODE, 2**55, *leaves), last_chunk)
    paper.come_to_leaf()
    match = paper.match
    assert (match.step, match.index, match.element) == (2**32 - 1, 2**55 - 1, 2**61 - 2)
    assert paper.decide() == (1 - is_right, Ending.SCALAR)


@pytest.mark.parametrize("last", [True, False])
def test_s8_longest_fold(referee: Lockstep, last: bool) -> None:  # noqa: FBT001
    """A fold of 2^61 - 1 steps is narrowed to its first or to its last step."""
    one = 0x3F800000
    operands = (immediate(F32, 0), immediate(F32, one))
    node = Node(Kind.REDUCE, Function.ADD, F32, (), operands, (ELEMENTS,))
    chunk = one.to_bytes(4, "little")
    leaves = (hash_chunk(chunk),) * 2
    paper = Paper(referee, node, EvenTree(Tag.TENSOR_NODE, 1, *leaves), chunk)
    paper.come_to_leaf()
    while paper.match.phase is Phase.FOLD:
        segments = get_segments(paper.match)
        values = chunk * (segments - 1)
        segment = segments - 1 if last else 0
        expected = (get_boundary(paper.match, segment), get_boundary(paper.match, segment + 1))
        paper.move("open_fold", values)
        assert paper.move("pick_segment", values, segment)[2:] == expected
    assert paper.match.low == (ELEMENTS - 1 if last else 0)
    # 0 + 1 is 1, and 1 + 1 is not.
    assert paper.decide() == (int(last), Ending.SCALAR)


def test_s8_single_chunk_and_single_slot_have_trees_without_levels(referee: Lockstep) -> None:
    """A tree of one leaf is opened and picked like any other."""
    node = Node(Kind.MOVE, Function.COPY, F32, (1,), (immediate(F32, 0),))
    assert claim_element(referee, node, 0) == (0, Ending.SCALAR)


@cache
def largest_encodings() -> tuple[bytes, ...]:
    """Return valid encodings close to the greatest length, with many rows and many terms."""
    terms = tuple((v, 1 - 2**63) for v in range(8))
    wide = Operand(Origin.STATE, F32, 0, 0, (row(2, *terms),) * 8)
    narrow = Operand(Origin.STATE, F32, 0, 0, (row(2),) * 8)
    shape = (1,) * 8
    return (
        encode_node(Node(Kind.MOVE, Function.COPY, F32, shape, (wide, wide))),
        encode_node(Node(Kind.MOVE, Function.COPY, F32, shape, (narrow,) * 8)),
    )


@pytest.mark.parametrize("encoding", largest_encodings())
def test_g2_largest_operators_are_read_with_little_gas(referee: Lockstep, encoding: bytes) -> None:
    """An operator that fills its encoding takes a small part of a transaction's gas."""
    assert MAX_NODE_BYTES * 2 // 3 < len(encoding) <= MAX_NODE_BYTES
    leaf = referee.chain.at(compile_contract("leaf"), referee.contract.call("leaf_contract"))
    receipt = leaf.transact("inspect", encoding, bytes(32), sender=referee.chain.accounts[0])
    assert receipt.gas_used < 2**20


def test_g1_every_call_about_a_full_job_is_cheap(referee: Lockstep) -> None:
    """With every seat taken, and every member to be paid, no call has more than a bounded loop."""
    claims: Sequence[Claim] = [honest_kinds()] * MAX_MEMBERS
    game = Game(referee, kinds(), list(claims), {"commit_blocks": 10, "reveal_blocks": 10})
    game.assemble()
    referee.call("settle", game.client, game.job_id)
    assert max(referee.gas["settle"]) < 400_000
    assert max(referee.gas["reveal"]) < 100_000
    assert max(referee.gas["commit"]) < 120_000


def test_g3_leaf_without_enough_gas_is_no_verdict(referee: Lockstep, tmp_path: Path) -> None:
    """With too little gas, within the leaf contract too, nothing happens; with enough, it ends."""
    puppet = Puppet(referee, tmp_path)
    game = Game(referee, kinds(), [cheating(kinds(), 1, 6), honest_kinds()]).assemble().start()
    move = game.play_to(Phase.LEAF).next_move()
    outcomes = []
    for gas in range(20_000, 220_000, 10_000):
        with referee.branch():
            is_accepted = puppet.squeeze(gas, move.name, *move.args)
            assert referee.contract.call("get_job", game.job_id)[5] == (not is_accepted)
            standing = referee.contract.call("get_members", game.job_id)[0][1]
            assert standing == (Standing.DEFEATED if is_accepted else Standing.REVEALED)
            outcomes.append(is_accepted)
    assert outcomes == sorted(outcomes)
    assert set(outcomes) == {False, True}
