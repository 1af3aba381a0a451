"""The arithmetic as a value, which says what folds mean; each program carries one.

Types, maps and draws mean the same in every arithmetic (`functions.py`, `evaluate.py`,
`philox.py`), as do the folds that only choose: argmax, argmin and a scatter that copies.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from moot.offchain.arithmetic.functions import DType, Function


@dataclass(frozen=True, slots=True)
class Fold:
    """The meaning of one kind of fold: a chain of accumulators, which are natural numbers.

    Attributes:
        width_bytes: bytes of an accumulator; what a wider one has above them does not count.
        begin: (the initial element's bits) -> the accumulator before the first step.
        advance: (an accumulator, the bits of what a step reads: two factors, or one value) -> the
            accumulator after that step.
        finish: (the last accumulator) -> the bits of the folded element.
        describe: (an accumulator) -> what it is, for people.
        is_finished: whether the last accumulator is the element, so that `finish` changes nothing;
            otherwise finishing is one step more of the chain that a match narrows.
    """

    width_bytes: int
    begin: Callable[[int], int]
    advance: Callable[[int, Sequence[int]], int]
    finish: Callable[[int], int]
    describe: Callable[[int], str] = hex
    is_finished: bool = True


@dataclass(frozen=True, slots=True)
class Arithmetic:
    """An arithmetic, of which the program root binds the name and the version.

    Attributes:
        name: what people call it.
        version: raised whenever a result would change.
        find_fold: (function, type of the terms) -> the meaning of a fold by it; FMA is a
            contraction's, whose factors have that type.
        short_factors: the type that both factors of a contraction of FLOAT32 may have instead.
        contracts: the arithmetic whose contracts referee its programs; if that is not its own name,
            they compute none of its scalar operations.
        accumulator_bytes: bytes of every fold's accumulators; None if they are elements.
        has_engines: whether any binary64 of a machine may compute it (`native/binary64`).
    """

    name: str
    version: int
    find_fold: Callable[[Function, DType], Fold]
    short_factors: DType | None = None
    contracts: str = "ordered"
    accumulator_bytes: int | None = None
    has_engines: bool = False

    @property
    def ends_on_chain(self) -> bool:
        """Whether a contract decides by one scalar operation, or the verifier by an operator."""
        return self.contracts == self.name

    def find_short(self, result: DType) -> DType | None:
        """Return what both factors of a contraction to a type may have instead of it, if anything.

        Of integers that is the same in every arithmetic.
        """
        if result is DType.FLOAT32:
            return self.short_factors
        return DType.INT8 if result is DType.INT32 else None

    def __str__(self) -> str:
        return f"{self.name} {self.version}"
