"""FastLZ at its first level: the length of what it makes of some bytes, as the OP stack reckons it.

The fee of a transaction's data depends on that length since Fjord (`FlzCompressLen` in
`rollup_cost.go` of op-geth), so that every node has to come to the same, whatever would be better.
"""

_TABLE = 8192
_FARTHEST = 8192
_LONGEST = 262
"""The longest match that one instruction copies."""
_RUN = 32
"""The longest run of literals that one instruction copies."""
_MULTIPLIER = 2654435769
_TAIL = 13
"""Bytes at the end that are copied as they are."""


def count_compressed(data: bytes) -> int:
    """Return the length of some bytes after FastLZ."""
    limit = max(0, len(data) - _TAIL)
    places = [0] * _TABLE
    place, anchor, size = 2, 0, 0
    while place < limit:
        found = -1
        while place < limit and found < 0:
            key, before = _read(data, place), places[_hash(data, place)]
            places[_hash(data, place)] = place
            if place - before < _FARTHEST and key == _read(data, before):
                found = before
            else:
                place += 1
        if found < 0 or place + 1 >= limit:
            break
        size += _count_literals(place - anchor)
        length = _count_equal(data, found + 3, place + 3, limit + 9)
        size += _count_match(length)
        place += length
        for _ in range(2):
            places[_hash(data, place)] = place
            place += 1
        anchor = place
    return size + _count_literals(len(data) - anchor)


def _read(data: bytes, place: int) -> int:
    return int.from_bytes(data[place : place + 3], "little")


def _hash(data: bytes, place: int) -> int:
    return (_read(data, place) * _MULTIPLIER >> 19) % _TABLE


def _count_literals(run: int) -> int:
    """Return what a run of literals takes: a byte for every 32, and the literals."""
    return run + -(-run // _RUN)


def _count_equal(data: bytes, first: int, second: int, end: int) -> int:
    """Return how far two places agree: with the first byte that differs, but not past the end."""
    most = end - second
    for index in range(most):
        if data[first + index] != data[second + index]:
            return index + 1
    return most


def _count_match(length: int) -> int:
    rest = length - 1
    return 3 * (rest // _LONGEST) + (3 if rest % _LONGEST >= 6 else 2)
