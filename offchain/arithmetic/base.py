"""The arithmetic as a value, which says what folds mean; each program carries one.

Types, maps and draws mean the same in every arithmetic (`functions.py`, `evaluate.py`,
`philox.py`), as do the folds that only choose: argmax, argmin and a scatter that copies.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from offchain.arithmetic.functions import DType, Function


@dataclass(frozen=True, slots=True)
class Fold:
    """The meaning of one kind of fold: a chain of accumulators, which are natural numbers.

    Attributes:
        width_bytes: bytes of an accumulator.
        begin: (the initial element's bits) -> the accumulator before the first step.
        advance: (an accumulator, the bits of what a step reads: two factors, or one value) -> the
            accumulator after that step.
        finish: (the last accumulator) -> the bits of the folded element.
    """

    width_bytes: int
    begin: Callable[[int], int]
    advance: Callable[[int, Sequence[int]], int]
    finish: Callable[[int], int]


@dataclass(frozen=True, slots=True)
class Arithmetic:
    """An arithmetic, of which the program root binds the name and the version.

    Attributes:
        name: what people call it.
        version: raised whenever a result would change.
        find_fold: (function, element type) -> the meaning of a fold by it; FMA is a contraction's.
        leaf: name of the contract that inspects operators, and computes scalar operations.
        ends_on_chain: whether that contract computes those of this arithmetic; otherwise the
            bounded verifier has to decide about whole operators.
    """

    name: str
    version: int
    find_fold: Callable[[Function, DType], Fold]
    leaf: str = "leaf"
    ends_on_chain: bool = True

    def __str__(self) -> str:
        return f"{self.name} {self.version}"
