"""Hashing: the commitment to one large tensor, its chunks and its tree."""

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from moot.bench.timing import measure, using_threads
from moot.offchain.commitments.keccak import hash_subtrees, hash_up
from moot.offchain.commitments.keccak_blocks import Leaves
from moot.offchain.commitments.tags import CHUNK_BYTES, Tag

_BYTES = 1 << 28
_TINY_BYTES = 1 << 16
_COMMON_CHUNK_BYTES = 1024


def measure_hashing(
    threads: Sequence[int], repeats: int, *, is_tiny: bool
) -> Iterator[dict[str, Any]]:
    """Yield {name, threads, gb_per_s} for the commitments' own chunks, and for those of 1 KiB."""
    size = _TINY_BYTES if is_tiny else _BYTES
    floats = np.random.default_rng(0).standard_normal(size // 4, np.float32)
    data = floats.view(np.uint8)
    for chunk_bytes in (CHUNK_BYTES, _COMMON_CHUNK_BYTES):

        def commit(chunk_bytes: int = chunk_bytes) -> bytes:
            kind = chunk_bytes, Tag.CHUNK, Tag.TENSOR_NODE
            (nodes,) = hash_subtrees([Leaves(data, 4)], *kind)
            return hash_up(nodes, Tag.TENSOR_NODE)

        use = " (the commitments')" if chunk_bytes == CHUNK_BYTES else ""
        commit()
        for count in threads:
            with using_threads(count):
                (seconds,) = measure([commit], repeats)
            yield {
                "name": f"keccak-256, tree over chunks of {chunk_bytes:,} bytes{use}",
                "threads": count,
                "gb_per_s": size / seconds / 1e9,
            }
