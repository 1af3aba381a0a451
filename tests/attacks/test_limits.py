"""The largest trees, tensors, folds and encodings that the protocol allows."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import pytest

from contracts.compiler import compile_contract
from contracts.model.moves import NODE_TAGS, get_boundary, get_segments
from contracts.model.referee import compute_commitment
from contracts.model.types import MAX_MEMBERS, MAX_STEPS, NOBODY, Terms
from contracts.reasons import Ending, LeafMode, Phase
from offchain.arithmetic.functions import DType, Function
from offchain.commitments.tags import CHUNK_BYTES, Tag
from offchain.commitments.tensors import encode_header, hash_chunk, hash_tensor
from offchain.commitments.tree import Digest, Tree, get_height, get_width, hash_node
from offchain.programs.encoding import MAX_NODE_BYTES, encode_node
from offchain.programs.graph import Kind, Node, Operand, Origin, Program, Slot, immediate
from offchain.programs.roots import ProgramTree
from offchain.programs.semantics import compute_element
from tests.lockstep.claims import Claim
from tests.lockstep.game import SALT, Game
from tests.lockstep.harness import Lockstep
from tests.lockstep.programs import row, sink, source
from tests.lockstep.tasks import honest_kinds, kinds

F32 = DType.FLOAT32
ELEMENTS = 2**61 - 1
"""Four bytes each: the largest tensor, whose last chunk lacks one element."""


class EvenTree:
    """A tree of any size whose leaves are all the same but for the last one."""

    def __init__(self, tag: Tag, count: int, leaf: Digest, last: Digest) -> None:
        self.count, self.height = count, get_height(count)
        self._inner, self._last = [leaf], [last]
        for level in range(self.height):
            is_right = get_width(count, level) % 2 == 0
            right = self._last[-1]
            self._last.append(hash_node(tag, self._inner[-1], right) if is_right else right)
            self._inner.append(hash_node(tag, self._inner[-1], self._inner[-1]))

    @property
    def top(self) -> Digest:
        """The single highest node."""
        return self.node(self.height, 0)

    def node(self, level: int, index: int) -> Digest:
        """Return node `index` of `level`."""
        nodes = self._last if index == get_width(self.count, level) - 1 else self._inner
        return nodes[level]

    def children(self, level: int, index: int) -> tuple[Digest, ...]:
        """Return the nodes that a round opens."""
        down = min(level, 4)
        width = get_width(self.count, level - down)
        last = min((index + 1) << down, width)
        return tuple(self.node(level - down, i) for i in range(index << down, last))

    def proof(self, index: int) -> tuple[Digest, ...]:
        """Return the siblings of a leaf."""
        places = ((level, (index >> level) ^ 1) for level in range(self.height))
        return tuple(self.node(*p) for p in places if p[1] < get_width(self.count, p[0]))


@dataclass
class Paper:
    """A match over commitments to states and tensors that nobody could hold.

    The challenger disputes the last of everything: step, chunk and element.
    """

    referee: Lockstep
    node: Node
    chunks: EvenTree
    last_chunk: bytes

    def __post_init__(self) -> None:
        """Open the job, and begin the match."""
        state = (Slot("s", F32, (1,)),)
        nodes = (source(0, Origin.STATE, F32, (1,)), self.node, sink(0, F32, (1,)))
        program = ProgramTree(Program(state, (), nodes, ("a", "b", "c"), ("",) * 3))
        self.encodings, self.program = program.encodings, program.tree
        output = hash_tensor(encode_header(F32, self.node.shape), self.chunks.top)
        self.after = b"\2" * 32
        self.trace = Tree(Tag.TRACE_NODE, [b"\3" * 32, output, b"\4" * 32, self.after])
        self.history = EvenTree(Tag.HISTORY_NODE, MAX_STEPS + 1, b"\5" * 32, self.after)
        self.client, *self.members = self.referee.chain.accounts[:3]
        header = program.header
        top = (header.operators, 1, 0, header.layout, header.top, b"\5" * 32, bytes(32))
        clocks = (10**18, 4, 4, 200, 2)
        terms = Terms(*top, MAX_STEPS, 1, LeafMode.SCALAR, NOBODY, *clocks)
        self.referee.call("open_job", self.client, terms)
        claims = [self.history.top, b"\6" * 32]
        for member, claim in zip(self.members, claims, strict=True):
            digest = compute_commitment(self.referee.store, 0, member, claim, SALT)
            self.referee.call("commit", member, 0, digest, value_wei=terms.bond_wei)
        self.referee.mine_to(self.referee.store.jobs[0].commit_deadline + 1)
        for member, claim in zip(self.members, claims, strict=True):
            self.referee.call("reveal", member, 0, claim, SALT)
        self.referee.mine_to(self.referee.store.jobs[0].reveal_deadline + 1)
        self.referee.call("start_match", self.client, 0)

    def move(self, name: str, *args: Any) -> Any:
        """Make a move, for the side whose move it is."""
        challenger = name.startswith(("pick", "leaf"))
        position = self.referee.position(0)
        events = self.referee.call(name, self.members[challenger], 0, position, *args)
        return events[-1].args

    @property
    def match(self) -> Any:
        """The match."""
        return self.referee.store.jobs[0].match

    def descend(self, tree: Any, child: int = -1) -> None:
        """Go down a tree to one of the last nodes of each opening."""
        phase = self.match.phase
        while self.match.phase is phase:
            nodes = tuple(tree.children(self.match.level, self.match.index))
            self.move("open", nodes)
            place = child % len(nodes)
            self.move("pick", place, nodes[place], Tree(NODE_TAGS[phase], nodes).proof(place))

    def come_to_leaf(self) -> None:
        """Play down to the last element of the output."""
        self.descend(self.history)
        before = (self.history.node(0, MAX_STEPS - 1), self.history.proof(MAX_STEPS - 1))
        self.move("enter_trace", *before, self.trace.top, self.trace.proof(3))
        self.descend(self.trace, 1)
        self.move("enter_operator", self.encodings[1], self.program.proof(1), self.chunks.top)
        self.descend(self.chunks)
        self.move("open_chunk", self.last_chunk)
        self.move("pick_element", self.last_chunk, len(self.last_chunk) // 4 - 1)

    def decide(self) -> tuple[int, int]:
        """Decide the leaf; return the winner and the ending."""
        ended = self.move("leaf", self.encodings[1], ())
        return ended[2], ended[4]


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
    chunk = bytes(4)
    paper = Paper(referee, node, EvenTree(Tag.TENSOR_NODE, 1, *(hash_chunk(chunk),) * 2), chunk)
    paper.come_to_leaf()
    assert paper.decide() == (0, Ending.SCALAR)


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
