"""Keccak-256: the vector code against the readable definition and an independent library."""

import ctypes
import mmap
import sys
from collections.abc import Iterator

import numpy as np
import pytest
from Crypto.Hash import keccak as pycryptodome
from hypothesis import example, given, settings
from hypothesis import strategies as st

from moot.offchain.commitments.keccak import (
    Leaves,
    hash_chunks,
    hash_pairs,
    hash_subtrees,
    hash_up,
    keccak256,
)
from moot.offchain.commitments.keccak_blocks import BLOCK_CHUNKS, SUBTREE_LEVELS
from moot.offchain.commitments.keccak_lanes import Bytes, keccak256_reference
from moot.offchain.commitments.tags import CHUNK_BYTES
from moot.offchain.commitments.tensors import TensorTree, compute_tensor_root
from moot.offchain.native.threads import get_threads, set_threads
from tests.quick import share

TAGS = st.integers(0, 255)


def oracle(message: bytes) -> bytes:
    """Keccak-256 by another library."""
    return pycryptodome.new(digest_bits=256, data=message).digest()


@pytest.fixture
def threads() -> Iterator[None]:
    """Put the number of threads back afterwards."""
    before = get_threads()
    yield
    set_threads(before)


def test_empty_message_has_the_published_digest() -> None:
    """The hash is Keccak-256 with its original padding, which differs from SHA3-256."""
    published = "c5d2460186f7233c927e7db2dcc703c0e500b653ca82273b7bfad8045d85a470"
    assert keccak256(b"").hex() == keccak256_reference(b"").hex() == published


@settings(deadline=None)
@given(st.binary(max_size=300))
@example(bytes(135))
@example(bytes(136))
def test_definition_agrees_with_the_oracle(message: bytes) -> None:
    """The readable definition and the single hash are Keccak-256 for every length of message."""
    assert keccak256_reference(message) == keccak256(message) == oracle(message)


@settings(deadline=None)
@given(st.integers(0, 3000), st.integers(1, 700), TAGS, st.integers(0, 2**32 - 1))
@example(0, 1, 0, 0)
@example(270, 135, 1, 0)
@example(17 * 1024, 1024, 255, 0)
@example(17 * 1024 + 1, 1024, 255, 0)
@example(3000, 1, 3, 0)
def test_each_digest_is_the_hash_of_its_tagged_chunk(
    size: int, chunk_bytes: int, tag: int, seed: int
) -> None:
    """Leaf i is keccak256(tag || chunk i) for every size of chunk and every length of the last."""
    data = np.random.default_rng(seed).integers(0, 256, size, np.uint8)
    digests = hash_chunks(data, chunk_bytes, tag)
    chunks = [data[start : start + chunk_bytes] for start in range(0, size, chunk_bytes)]
    assert digests.shape == (len(chunks), 32)
    for digest, chunk in zip(digests, chunks, strict=True):
        assert digest.tobytes() == oracle(bytes([tag]) + chunk.tobytes())


@settings(deadline=None)
@given(st.integers(0, 40), TAGS, st.integers(0, 2**32 - 1))
def test_each_parent_is_the_hash_of_its_tagged_children(count: int, tag: int, seed: int) -> None:
    """Parent i is keccak256(tag || left || right); an odd last node moves up as it is."""
    nodes = np.random.default_rng(seed).integers(0, 256, (count, 32), np.uint8)
    parents = hash_pairs(nodes, tag)
    assert parents.shape == ((count + 1) // 2, 32)
    for i in range(count // 2):
        assert parents[i].tobytes() == oracle(bytes([tag]) + nodes[2 * i : 2 * i + 2].tobytes())
    if count % 2:
        assert parents[-1].tobytes() == nodes[-1].tobytes()


def hash_one(leaves: Leaves, chunk_bytes: int, tag: int, node_tag: int) -> Bytes:
    """Return the level of one tree that `hash_subtrees` returns."""
    (level,) = hash_subtrees([leaves], chunk_bytes, tag, node_tag)
    return level


def climb(data: Bytes, chunk_bytes: int, tag: int, node_tag: int) -> Bytes:
    """Return the level of a tree that `hash_subtrees` promises, level by level."""
    nodes = hash_chunks(data, chunk_bytes, tag)
    for _ in range(SUBTREE_LEVELS):
        nodes = hash_pairs(nodes, node_tag)
    return nodes


@settings(deadline=None, max_examples=share(30))
@given(st.integers(1, 3000), st.integers(0, 3), st.integers(1, 70), TAGS, TAGS)
@example(1024, 0, 64, 1, 2)
@example(1025, 1, 64, 1, 2)
@example(2049, 0, 1, 1, 2)
@example(3, 0, 64, 1, 2)
def test_subtrees_are_levels_of_the_tree(
    chunks: int, missing: int, chunk_bytes: int, tag: int, node_tag: int
) -> None:
    """Hashing in the cache gives the nodes that climbing level by level gives."""
    size = max(1, chunks * chunk_bytes - missing)
    data = np.random.default_rng(size).integers(0, 256, size, np.uint8)
    found = hash_one(Leaves(data), chunk_bytes, tag, node_tag)
    assert np.array_equal(found, climb(data, chunk_bytes, tag, node_tag))


@settings(deadline=None, max_examples=share(30))
@given(st.lists(st.integers(1, 1 << 19), max_size=12), st.integers(0, 2**32 - 1))
@example([1 << 18] * 9, 0)
@example([1 << 20, 1, 256, 257, (1 << 18) + 256], 0)
def test_trees_that_are_hashed_together_are_as_if_alone(sizes: list[int], seed: int) -> None:
    """Each of many trees has the level of its own leaves, NaNs among them or not."""
    rng = np.random.default_rng(seed)
    many = [rng.integers(0, 256, size // 4 * 4 or 3, np.uint8) for size in sizes]
    width = [4 if data.size % 4 == 0 and rng.integers(2) else 0 for data in many]
    canonical = [data.copy() for data in many]
    for data, size in zip(canonical, width, strict=True):
        if size:
            floats = data.view("<f4")
            floats.view("<u4")[np.isnan(floats)] = 0x7FC00000

    def encode(part: Bytes) -> Bytes:
        floats = part.view("<f4").copy()
        floats.view("<u4")[np.isnan(floats)] = 0x7FC00000
        return floats.view(np.uint8)

    leaves = [Leaves(data, size, encode) for data, size in zip(many, width, strict=True)]
    found = hash_subtrees(leaves, CHUNK_BYTES, 1, 2)
    for level, data in zip(found, canonical, strict=True):
        assert np.array_equal(level, climb(data, CHUNK_BYTES, 1, 2))


@settings(deadline=None, max_examples=share(30))
@given(st.integers(1, 5000), TAGS)
@example(1, 0)
@example(BLOCK_CHUNKS, 1)
@example(BLOCK_CHUNKS + 1, 1)
@example(4 * BLOCK_CHUNKS - 1, 1)
def test_the_node_above_all_is_that_of_a_climb(count: int, tag: int) -> None:
    """The top of so many nodes is what pairs lead to, level by level."""
    nodes = np.random.default_rng(count).integers(0, 256, (count, 32), np.uint8)
    level = nodes
    while len(level) > 1:
        level = hash_pairs(level, tag)
    assert hash_up(nodes, tag) == level[0].tobytes()


@pytest.mark.parametrize("chunk_bytes", [64, 100, 256])
@pytest.mark.parametrize("odd", [None, 0, 70, -1])
def test_repeated_chunks_are_hashed_as_others_are(chunk_bytes: int, odd: int | None) -> None:
    """Blocks of one chunk over and over have the nodes of a climb, and so if one byte differs."""
    chunk = np.random.default_rng(chunk_bytes).integers(0, 256, chunk_bytes, np.uint8)
    data = np.tile(chunk, 3 * BLOCK_CHUNKS + 5)
    repeated = hash_one(Leaves(data), chunk_bytes, 1, 2)
    assert np.array_equal(repeated, climb(data, chunk_bytes, 1, 2))
    assert np.array_equal(repeated[0], repeated[2])
    if odd is not None:
        place = 2 * BLOCK_CHUNKS * chunk_bytes
        data[place - 1 if odd < 0 else odd] ^= 1
        found = hash_one(Leaves(data), chunk_bytes, 1, 2)
        assert np.array_equal(found, climb(data, chunk_bytes, 1, 2))
        assert [*(found == repeated).all(1)] == [odd < 0, odd >= 0, True, True]


def test_a_nan_in_repeated_chunks_is_encoded() -> None:
    """A block that is one NaN over and over is hashed as the canonical ones."""
    data = np.full(64 * BLOCK_CHUNKS, 0xFFC01234, "<u4").view(np.uint8)
    canonical = np.full(64 * BLOCK_CHUNKS, 0x7FC00000, "<u4").view(np.uint8)
    found = hash_one(Leaves(data, 4, lambda _: canonical), 256, 1, 2)
    assert np.array_equal(found, climb(canonical, 256, 1, 2))


@pytest.mark.parametrize("dtype", ["<f4", "<u2"])
@pytest.mark.parametrize("size", [4, 64, 256 * 1024, 256 * 3000, 256 * 2048 + 100])
def test_only_floats_among_which_is_a_nan_are_encoded(dtype: str, size: int) -> None:
    """A part with a NaN, wherever it is, is hashed as it is encoded; the data stays as it is."""
    rng = np.random.default_rng(size)
    floats = (rng.standard_normal(size // 4).astype("<f4").view("<u4") & 0xBFFFBFFF).view(dtype)
    nans = {"<f4": (0x7F800001, 0xFFC01234, 0x7FC00000), "<u2": (0x7F81, 0xFFC1, 0x7FC0)}[dtype]
    infinity = {"<f4": 0xFF800000, "<u2": 0xFF80}[dtype]
    unsigned = floats.view(f"<u{floats.itemsize}")
    unsigned[::7] = infinity  # which is no NaN
    data, width, part = unsigned.view(np.uint8), floats.itemsize, 256 * BLOCK_CHUNKS

    def refuse(data: Bytes) -> Bytes:
        raise AssertionError(data)

    def invert(data: Bytes) -> Bytes:
        return data ^ np.uint8(255)

    found = hash_one(Leaves(data, width, refuse), 256, 1, 2)
    assert np.array_equal(found, climb(data, 256, 1, 2))
    for place in (0, floats.size // 2, floats.size - 1):
        for nan in nans:
            before, unsigned[place] = unsigned[place], nan
            wanted, whole = data.copy(), data.copy()
            start = place * width // part * part
            wanted[start : start + part] ^= 255
            found = hash_one(Leaves(data, width, invert), 256, 1, 2)
            assert np.array_equal(found, climb(wanted, 256, 1, 2))
            assert np.array_equal(data, whole)
            assert np.array_equal(hash_one(Leaves(data), 256, 1, 2), climb(data, 256, 1, 2))
            unsigned[place] = before


@pytest.mark.parametrize("elements", [0, 1, 63, 64, 65, 64 * 1024, 64 * 1024 * 3 + 17])
def test_a_root_needs_no_tree(elements: int) -> None:
    """A tensor's root is that of its tree, whatever its size and wherever it has a NaN."""
    array = np.random.default_rng(elements).standard_normal(elements).astype(np.float32)
    assert compute_tensor_root(array) == TensorTree(array).root
    for place in {0, elements // 2, elements - 1} if elements else ():
        odd = array.copy()
        odd.view(np.uint32)[place] = 0xFFC01234
        canonical = array.copy()
        canonical.view(np.uint32)[place] = 0x7FC00000
        assert compute_tensor_root(odd) == TensorTree(canonical).root
        assert compute_tensor_root(odd) != compute_tensor_root(array)


@pytest.mark.parametrize("dtype", [np.int64, np.int32, np.bool_])
def test_roots_of_other_types_need_no_tree(dtype: type[np.generic]) -> None:
    """Integers and truth values have the roots of their trees, from any layout of memory."""
    array = np.random.default_rng(1).integers(0, 2, (300, 77)).astype(dtype)
    for view in (array, array.T, array[::2], array[5:6, 3]):
        assert compute_tensor_root(view) == TensorTree(view).root
    assert compute_tensor_root(array) != compute_tensor_root(array.T)


def test_read_only_data_is_hashed_and_left_alone() -> None:
    """Data may be a view of immutable bytes, and nothing writes to it."""
    data = np.frombuffer(bytes(range(200)), np.uint8)
    assert hash_chunks(data, 200, 9)[0].tobytes() == oracle(b"\x09" + bytes(range(200)))
    assert data.tobytes() == bytes(range(200))


@pytest.mark.skipif(sys.platform != "linux", reason="asks the C library of Linux for guard pages")
@pytest.mark.parametrize("chunk_bytes", [64, 256, 1000])
def test_nothing_outside_the_data_is_read(chunk_bytes: int) -> None:
    """Data may begin and end at pages that must not be touched: no block is loaded beyond it."""
    page = mmap.PAGESIZE
    memory = np.frombuffer(mmap.mmap(-1, 6 * page), np.uint8)
    protect = ctypes.CDLL(None, use_errno=True).mprotect
    for guard in (0, 5 * page):
        address = ctypes.c_void_p(memory.ctypes.data + guard)
        assert protect(address, ctypes.c_size_t(page), 0) == 0
    inside = memory[page : 5 * page]
    count = -(-inside.size // chunk_bytes)
    assert hash_chunks(inside, chunk_bytes, 0).shape == (count, 32)
    assert np.array_equal(
        hash_one(Leaves(inside), chunk_bytes, 0, 1), climb(inside, chunk_bytes, 0, 1)
    )
    full = inside.size // chunk_bytes * chunk_bytes
    assert hash_chunks(inside[-full:], chunk_bytes, 0).shape == (full // chunk_bytes, 32)


@pytest.mark.parametrize("position", [0, 255, 256, 1000, 2047, 2048])
def test_every_byte_changes_its_own_digest_and_no_other(position: int) -> None:
    """A flipped bit shows in the digest of the chunk that holds it, and lanes do not mix."""
    data = np.zeros(256 * 8 + 1, np.uint8)
    before = hash_chunks(data, 256, 0)
    data[position] ^= 1
    changed = (hash_chunks(data, 256, 0) != before).any(axis=1)
    assert changed.nonzero()[0].tolist() == [position // 256]


@pytest.mark.usefixtures("threads")
def test_threads_do_not_change_digests() -> None:
    """Any number of threads gives the same digests."""
    data = np.random.default_rng(0).integers(0, 256, 3_000_001, np.uint8)
    set_threads(1)
    expected = hash_chunks(data, 256, 5)
    for count in (2, 3):
        set_threads(count)
        assert np.array_equal(hash_chunks(data, 256, 5), expected)
        found = hash_one(Leaves(data), CHUNK_BYTES, 5, 6)
        assert np.array_equal(found, climb(data, CHUNK_BYTES, 5, 6))


@pytest.mark.parametrize("tag", [-1, 256])
def test_tag_has_to_be_a_byte(tag: int) -> None:
    """A tag that is no byte is refused instead of being cut to one."""
    with pytest.raises(OverflowError):
        hash_chunks(np.zeros(4, np.uint8), 4, tag)


@pytest.mark.parametrize("data", [np.zeros(8, np.uint8)[::2], np.zeros(4, np.int8)])
def test_other_arrays_are_refused(data: np.ndarray[tuple[int], np.dtype[np.uint8]]) -> None:
    """Strided or signed arrays have no bytes to hash as they lie in memory."""
    with pytest.raises(TypeError):
        hash_chunks(data, 4, 0)
