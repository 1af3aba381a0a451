"""Repair of a tensor: a place's copy, whose wrong chunks are replaced by proven ones.

The place is not trusted to have the tensor whole, and nothing says which of its chunks are wrong:
its upper nodes tell it of each 256 KiB, and the proof of any chunk of these tells it of halves,
quarters and so on of them. So each chunk that is proven shows where to look on, and of n chunks
with one wrong among them about log2(n) / 2 have to be proven until all are right.

Nothing is read or kept beyond the size that the header says, and the file gets its name only when
all of it is that of the root. Until then it is the partial file of the object (`disk.py`).
"""

from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass
from io import BytesIO

import numpy as np
from numpy.typing import NDArray

from moot.offchain.commitments.keccak import hash_chunks
from moot.offchain.commitments.keccak_blocks import SUBTREE_LEVELS
from moot.offchain.commitments.known import KnownNodes
from moot.offchain.commitments.tags import CHUNK_BYTES, Tag
from moot.offchain.commitments.tensors import (
    SUBTREE_BYTES,
    TensorCommitment,
    hash_bytes,
    hash_chunk,
    hash_tensor,
    is_canonical,
)
from moot.offchain.commitments.tree import Digest, Tree
from moot.offchain.datastore.disk import Disk, Partial
from moot.offchain.datastore.fetch import take
from moot.offchain.datastore.objects import (
    TENSORS,
    TensorShape,
    decode_header,
    encode_prefix,
    name_object,
    read_prefix,
)
from moot.offchain.datastore.places import Place, Stream
from moot.offchain.errors import CommitmentError, StoreUnavailable, WrongContent


@dataclass(frozen=True, slots=True)
class ProvenChunk:
    """A chunk of a tensor that somebody has shown, with its siblings up to the tensor's top."""

    chunk: int
    content: bytes
    proof: Sequence[Digest]


@dataclass(frozen=True, slots=True)
class Wanted:
    """The chunks of a tensor whose proofs would help.

    Attributes:
        chunks: the first of each stretch that is not right; none once the tensor is whole.
        top: the node over all chunks; None where it is not known, and the first chunk is wanted.
    """

    chunks: tuple[int, ...] = ()
    top: Digest | None = None


def mend_tensor(
    place: Place, disk: Disk, root: Digest, header: bytes, shown: Sequence[ProvenChunk]
) -> Wanted:
    """Have as much of a tensor in a folder as can be had, and return what is wanted next.

    Args:
        place: where some of it may be.
        disk: the folder.
        root: the tensor's root.
        header: its type and shape.
        shown: chunks that somebody has shown, right or wrong: each is verified.

    Returns:
        What is wanted; nothing once the tensor is whole and in the folder.

    Raises:
        StoreUnavailable: the place stops in the middle; what has come is kept.
        WrongContent: the tensor is of another type or shape, or its bytes are not canonical.
        StoreError: the disk fails.
    """
    name, shape = name_object(TENSORS, root), decode_header(header)
    with disk.claim(name) as partial:
        if partial is None:
            return Wanted()
        disk.require_room(shape.file_bytes - partial.size, name)
        mend = _Mend(place, name, root, header, shape, partial)
        try:
            wanted = mend.run(shown)
        finally:
            if not partial.size:
                partial.drop()
        if wanted.chunks:
            return wanted
        partial.finish()
    disk.settle(TENSORS, [name])
    return wanted


@dataclass(frozen=True)
class _Mend:
    """A tensor that is put together in its partial file."""

    place: Place
    name: str
    root: Digest
    header: bytes
    shape: TensorShape
    partial: Partial

    def run(self, shown: Sequence[ProvenChunk]) -> Wanted:
        """Put in what is right, and return what is wanted next."""
        count = self.shape.chunks
        if not count:
            return self._finish(np.empty((0, 32), np.uint8))
        known = KnownNodes(Tag.TENSOR_NODE, count, self._is_top)
        right = [it for it in shown if self._learn(known, it)]
        self._salvage(known)
        for it in right:
            self._write(it.content, it.chunk * CHUNK_BYTES)
        found = _FileNodes(self)
        wrong = tuple(index << level for level, index in known.list_wrong(found))
        return Wanted(wrong, known.get(known.height, 0)) if wrong else self._finish(found.layer)

    def read_block(self, block: int) -> bytes:
        """Return what the partial file has of a block of SUBTREE_BYTES, the last of which ends."""
        first = block * SUBTREE_BYTES
        size = min(SUBTREE_BYTES, self.shape.size_bytes - first)
        return self.partial.read(size, self.shape.offset_bytes + first)

    def list_blocks(self) -> range:
        """Return the numbers of all blocks."""
        return range(-(-self.shape.size_bytes // SUBTREE_BYTES))

    def _is_top(self, top: Digest) -> bool:
        return hash_tensor(self.header, top) == self.root

    def _write(self, data: bytes, at: int) -> None:
        """Write elements at a place among them."""
        self.partial.write(data, self.shape.offset_bytes + at)

    def _learn(self, known: KnownNodes, shown: ProvenChunk) -> bool:
        """Learn what proves a chunk; whether it does."""
        size = min(CHUNK_BYTES, self.shape.size_bytes - shown.chunk * CHUNK_BYTES)
        if len(shown.content) != size:
            return False
        try:
            known.learn(hash_chunk(shown.content), shown.chunk, shown.proof)
        except CommitmentError:
            return False
        return True

    def _salvage(self, known: KnownNodes) -> None:
        """Take from the place what the partial file does not have: what is right, or fills a hole.

        What is wrong at the place may be right for the most part.
        """
        has = min(self.place.get_size(self.name) or 0, self.shape.file_bytes)
        self._learn_layer(known, has)
        with closing(_Reader(self.place, self.name)) as reader:
            for block in self.list_blocks():
                at, held = block * SUBTREE_BYTES, self.read_block(block)
                size = min(len(held), has - self.shape.offset_bytes - at)
                if size <= 0:
                    return
                if self._is_known(known, block, held):
                    continue
                data = reader.read(self.shape.offset_bytes + at, size)
                if held.count(0) == len(held) or self._is_known(known, block, data):
                    self._write(data, at)

    def _is_known(self, known: KnownNodes, block: int, data: bytes) -> bool:
        """Whether the bytes of a block are known to be right."""
        node = known.get(min(SUBTREE_LEVELS, known.height), block)
        return node is not None and hash_bytes(np.frombuffer(data, np.uint8))[0].tobytes() == node

    def _learn_layer(self, known: KnownNodes, has: int) -> None:
        """Learn the upper nodes that the partial file has, or that the place has."""
        size = self.shape.offset_bytes
        if self._learn_prefix(known, self.partial.read(size, 0)) or has < size:
            return
        with closing(_Reader(self.place, self.name)) as reader:
            prefix = reader.read(0, size)
        if self._learn_prefix(known, prefix):
            self.partial.write(prefix, 0)

    def _learn_prefix(self, known: KnownNodes, prefix: bytes) -> bool:
        """Learn the upper nodes that stand before the elements; whether they are right."""
        read = BytesIO(prefix).read
        try:
            _, found = read_prefix(read, self.root, self.shape.file_bytes, self.header)
        except CommitmentError:
            return False
        known.learn_level(SUBTREE_LEVELS, [it.tobytes() for it in found.layer])
        return True

    def _finish(self, layer: NDArray[np.uint8]) -> Wanted:
        """Write what stands before the elements, once these are right."""
        commitment = TensorCommitment(self.header, layer)
        if commitment.root != self.root:
            problem = "the tensor of this root is of another type or shape"
            raise WrongContent(self.place.url, self.name, problem)
        for block in self.list_blocks():
            if not is_canonical(self.shape.dtype, np.frombuffer(self.read_block(block), np.uint8)):
                problem = "the tensor of this root has elements that are not canonical"
                raise WrongContent(self.place.url, self.name, problem)
        self.partial.write(encode_prefix(commitment), 0)
        self.partial.cut(self.shape.file_bytes)
        return Wanted()


class _Reader:
    """Reads stretches of an object of a place, in ascending order, of one stream as far as it can.

    Args:
        place: the place.
        name: the object.
    """

    def __init__(self, place: Place, name: str) -> None:
        self._place, self._name = place, name
        self._stream: Stream | None = None
        self._at = 0

    def read(self, at: int, count: int) -> bytes:
        """Return so many bytes from a place on; `StoreUnavailable` where they do not come."""
        if self._stream is None or self._at != at:
            self.close()
            self._stream, self._at = self._place.open(self._name, at), at
        try:
            data = take(self._stream, count)
        except EOFError as error:
            raise StoreUnavailable(self._place.url, self._name, str(error)) from error
        self._at += count
        return data

    def close(self) -> None:
        """End what is being read."""
        if self._stream is not None:
            self._stream.close()


class _FileNodes:
    """The nodes of the tree over the chunks that a partial file has.

    Args:
        mend: whose file it is.

    Attributes:
        layer: those over SUBTREE_BYTES each.
    """

    def __init__(self, mend: _Mend) -> None:
        self._mend = mend
        blocks = (np.frombuffer(mend.read_block(it), np.uint8) for it in mend.list_blocks())
        self.layer = np.concatenate([hash_bytes(it) for it in blocks])
        self._upper = Tree(Tag.TENSOR_NODE, self.layer)
        self._open: tuple[int, Tree] | None = None

    def node(self, level: int, index: int) -> Digest:
        """Return node `index` of `level`."""
        if level >= SUBTREE_LEVELS:
            return self._upper.node(level - SUBTREE_LEVELS, index)
        block, below = divmod(index, 1 << SUBTREE_LEVELS - level)
        if self._open is None or self._open[0] != block:
            data = np.frombuffer(self._mend.read_block(block), np.uint8)
            tree = Tree(Tag.TENSOR_NODE, hash_chunks(data, CHUNK_BYTES, Tag.CHUNK))
            self._open = block, tree
        tree = self._open[1]
        return tree.node(min(level, tree.height), below)
