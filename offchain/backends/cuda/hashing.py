"""Commitments on a device: keccak trees over tensors that are there, one thread for each node.

A leaf is keccak-256 of a tag and a chunk, a node that of a tag and two nodes. Both are messages of
whole words behind one byte, so that a thread shifts words past each other, and reads them aligned.
"""

from functools import cache
from typing import Any

import numpy as np
from llvmlite import ir
from numpy.typing import NDArray

from moot.offchain.backends.cuda.kernel import Context, Kernel, word
from moot.offchain.backends.cuda.machine import Machine, Tensor
from moot.offchain.commitments.keccak import keccak256
from moot.offchain.commitments.keccak_lanes import (
    DIGEST_BYTES,
    DIGEST_WORDS,
    RATE_WORDS,
    ROUND_CONSTANTS,
    STATE_WORDS,
    permute_round,
)
from moot.offchain.commitments.tags import CHUNK_BYTES, Tag
from moot.offchain.commitments.tensors import EMPTY_TOP, SUBTREE_BYTES
from moot.offchain.commitments.tree import Digest
from moot.offchain.native.vectors import WORD

_WORD_BYTES, _BYTE_BITS = 8, 8
_LAST_BYTE = 0x80 << 56


class Hasher:
    """The tops of tensors on one machine.

    Args:
        machine: where the tensors are.
    """

    def __init__(self, machine: Machine) -> None:
        self._machine = machine
        self._loaded: dict[Kernel, Any] = {}

    def compute_top(self, tensor: Tensor) -> Digest:
        """Return the node over all chunks of a tensor, as `commitments/tensors.py` defines it.

        Args:
            tensor: what kernels have stored, so that every NaN in it is canonical.
        """
        if not tensor.size:
            return EMPTY_TOP
        level = self._hash_chunks(tensor)
        while level.size > DIGEST_BYTES:
            level = self._climb(level)
        return level.get().tobytes()

    def compute_layer(self, tensor: Tensor) -> NDArray[np.uint8]:
        """Return the nodes over `SUBTREE_BYTES` of a tensor each, (n, 32) bytes, likewise."""
        if not tensor.size:
            return np.empty((0, DIGEST_BYTES), np.uint8)
        level, covered = self._hash_chunks(tensor), CHUNK_BYTES
        while covered < SUBTREE_BYTES and level.size > DIGEST_BYTES:
            level, covered = self._climb(level), 2 * covered
        return level.get().view(np.uint8).reshape(-1, DIGEST_BYTES)

    def _hash_chunks(self, tensor: Tensor) -> Tensor:
        """Return the leaves of a tensor's tree."""
        whole, rest = divmod(tensor.size, CHUNK_BYTES)
        level = self._make_level(whole + (rest > 0))
        if whole:
            self._hash(make_kernel(CHUNK_BYTES, Tag.CHUNK), level, tensor.address, whole)
        if rest:
            chunk = self._machine.download(tensor.address + whole * CHUNK_BYTES, rest)
            digest = keccak256(bytes([Tag.CHUNK]) + chunk)
            self._machine.upload(level.address + whole * DIGEST_BYTES, digest)
        return level

    def _climb(self, level: Tensor) -> Tensor:
        """Return the level above another; an odd last node is its own parent."""
        count = level.size // DIGEST_BYTES
        pairs = count // 2
        above = self._make_level(count - pairs)
        kernel = make_kernel(2 * DIGEST_BYTES, Tag.TENSOR_NODE)
        self._hash(kernel, above, level.address, pairs)
        if count % 2:
            last = self._machine.download(level.address + (count - 1) * DIGEST_BYTES, DIGEST_BYTES)
            self._machine.upload(above.address + pairs * DIGEST_BYTES, last)
        return above

    def _make_level(self, count: int) -> Tensor:
        return Tensor(self._machine, (count, DIGEST_BYTES), "u1")

    def _hash(self, kernel: Kernel, level: Tensor, source: int, count: int) -> None:
        if kernel not in self._loaded:
            self._loaded[kernel] = self._machine.load(kernel)
        blocks = -(-count // kernel.threads)
        self._machine.launch(self._loaded[kernel], blocks, [level.address, source, count])


@cache
def make_kernel(size: int, tag: Tag) -> Kernel:
    """Return the kernel that hashes a tag and `size` bytes, a multiple of 8, for each thread.

    Parameters are the addresses of the digests and of the messages, and their number.
    """

    def phase(context: Context) -> None:
        builder = context.builder
        first = builder.mul(context.block, word(_THREADS))
        number = builder.add(first, context.thread)
        with builder.if_then(builder.icmp_unsigned("<", number, context.parameters[2])):
            source = builder.add(context.parameters[1], builder.mul(number, word(size)))
            digest = _hash_words(context, _list_words(context, source, size, tag))
            offset = builder.mul(number, word(DIGEST_BYTES))
            target = builder.add(context.parameters[0], offset)
            for place, value in enumerate(digest):
                context.store(value, builder.add(target, word(place * _WORD_BYTES)))

    return Kernel(f"keccak_{size}_{int(tag)}", 3, (phase,), _THREADS)


_THREADS = 128


def _list_words(context: Context, source: ir.Value, size: int, tag: Tag) -> list[ir.Value]:
    """Return the words of a padded message: the tag, and so many bytes."""
    builder = context.builder
    read = [
        context.load(WORD, builder.add(source, word(place)))
        for place in range(0, size, _WORD_BYTES)
    ]
    before, words = word(int(tag) << 56), []
    shift, rest = word(_BYTE_BITS), word(64 - _BYTE_BITS)
    for now in read:
        words.append(builder.or_(builder.shl(now, shift), builder.lshr(before, rest)))
        before = now
    words.append(builder.or_(builder.lshr(before, rest), word(0x01 << _BYTE_BITS)))
    words += [word(0)] * (-len(words) % RATE_WORDS)
    words[-1] = builder.or_(words[-1], word(_LAST_BYTE))
    return words


def _hash_words(context: Context, words: list[ir.Value]) -> list[ir.Value]:
    """Return the digest of a message of whole blocks."""
    state: list[ir.Value] = [word(0)] * STATE_WORDS
    operations = _Words(context.builder)
    for start in range(0, len(words), RATE_WORDS):
        for place, value in enumerate(words[start : start + RATE_WORDS]):
            state[place] = operations.xor(state[place], value)
        for constant in ROUND_CONSTANTS:
            state = permute_round(state, word(constant), operations)
    return state[:DIGEST_WORDS]


class _Words:
    """Words as values of LLVM."""

    def __init__(self, builder: ir.IRBuilder) -> None:
        self._builder = builder

    def xor(self, a: ir.Value, b: ir.Value) -> ir.Value:
        return self._builder.xor(a, b)

    def xor_three(self, a: ir.Value, b: ir.Value, c: ir.Value) -> ir.Value:
        return self.xor(self.xor(a, b), c)

    def clear(self, a: ir.Value, b: ir.Value) -> ir.Value:
        return self._builder.and_(b, self._builder.not_(a))

    def rotate(self, a: ir.Value, count: int) -> ir.Value:
        if not count:
            return a
        builder = self._builder
        return builder.or_(builder.shl(a, word(count)), builder.lshr(a, word(64 - count)))
