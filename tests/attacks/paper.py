"""Matches over commitments to histories and tensors that nobody computes, or could hold."""

from dataclasses import dataclass
from typing import Any

from contracts.model.moves import NODE_TAGS
from contracts.model.referee import compute_commitment
from contracts.model.types import MAX_STEPS, NOBODY, Terms
from contracts.reasons import LeafMode
from offchain.arithmetic.functions import DType
from offchain.commitments.tags import Tag
from offchain.commitments.tensors import encode_header, hash_chunk, hash_tensor
from offchain.commitments.tree import Digest, Tree, get_height, get_width, hash_node
from offchain.programs.graph import Node, Origin, Program, Slot
from offchain.programs.roots import ProgramTree
from tests.lockstep.game import SALT
from tests.lockstep.harness import Lockstep
from tests.lockstep.programs import sink, source

F32 = DType.FLOAT32


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
        header = encode_header(self.node.dtype, self.node.shape)
        output = hash_tensor(header, self.chunks.top)
        self.after = b"\2" * 32
        self.trace = Tree(Tag.TRACE_NODE, [b"\3" * 32, output, b"\4" * 32, self.after])
        self.history = EvenTree(Tag.HISTORY_NODE, MAX_STEPS + 1, b"\5" * 32, self.after)
        self.client, *self.members = self.referee.chain.accounts[:3]
        agreed = program.header
        top = (agreed.operators, 1, 0, agreed.layout, agreed.top, b"\5" * 32, bytes(32))
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
        self.move(
            "pick_element", self.last_chunk, len(self.last_chunk) // self.node.dtype.width - 1
        )

    def decide(self) -> tuple[int, int]:
        """Decide the leaf; return the winner and the ending."""
        ended = self.move("leaf", self.encodings[1], ())
        return ended[2], ended[4]


def claim_element(referee: Lockstep, node: Node, bits: int) -> tuple[int, int]:
    """Decide an operator of one element, which is a function of constants; say who wins and why."""
    chunk = bits.to_bytes(node.dtype.width, "little")
    paper = Paper(referee, node, EvenTree(Tag.TENSOR_NODE, 1, *(hash_chunk(chunk),) * 2), chunk)
    paper.come_to_leaf()
    return paper.decide()
