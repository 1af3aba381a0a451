"""The commitment to a step's rounding log: a tree with a leaf for each operator of the program.

A leaf is keccak(LOG_ENTRIES | encoding of the operator's entries), so that one proof shows which
entries an operator has, or that it has none. The root, keccak(LOG_ROOT | operators | top of the
tree), is the content of one more slot of the step's batch: so a job's terms bind the log of every
step as they bind its data, and no operator reads it.
"""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from moot.offchain.arithmetic.functions import DType
from moot.offchain.commitments.keccak import keccak256
from moot.offchain.commitments.tags import Tag
from moot.offchain.commitments.tensors import NUMPY_TYPES, Array
from moot.offchain.commitments.tree import Digest, Tree, climb, get_height, hash_root
from moot.offchain.programs.graph import Operand, Origin, Program, Row, Slot
from moot.offchain.programs.rounding.entries import StepLog, encode_entries

SLOT = Slot("rounding log", DType.INT32, (8,))
"""The slot of a batch whose content is the root of the step's log, as eight little-endian words."""


def add_slot(program: Program) -> Program:
    """Return a program whose batches have the slot, as their last."""
    return replace(program, batch=(*program.batch, SLOT))


def has_slot(program: Program) -> bool:
    """Whether batches of a program have the slot."""
    return program.batch[-1:] == (SLOT,)


def get_slot_operand(batch_slots: int) -> Operand:
    """Return an operand that would read the slot, the last of so many of a batch."""
    rows = tuple(Row(size) for size in SLOT.shape)
    return Operand(Origin.BATCH, SLOT.dtype, batch_slots - 1, rows=rows)


class LogTree:
    """The commitment to a step's log, with all nodes of its tree."""

    def __init__(self, log: StepLog, operators: int) -> None:
        self._log = log
        self.tree = Tree(
            Tag.LOG_NODE,
            [_hash_entries(encode_entries(log.operators.get(i, ()))) for i in range(operators)],
        )

    @property
    def root(self) -> Digest:
        """The root of the log."""
        return hash_root(Tag.LOG_ROOT, self.tree.count, self.tree.top)

    @property
    def content(self) -> Array:
        """The content of the slot."""
        return get_content(self.root)

    def open(self, operator: int) -> tuple[bytes, tuple[Digest, ...]]:
        """Return the encoding of an operator's entries, and its proof."""
        encoding = encode_entries(self._log.operators.get(operator, ()))
        return encoding, tuple(self.tree.proof(operator))


def get_content(root: Digest) -> Array:
    """Return the content of the slot, given the root of a log."""
    return np.frombuffer(root, NUMPY_TYPES[SLOT.dtype])


def climb_log(encoding: bytes, operator: int, operators: int, proof: Sequence[Digest]) -> Array:
    """Return the content of the slot to which a proof of an operator's entries leads.

    Raises:
        CommitmentError: the proof has the wrong length.
    """
    leaf = _hash_entries(encoding)
    top = climb(Tag.LOG_NODE, leaf, operator, operators, 0, get_height(operators), proof)
    return get_content(hash_root(Tag.LOG_ROOT, operators, top))


def _hash_entries(encoding: bytes) -> Digest:
    return keccak256(bytes([Tag.LOG_ENTRIES]) + encoding)
