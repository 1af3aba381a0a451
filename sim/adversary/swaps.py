"""Swaps: what stands for something else in this process, for a while."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import lru_cache
from typing import Any

from moot.offchain.commitments import keccak

Swap = tuple[Any, str, Any]
"""An object or a table, the name of what is replaced in it, and what by."""

_REMEMBERED = 1 << 16
"""Hashes that are remembered: positions, tops and nodes come again in game after game."""


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
