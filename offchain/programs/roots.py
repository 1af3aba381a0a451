"""The program root: one hash that binds the graph, the layout of the state and the arithmetic.

keccak(PROGRAM_ROOT | arithmetic name and version | operators u32 | state slots u32
| batch slots u32 | layout digest | top of the tree over keccak(OPERATOR | encoding)).

The layout digest, keccak(LAYOUT | layout | arithmetic name and version, unless `ordered` 1), binds
the arithmetic in a job's terms, too, which do not hold the program root.
"""

from dataclasses import dataclass
from functools import cached_property

from moot.offchain.arithmetic.base import Arithmetic
from moot.offchain.commitments.keccak import keccak256
from moot.offchain.commitments.tags import Tag
from moot.offchain.commitments.tree import Digest, Tree
from moot.offchain.programs.encoding import encode_layout, encode_name, encode_node
from moot.offchain.programs.graph import Program


@dataclass(frozen=True, slots=True)
class ProgramHeader:
    """What a job says about its program, and the arithmetic, which the referee's contracts fix."""

    arithmetic: Arithmetic
    operators: int
    state_slots: int
    batch_slots: int
    layout: Digest
    top: Digest

    @property
    def root(self) -> Digest:
        """The program root."""
        counts = (self.operators, self.state_slots, self.batch_slots)
        return keccak256(
            bytes([Tag.PROGRAM_ROOT])
            + keccak256(str(self.arithmetic).encode())[:4]
            + b"".join(count.to_bytes(4, "big") for count in counts)
            + self.layout
            + self.top
        )


def hash_layout(layout: bytes, arithmetic: Arithmetic) -> Digest:
    """Return the digest of a layout's encoding, which binds an arithmetic, too."""
    return keccak256(bytes([Tag.LAYOUT]) + layout + encode_name(arithmetic))


class ProgramTree:
    """A program's commitment with all nodes of its tree, ready to be opened."""

    def __init__(self, program: Program) -> None:
        self.program = program
        self.encodings = tuple(encode_node(node) for node in program.nodes)

    @cached_property
    def tree(self) -> Tree:
        """The tree over the operators' encodings."""
        leaves = [keccak256(bytes([Tag.OPERATOR]) + piece) for piece in self.encodings]
        return Tree(Tag.PROGRAM_NODE, leaves)

    @cached_property
    def header(self) -> ProgramHeader:
        """The commitment's parts."""
        arithmetic = self.program.arithmetic
        return ProgramHeader(
            arithmetic=arithmetic,
            operators=len(self.program.nodes),
            state_slots=len(self.program.state),
            batch_slots=len(self.program.batch),
            layout=hash_layout(encode_layout(self.program), arithmetic),
            top=self.tree.top,
        )
