"""Vectors of the commitments: the hash, and the roots of tensors, trees and lists of roots."""

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from moot.offchain.commitments.keccak import keccak256
from moot.offchain.commitments.tags import Tag
from moot.offchain.commitments.tensors import (
    Array,
    compute_data_root,
    compute_history_root,
    compute_state_root,
    compute_tensor_root,
    encode_elements,
)
from moot.offchain.commitments.tree import Digest, Tree
from tests.vectors.files import Document, make_document
from tests.vectors.notation import write_tensor
from tests.vectors.tensors import BOOL, FLOAT32, INT32, INT64, draw

Cases = Iterator[dict[str, Any]]

_LENGTHS = (0, 1, 31, 32, 64, 135, 136, 137, 272)
"""Bytes of a message: around the hash's blocks of 136."""

_COUNTS = (1, 2, 3, 4, 5, 7, 8, 13)
"""Leaves of a tree: complete, with one promoted node, with several."""

_SHAPES = ((), (1,), (63,), (8, 8), (65,), (0,), (3, 0, 2), (2, 3, 64), (5, 64), (7, 91))
"""Shapes of FLOAT32 tensors: around one chunk of 64 elements, several chunks, none."""

ROOTS: dict[str, Callable[[Sequence[Digest]], Digest]] = {
    "state": compute_state_root,
    "history": compute_history_root,
    "data": compute_data_root,
}
TREES = (Tag.TENSOR_NODE, Tag.INTERVAL_NODE, Tag.TRACE_NODE, Tag.PROGRAM_NODE)


def make_case(what: str, name: str, given: Any, expect: Any) -> dict[str, Any]:
    """Return a vector of one kind of commitment."""
    return {"name": f"{what}: {name}", "given": {"what": what, **given}, "expect": expect}


def hashes() -> Cases:
    """Yield hashes of messages."""
    for length in _LENGTHS:
        message = bytes(i * 7 % 256 for i in range(length))
        digest = {"digest": keccak256(message).hex()}
        yield make_case("keccak256", f"{length} bytes", {"message": message.hex()}, digest)


def tensors() -> Cases:
    """Yield tensor roots of every type, of zero, one and several chunks, and of foreign NaNs."""
    arrays = {f"float32 {shape}": draw(f"tensor {shape}", FLOAT32, *shape) for shape in _SHAPES}
    for dtype, sizes in ((INT64, (32, 33)), (INT32, (64, 65)), (BOOL, (256, 257))):
        for size in sizes:
            name = f"{dtype.name.lower()} ({size},)"
            arrays[name] = draw(name, dtype, size, below=1 << 8 * dtype.width)
    arrays["all zero"] = np.zeros((3, 100), np.float32)
    nans = [0x7FC00000, 0x7FC00001, 0xFFC00000, 0x7F800001, 0x80000000, 0]
    arrays["every NaN is committed as one"] = np.array(nans, "<u4").view("<f4")
    for name, array in arrays.items():
        canonical = {"bytes": encode_elements(array).tobytes().hex()} if "NaN" in name else {}
        root = {"root": compute_tensor_root(array).hex()}
        yield make_case("tensor", name, {"tensor": write_tensor(array)}, canonical | root)


def leaves_of(name: str, count: int) -> list[Digest]:
    """Return some digests."""
    return [keccak256(f"{name} {index}".encode()) for index in range(count)]


def trees() -> Cases:
    """Yield the tops of trees of different tags, with the proofs of their last leaves."""
    for tag in TREES:
        for count in _COUNTS if tag is Tag.TRACE_NODE else (1, 6):
            leaves = leaves_of(tag.name, count)
            tree = Tree(tag, leaves)
            given: dict[str, Any] = {"tag": tag, "leaves": [leaf.hex() for leaf in leaves]}
            proof = [node.hex() for node in tree.proof(count - 1)]
            expect: dict[str, Any] = {"top": tree.top.hex(), "proof_of_last": proof}
            yield make_case("tree", f"{count} leaves under {tag.name.lower()}", given, expect)


def roots() -> Cases:
    """Yield the roots that bind the number of their leaves, and the digests of folds."""
    for what, compute in ROOTS.items():
        for count in (1, 3, 4):
            leaves = leaves_of(what, count)
            given = {"roots": [leaf.hex() for leaf in leaves]}
            yield make_case(what, f"{count} roots", given, {"root": compute(leaves).hex()})
    for count in (1, 3, 64):
        values: Array = draw("fold", FLOAT32, count)
        digest = keccak256(bytes([Tag.FOLD]) + values.tobytes()).hex()
        name = f"{count} accumulators"
        yield make_case("fold", name, {"values": values.tobytes().hex()}, {"digest": digest})


def make_commitments() -> Document:
    """Return the vectors of all commitments."""
    groups = (hashes, tensors, trees, roots)
    return make_document([case for group in groups for case in group()])
