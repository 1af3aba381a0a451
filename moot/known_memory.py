"""The memory that the steps of examples took when they were run before on this machine.

Whoever knows it before the example is loaded can have it touched meanwhile; nothing else depends on
it. What a damaged or foreign file says is at most memory that was touched in vain.
"""

import hashlib

from moot.offchain.cache import Cache

_needs = Cache("needs", b"moot memory of a step 1\n", most=256)


def recall_need(example: str) -> int:
    """Return the bytes that a step of an example took the last time; 0 if that is not known.

    Args:
        example: its name and all that it was asked for with.
    """
    content = _needs.read(_name(example)) or b""
    return int(content) if content.isdigit() else 0


def keep_need(example: str, size: int) -> None:
    """Keep the bytes that a step of an example takes."""
    if recall_need(example) != size:
        _needs.write(_name(example), b"%d" % size)


def _name(example: str) -> str:
    return hashlib.sha256(example.encode()).hexdigest()
