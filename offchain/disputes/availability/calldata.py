"""Reader of demanded data: decodes what a transaction showed of a job from its calldata.

The contract of promises keeps nothing of what it was shown: the transaction has it. Whatever that
contract accepts is read here, however it is encoded: offsets that point anywhere, bytes behind the
end that count as zeros, and calls within other calls, as wallets that are contracts make them. Who
wrote the calldata is a stranger: nothing is believed before it is proven (`mending.py`).
"""

from collections.abc import Iterator
from dataclasses import dataclass

from moot.contracts.model.answers import Subject, encode_subject
from moot.offchain.commitments.keccak import keccak256
from moot.offchain.commitments.tags import CHUNK_BYTES, Tag
from moot.offchain.commitments.tensors import hash_chunk, hash_tensor
from moot.offchain.commitments.tree import Digest, climb, get_height
from moot.offchain.datastore.objects import decode_header
from moot.offchain.errors import CommitmentError
from moot.offchain.programs.limits import MAX_NODE_BYTES, MAX_RANK

MAX_PROOF_NODES = 64
"""More than the proof of any leaf has."""
_MAX_HEADER_BYTES = 2 + 8 * MAX_RANK
_WORD = 32
_SUBJECT = "(address,uint256,uint256,uint256,uint256,uint256,bytes32,bytes32,bytes32)"
_OPERATOR, _CHUNK = (
    keccak256(f"{name}({_SUBJECT},{types})".encode())[:4]
    for name, types in (
        ("show_operator", "uint256,bytes,bytes32[]"),
        ("show_chunk", "uint256,uint256,uint256,bytes,bytes,bytes32[],bytes32[]"),
    )
)
Proof = tuple[Digest, ...]


@dataclass(frozen=True, slots=True)
class ShownOperator:
    """An operator, with its proof against the program."""

    index: int
    encoding: bytes
    proof: Proof

    @property
    def leaf(self) -> Digest:
        """The leaf of the program that it is."""
        return keccak256(bytes([Tag.OPERATOR]) + self.encoding)


@dataclass(frozen=True, slots=True)
class ShownChunk:
    """A chunk, with its proof against a tensor, and the tensor's against start or data."""

    part: int
    index: int
    chunk: int
    header: bytes
    content: bytes
    chunk_proof: Proof
    proof: Proof

    def compute_root(self) -> Digest:
        """Return the root of the tensor that has this chunk; `CommitmentError` if none has."""
        return hash_tensor(self.header, self.compute_top())

    def compute_top(self) -> Digest:
        """Return the node over all chunks of the tensor; `CommitmentError` if there is none."""
        shape = decode_header(self.header)
        size, count = shape.size_bytes, max(shape.chunks, 1)
        if len(self.content) != min(max(size - self.chunk * CHUNK_BYTES, 0), CHUNK_BYTES):
            raise CommitmentError("the chunk has another size")
        where = (self.chunk, count, 0, get_height(count), self.chunk_proof)
        return climb(Tag.TENSOR_NODE, hash_chunk(self.content), *where)


Shown = ShownOperator | ShownChunk


def read_shown(data: bytes, subject: Subject) -> Iterator[Shown]:
    """Yield what the calldata of a transaction shows of a promise's subject, proven or not."""
    words = encode_subject(subject)
    for selector, read in ((_OPERATOR, _read_operator), (_CHUNK, _read_chunk)):
        needle, at = selector + words, -1
        while (at := data.find(needle, at + 1)) >= 0:
            try:
                yield read(_Arguments(data[at + len(selector) :], len(words)))
            except CommitmentError:
                continue


class _Arguments:
    """Takes arguments off a call's calldata, behind whose end everything is zero."""

    def __init__(self, data: bytes, place: int) -> None:
        self._data, self._place = data, place

    def word(self) -> int:
        """Return the next word."""
        self._place += _WORD
        return self._read_word(self._place - _WORD)

    def data(self, most: int) -> bytes:
        """Return bytes, at most so many, to which the next word points."""
        at = self.word()
        return self._read(at + _WORD, self._read_count(at, most))

    def proof(self) -> Proof:
        """Return digests to which the next word points."""
        at = self.word()
        found = self._read(at + _WORD, _WORD * self._read_count(at, MAX_PROOF_NODES))
        return tuple(found[it : it + _WORD] for it in range(0, len(found), _WORD))

    def _read_count(self, at: int, most: int) -> int:
        if (count := self._read_word(at)) > most:
            raise CommitmentError(f"{count:,} of something are above {most:,}")
        return count

    def _read_word(self, at: int) -> int:
        return int.from_bytes(self._read(at, _WORD), "big")

    def _read(self, at: int, count: int) -> bytes:
        return self._data[at : at + count].ljust(count, b"\0")


def _read_operator(args: _Arguments) -> ShownOperator:
    return ShownOperator(args.word(), args.data(MAX_NODE_BYTES), args.proof())


def _read_chunk(args: _Arguments) -> ShownChunk:
    part, index, chunk = args.word(), args.word(), args.word()
    header, content = args.data(_MAX_HEADER_BYTES), args.data(CHUNK_BYTES)
    return ShownChunk(part, index, chunk, header, content, args.proof(), args.proof())
