"""Swaps: what stands for something else in this process, for a while."""

import gc
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import lru_cache
from typing import Any

from moot.offchain.commitments import keccak

Swap = tuple[Any, str, Any]
"""An object or a table, the name of what is replaced in it, and what by."""

_REMEMBERED = 1 << 16
"""Hashes that are remembered: positions, tops and nodes come again in game after game."""

_COLLECTED_OBJECTS = 100_000


def swap(place: Any, key: str, value: Any) -> Callable[[], None]:
    """Replace an entry of a table or an attribute; return what puts it back."""
    if isinstance(place, dict):
        old = place[key]
        place[key] = value
        return lambda: place.__setitem__(key, old)
    old = vars(place)[key]
    setattr(place, key, value)
    return lambda: setattr(place, key, old)


@contextmanager
def remembering() -> Iterator[None]:
    """Compute each hash of a message once, as long as this lasts."""
    restore = swap(keccak, "keccak", lru_cache(_REMEMBERED)(vars(keccak)["keccak"]))
    try:
        yield
    finally:
        restore()


@contextmanager
def seldom_collecting() -> Iterator[None]:
    """Look for cycles of objects seldom, as long as this lasts: kept worlds have none."""
    threshold = gc.get_threshold()
    gc.set_threshold(_COLLECTED_OBJECTS)
    try:
        yield
    finally:
        gc.set_threshold(*threshold)
