"""Batches of drawn cases: the trials of each case, and their results. One batch, one process."""

import gc
import os
from random import Random
from typing import Any, NamedTuple

from moot.offchain.collection import without_collection

MATRIX_EVERY = 30
"""Of so many cases one is on a matrix, and fused."""
ROUNDS_EVERY = 5
"""Of so many cases one finds the largest elements of rows, with a counter in the state."""
JOINED_EVERY = 240
"""Of so many cases one is of products with a region between them, and fused."""
RUN_EVERY = 3
"""Of so many other cases one is run for several steps; all of those in rounds are."""
FUSED_EVERY = 80
"""Of so many other cases one is fused: to compile takes long."""
LEAVES_A_CASE = 8
COLLECTED_EVERY = 250
"""After so many cases cycles are collected; Python's own rhythm takes a quarter of the time."""


FAMILIES = ("any", "matrix", "rounds", "joined", "large")
"""The kinds of cases: of whatever there is, on one matrix, rounds, joined products; large ones."""


def find_family(number: int) -> str:
    """Return the kind of a numbered case, where all kinds are drawn."""
    if number % MATRIX_EVERY == 0:
        return "matrix"
    if number % JOINED_EVERY == JOINED_EVERY // 2:
        return "joined"
    return "rounds" if number % ROUNDS_EVERY == 1 else "any"


class Order(NamedTuple):
    """Cases to try: numbers `first` to `stop` of a seed.

    Attributes:
        seed: the seed.
        first: number of the first case.
        stop: number after that of the last one.
        vector_bits: the width of vectors; it holds for the whole process.
        leaves_every: of so many cases one has leaves computed by model and contract; 0 for none.
        matches_every: of so many cases one is played as a match; 0 for none.
        directory: where failures are kept.
        family: the one kind of cases that is drawn, of `FAMILIES`; all kinds, if empty.
    """

    seed: int
    first: int
    stop: int
    vector_bits: int = 0
    leaves_every: int = 0
    matches_every: int = 0
    directory: str = "fuzz-failures"
    family: str = ""


class Tally(NamedTuple):
    """The counts of compared programs, operators, elements, leaves and matches, and failures."""

    programs: int = 0
    operators: int = 0
    elements: int = 0
    fused: int = 0
    leaves: int = 0
    matches: int = 0
    failures: tuple[str, ...] = ()

    def plus(self, other: "Tally") -> "Tally":
        """Return the sums."""
        pairs: Any = zip(self, other, strict=True)
        return Tally(*(mine + theirs for mine, theirs in pairs))


def run(order: Order) -> Tally:
    """Try the cases of an order."""
    if order.vector_bits:
        os.environ["MOOT_VECTOR_BITS"] = str(order.vector_bits)
    from tests.fuzz.trial import try_case  # noqa: PLC0415 - the width is read when it is imported

    tally = Tally()
    with without_collection():
        for number in range(order.first, order.stop):
            tally = tally.plus(try_case(order, number))
            if number % COLLECTED_EVERY == 0:
                gc.collect()
    return tally


def make_rng(seed: int, number: int) -> Random:
    """Return what draws case `number` of a seed."""
    return Random(f"{seed} {number}")
