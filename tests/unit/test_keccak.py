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

from offchain.commitments.keccak import (
    LANES,
    hash_chunks,
    hash_pairs,
    keccak256,
    keccak256_reference,
)
from offchain.execution.kernels.threads import get_threads, set_threads

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
    full = inside.size // chunk_bytes * chunk_bytes
    assert hash_chunks(inside[-full:], chunk_bytes, 0).shape == (full // chunk_bytes, 32)


@pytest.mark.parametrize("position", [0, 255, 256, 1000, 2047, 2048])
def test_every_byte_changes_its_own_digest_and_no_other(position: int) -> None:
    """A flipped bit shows in the digest of the chunk that holds it, and lanes do not mix."""
    data = np.zeros(256 * LANES + 1, np.uint8)
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
