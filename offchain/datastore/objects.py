"""The objects of a data store, as bytes: what a file holds that is named by its root.

    tensors/<tensor root>      a first line | header | layer | canonical elements
    states/<state root>        the roots of the state's tensors, in the order of the layout
    batches/<data root>        the roots of all batches' tensors: step * slots + slot
    histories/<history root>   the roots of the states at all checkpoints
    programs/<program root>    the program's file form (`offchain/programs/encoding.py`)
    datasets/<dataset root>    the roots of a dataset's tensors; the root is that of a state of them
    rules/<data root>          how the batches of a job are made of a dataset (`rules.py`)
    logs/<digest>              a step's rounding log (`offchain/programs/rounding/entries.py`);
                               keccak(program root | step u64 | log root)
    evidence/<digest>          what proves the operands of an operator that is disputed
                               (`offchain/disputes/evidence/handover.py` says whose digest it is)
    trainings/<digest>         what a trainer claims of a training (`offchain/training/claim.py`)

A tensor's header and layer (docs/reference/commitments.md) lead up to its root. Whoever has
verified these few bytes knows the size of all others, and verifies each 256 KiB of them on its own.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from math import prod

import numpy as np

from moot.offchain.arithmetic.functions import DType
from moot.offchain.commitments.keccak_lanes import DIGEST_BYTES
from moot.offchain.commitments.tags import Tag
from moot.offchain.commitments.tensors import (
    SUBTREE_BYTES,
    TensorCommitment,
    compute_data_root,
    compute_history_root,
    compute_state_root,
    get_chunk_count,
)
from moot.offchain.commitments.tree import Digest, hash_root
from moot.offchain.datastore.names import KINDS
from moot.offchain.errors import CommitmentError
from moot.offchain.programs.limits import MAX_RANK

TENSORS, STATES, BATCHES, HISTORIES, DATASETS, RULES, *_OTHERS = KINDS
PROGRAMS, LOGS, EVIDENCE, TRAININGS = _OTHERS

HASH_ROOTS: Mapping[str, Callable[[list[Digest]], Digest]] = {
    STATES: compute_state_root,
    BATCHES: compute_data_root,
    HISTORIES: compute_history_root,
    DATASETS: compute_state_root,
}
"""The objects that are lists of roots, and what their own root is."""

MAGIC = b"moot tensor 1\n"
_DIMENSION_BYTES = 8
_TYPE_BYTES = 2
HEAD_BYTES = len(MAGIC) + _TYPE_BYTES
"""What says how long the rest of the header is: the first line, the type, and the rank."""

Read = Callable[[int], bytes]
"""Returns the next so many bytes; it raises when there are fewer."""


def name_object(kind: str, root: Digest) -> str:
    """Return the name of an object."""
    return f"{kind}/{root.hex()}"


@dataclass(frozen=True, slots=True)
class TensorShape:
    """The type and the shape that a header encodes."""

    dtype: DType
    shape: tuple[int, ...]

    @property
    def size_bytes(self) -> int:
        """The bytes of the elements."""
        return prod(self.shape) * self.dtype.width

    @property
    def chunks(self) -> int:
        """The chunks of the elements."""
        return get_chunk_count(self.dtype, prod(self.shape))

    @property
    def offset_bytes(self) -> int:
        """The bytes of a file before the elements."""
        nodes = -(-self.size_bytes // SUBTREE_BYTES)
        return HEAD_BYTES + _DIMENSION_BYTES * len(self.shape) + DIGEST_BYTES * nodes

    @property
    def file_bytes(self) -> int:
        """The bytes of the whole file."""
        return self.offset_bytes + self.size_bytes


def encode_prefix(commitment: TensorCommitment) -> bytes:
    """Return what a tensor's file has before the elements."""
    return MAGIC + commitment.header + commitment.layer.tobytes()


def decode_header(header: bytes) -> TensorShape:
    """Return the type and the shape that a tensor's header says.

    Raises:
        CommitmentError: it is none.
    """
    if len(header) < _TYPE_BYTES:
        raise CommitmentError("its header ends early")
    dtype, rank, rest = header[0], header[1], header[2:]
    try:
        known = DType(dtype)
    except ValueError as error:
        raise CommitmentError(f"it has the unknown type {dtype}") from error
    if rank > MAX_RANK or len(rest) != _DIMENSION_BYTES * rank:
        raise CommitmentError(f"it has {rank} dimensions, above {MAX_RANK}")
    sizes = (rest[at : at + _DIMENSION_BYTES] for at in range(0, len(rest), _DIMENSION_BYTES))
    return TensorShape(known, tuple(int.from_bytes(size, "big") for size in sizes))


def read_prefix(
    read: Read, root: Digest, most_bytes: int, header: bytes | None = None
) -> tuple[TensorShape, TensorCommitment]:
    """Read what a tensor's file has before the elements, and verify it against the root.

    Args:
        read: reads on.
        root: the tensor's root.
        most_bytes: the largest file that is wanted; nothing is read that a larger one has.
        header: the tensor's header, where it is known.

    Raises:
        CommitmentError: it is not that of the root, or the tensor is too large.
    """
    head = read(HEAD_BYTES)
    if not head.startswith(MAGIC):
        raise CommitmentError("it does not begin as a tensor does")
    rank = head[-1]
    if rank > MAX_RANK:
        raise CommitmentError(f"it has {rank} dimensions, above {MAX_RANK}")
    found = head[len(MAGIC) :] + read(_DIMENSION_BYTES * rank)
    shape = decode_header(found)
    if header is not None and found != header:
        wanted = decode_header(header)
        raise CommitmentError(f"it is {_describe(shape)}, and {_describe(wanted)} is wanted")
    if shape.file_bytes > most_bytes:
        raise CommitmentError(f"it declares {shape.file_bytes:,} bytes, above {most_bytes:,}")
    layer = read(shape.offset_bytes - HEAD_BYTES - _DIMENSION_BYTES * rank)
    nodes = np.frombuffer(layer, np.uint8).reshape(-1, DIGEST_BYTES)
    commitment = TensorCommitment(found, nodes)
    if commitment.root != root:
        raise CommitmentError("its type, shape and upper nodes have another root")
    return shape, commitment


def _describe(shape: TensorShape) -> str:
    return f"{shape.dtype.name.lower()} {shape.shape}"


def split_roots(kind: str, data: bytes, root: Digest) -> list[Digest]:
    """Return the roots in an object that is a list of them.

    Raises:
        CommitmentError: it is another list.
    """
    if not data or len(data) % DIGEST_BYTES:
        raise CommitmentError(f"its {len(data):,} bytes are no list of roots")
    roots = [data[at : at + DIGEST_BYTES] for at in range(0, len(data), DIGEST_BYTES)]
    if HASH_ROOTS[kind](roots) != root:
        raise CommitmentError("the roots in it have another root")
    return roots


def compute_batches_root(count: int, top: Digest) -> Digest:
    """Return the data root of a job's terms, which have its top alone."""
    return hash_root(Tag.DATA_ROOT, count, top)
