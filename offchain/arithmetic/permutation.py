"""Permutations of rows by Philox, an own one for each epoch, of which every place is had at once.

A row's number is written with two digits of base `side`, the least whose square has room for all
rows. Each round moves the right digit to the left, and adds to the other one what Philox makes of
it (a Feistel network, after Black and Rogaway, CT-RSA 2002). That permutes all numbers of two
digits; a number that is no row is permuted again, until it is one.
"""

from math import isqrt

from moot.offchain.arithmetic.philox import philox

MIXING_ROUNDS = 8
"""Luby and Rackoff prove four rounds for large numbers; small ones are mixed better by more."""

MAX_ROWS = 1 << 63
"""The least number of rows that is too large."""
_WORD = 0xFFFFFFFF


def permute(seed: int, epoch: int, place: int, rows: int) -> int:
    """Return the row, of so many, that stands at a place of an epoch's order.

    Seed and epoch have 64 bits; `place` is below `rows`, and `rows` from 1 on below MAX_ROWS.
    """
    side, key = get_side(rows), (seed & _WORD, seed >> 32)
    while True:
        left, right = divmod(place, side)
        for mixing in range(1, MIXING_ROUNDS + 1):
            low, high, _, _ = philox((right, mixing, epoch & _WORD, epoch >> 32), key)
            left, right = right, (left + (high << 32 | low)) % side
        place = left * side + right
        if place < rows:
            return place


def get_side(rows: int) -> int:
    """Return the base of the digits: the least number whose square is at least `rows`."""
    return isqrt(rows - 1) + 1
