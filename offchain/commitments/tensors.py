"""Commitments to tensors, states, histories and data: what is hashed, and in which order.

    tensor root   keccak(TENSOR_ROOT | dtype u8 | rank u8 | dimensions u64 ... | top of its chunks)
    state root    root over the tensor roots of the state's slots, in the order of the layout
    history root  root over the state roots of all checkpoints: those after every interval
    data root     root over the tensor roots of all batches: slot b of step t is leaf t * B + b

A chunk is 256 bytes of the row-major, little-endian elements (the last may be shorter) under
keccak(CHUNK | bytes). A tensor without elements has the top keccak(CHUNK).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from moot.offchain.arithmetic import bfloat16
from moot.offchain.arithmetic.functions import CANONICAL_NAN, DType
from moot.offchain.commitments.keccak import hash_chunks, hash_subtrees, hash_up, keccak256
from moot.offchain.commitments.keccak_blocks import SUBTREE_LEVELS, Leaves, may_have_nan
from moot.offchain.commitments.keccak_lanes import DIGEST_BYTES
from moot.offchain.commitments.tags import CHUNK_BYTES, Tag
from moot.offchain.commitments.tree import Digest, Tree, hash_root

Array = NDArray[np.generic]
"""A tensor's elements: float32, int64, int32, int8, bool, or uint16, bfloat16 patterns."""

NUMPY_TYPES: Mapping[DType, np.dtype[Any]] = {
    DType.FLOAT32: np.dtype("<f4"),
    DType.INT64: np.dtype("<i8"),
    DType.INT32: np.dtype("<i4"),
    DType.BOOL: np.dtype("?"),
    DType.BFLOAT16: np.dtype("<u2"),
    DType.INT8: np.dtype("i1"),
}
_MAGNITUDE, _INFINITY = np.uint16(0x7FFF), np.uint16(0x7F80)
_FLOATS = frozenset(NUMPY_TYPES[dtype] for dtype in (DType.FLOAT32, DType.BFLOAT16))
_DTYPES = {value: key for key, value in NUMPY_TYPES.items()}

EMPTY_TOP = keccak256(bytes([Tag.CHUNK]))

_KIND = CHUNK_BYTES, Tag.CHUNK, Tag.TENSOR_NODE
"""The size of chunks, and the tags of them and of the nodes above."""

_NONE = np.empty((0, DIGEST_BYTES), np.uint8)
"""The layer of a tensor without elements."""

SUBTREE_BYTES = CHUNK_BYTES << SUBTREE_LEVELS
"""Bytes of a tensor under one node of its layer, 256 KiB; the last node may have fewer."""


def dtype_of(array: Array) -> DType:
    """Return the arithmetic's name of an array's element type; KeyError when it has none."""
    return _DTYPES[array.dtype]


def encode_elements(array: Array) -> NDArray[np.uint8]:
    """Return a tensor's canonical bytes: row-major, little-endian, every NaN the canonical one."""
    flat = np.ascontiguousarray(array).reshape(-1)
    if flat.dtype in _FLOATS and not may_have_nan(flat.view(np.uint8), flat.itemsize):
        return flat.view(np.uint8)
    if flat.dtype == np.float32:
        return _replace(flat, np.isnan(flat), np.array(CANONICAL_NAN, np.uint32))
    if flat.dtype == np.uint16:
        magnitudes = flat.view(np.uint16) & _MAGNITUDE
        return _replace(flat, magnitudes > _INFINITY, np.array(bfloat16.NAN, np.uint16))
    return flat.view(np.uint8)


def _replace(flat: Array, nans: NDArray[np.bool_], nan: NDArray[Any]) -> NDArray[np.uint8]:
    """Return the bytes of elements, of which some are replaced."""
    if nans.any():
        flat = flat.copy()
        flat.view(nan.dtype)[nans] = nan
    return flat.view(np.uint8)


def encode_header(dtype: DType, shape: Sequence[int]) -> bytes:
    """Return what a tensor root binds besides the elements: dtype u8, rank u8, dimensions u64."""
    return bytes([dtype, len(shape)]) + b"".join(size.to_bytes(8, "big") for size in shape)


def hash_tensor(header: bytes, top: Digest) -> Digest:
    """Return the tensor root over a header and the top of its chunks."""
    return keccak256(bytes([Tag.TENSOR_ROOT]) + header + top)


def hash_chunk(chunk: bytes) -> Digest:
    """Return the leaf of one chunk."""
    return keccak256(bytes([Tag.CHUNK]) + chunk)


def get_chunk_count(dtype: DType, elements: int) -> int:
    """Return the number of chunks of a tensor."""
    return -(-elements * dtype.width // CHUNK_BYTES)


class TensorTree:
    """A tensor with all nodes of its tree, ready to be opened."""

    def __init__(self, array: Array) -> None:
        self._bytes = encode_elements(array)
        self.header = encode_header(dtype_of(array), array.shape)
        leaves = hash_chunks(self._bytes, CHUNK_BYTES, Tag.CHUNK)
        self.tree = Tree(Tag.TENSOR_NODE, leaves) if len(leaves) else None

    @property
    def size(self) -> int:
        """The bytes that its elements take."""
        return self._bytes.nbytes

    @property
    def top(self) -> Digest:
        """The node over all chunks."""
        return self.tree.top if self.tree else EMPTY_TOP

    @property
    def root(self) -> Digest:
        """The tensor root."""
        return hash_tensor(self.header, self.top)

    def chunk(self, index: int) -> bytes:
        """Return the bytes of one chunk."""
        return self._bytes[index * CHUNK_BYTES :][:CHUNK_BYTES].tobytes()


@dataclass(frozen=True)
class TensorCommitment:
    """What a tensor's root is made of, and by which its bytes are verified piece by piece.

    Attributes:
        header: type and shape, as `encode_header` has them.
        layer: (n, 32) uint8, the nodes over SUBTREE_BYTES each; none if there are no elements.
    """

    header: bytes
    layer: NDArray[np.uint8]

    @property
    def top(self) -> Digest:
        """The node over all chunks, whatever the header."""
        return hash_up(self.layer, Tag.TENSOR_NODE) if len(self.layer) else EMPTY_TOP

    @cached_property
    def root(self) -> Digest:
        """The tensor root, which binds header and layer."""
        return hash_tensor(self.header, self.top)


def commit_tensor(array: Array) -> TensorCommitment:
    """Return the commitment to a tensor, without keeping its tree."""
    return commit_tensors([array])[0]


def commit_tensors(arrays: Sequence[Array]) -> list[TensorCommitment]:
    """Return the commitments to tensors, which are hashed together."""
    full = [array for array in arrays if array.size]
    layers = iter(hash_subtrees([*map(_find_leaves, full)], *_KIND))
    return [
        TensorCommitment(
            encode_header(dtype_of(array), array.shape), next(layers) if array.size else _NONE
        )
        for array in arrays
    ]


def compute_tensor_root(array: Array) -> Digest:
    """Return the root of a tensor, without keeping its tree."""
    return commit_tensor(array).root


def _find_leaves(array: Array) -> Leaves:
    """Return what is below a tensor's tree."""
    flat = np.ascontiguousarray(array).reshape(-1)

    def encode(part: NDArray[np.uint8]) -> NDArray[np.uint8]:
        return encode_elements(part.view(flat.dtype))

    return Leaves(flat.view(np.uint8), flat.itemsize if flat.dtype in _FLOATS else 0, encode)


def hash_bytes(data: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """Return the nodes of a layer over bytes of a tensor, from a multiple of SUBTREE_BYTES on."""
    return hash_subtrees([Leaves(data)], *_KIND)[0] if data.size else _NONE


def is_canonical(dtype: DType, data: NDArray[np.uint8]) -> bool:
    """Whether bytes of whole elements are canonical: every NaN is the one, booleans are 0 or 1."""
    if dtype is DType.BOOL:
        return not data.size or int(data.max()) <= 1
    if dtype in {DType.FLOAT32, DType.BFLOAT16}:
        encoded = encode_elements(data.view(NUMPY_TYPES[dtype]))
        return np.may_share_memory(encoded, data) or np.array_equal(encoded, data)
    return True


def compute_state_root(tensor_roots: Sequence[Digest]) -> Digest:
    """Return the root of a state, given the roots of its tensors in the order of the layout."""
    return _hash_roots(Tag.STATE_ROOT, Tag.STATE_NODE, tensor_roots)


def compute_history_root(state_roots: Sequence[Digest]) -> Digest:
    """Return the root of a history, given the state roots of all checkpoints."""
    return _hash_roots(Tag.HISTORY_ROOT, Tag.HISTORY_NODE, state_roots)


def compute_data_root(tensor_roots: Sequence[Digest]) -> Digest:
    """Return the root of all batches of a job."""
    return _hash_roots(Tag.DATA_ROOT, Tag.DATA_NODE, tensor_roots)


def _hash_roots(tag: Tag, node_tag: Tag, roots: Sequence[Digest]) -> Digest:
    """Return the root over the roots of parts, without keeping the tree."""
    leaves = np.frombuffer(b"".join(roots), np.uint8).reshape(-1, DIGEST_BYTES)
    return hash_root(tag, len(roots), hash_up(leaves, node_tag))
