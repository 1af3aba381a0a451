"""The functions that the volume script tries, each with its operands and its oracle."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial

import numpy as np

from moot.contracts.port import load
from moot.offchain.arithmetic.functions import Function
from tests.chain_arithmetic import ieee
from tests.chain_arithmetic.operands import Vectors, draw_operands, get_known_operands
from tests.sweeps.oracle import round_exactly

Draw = Callable[[np.random.Generator, int], Vectors]
Expect = Callable[[Vectors], list[int]]


@dataclass(frozen=True, slots=True)
class Subject:
    """A function of bit patterns in the chain's code, with the oracle that it is compared with.

    `known` returns operands that are always tried, `draw` as many others as it is told, from a
    generator; `expect` returns the right results, one for each row of operands. The record has at
    least `volume` operands.
    """

    module: str
    function: str
    known: Callable[[], Vectors]
    draw: Draw
    expect: Expect
    volume: int = 1_000_000

    def load(self) -> Callable[..., int]:
        """Return the port of the function."""
        function: Callable[..., int] = getattr(load(self.module), self.function)
        return function


PLACES: Mapping[Function, tuple[str, str]] = {
    Function.EXP: ("exponential", "exp"),
    Function.EXPM1: ("exponential", "expm1"),
    Function.EXP2: ("exponential", "exp2"),
    Function.LOG: ("logarithm", "ln"),
    Function.LOG1P: ("logarithm", "log1p"),
    Function.LOG2: ("logarithm", "log2"),
    Function.SIN: ("circular", "sin"),
    Function.COS: ("circular", "cos"),
    Function.TAN: ("circular", "tan"),
    Function.TANH: ("exponential", "tanh"),
    Function.SINH: ("exponential", "sinh"),
    Function.COSH: ("exponential", "cosh"),
    Function.ERF: ("error", "erf"),
    Function.ERFC: ("error", "erfc"),
    Function.RSQRT: ("elementary", "reciprocal_square_root"),
    Function.SIGMOID: ("exponential", "sigmoid"),
    Function.POW: ("power", "pow"),
}
"""The module of each function, and its name there."""


def _expect(function: Function, vectors: Vectors) -> list[int]:
    return [round_exactly(function, *operands) for operands in vectors.tolist()]


TRANSCENDENTAL: Mapping[str, Subject] = {
    function.name.lower(): Subject(
        *place,
        partial(get_known_operands, function),
        partial(draw_operands, function),
        partial(_expect, function),
    )
    for function, place in PLACES.items()
}
"""The functions that mathematics defines, by name; the oracle is MPFR."""

_IEEE_VOLUME = 10_000_000
_DIRECTIONS = (0, 1, 2, 3)


def _make(function: str, arity: int, draw: Draw, expect: Expect) -> Subject:
    known = partial(ieee.get_known, arity)
    return Subject("float32", function, known, draw, expect, _IEEE_VOLUME)


def _make_with(function: str, choices: tuple[int, ...], expect: Expect) -> Subject:
    known, draw = partial(ieee.get_known_with, choices), partial(ieee.draw_with, choices)
    return Subject("float32", function, known, draw, expect, _IEEE_VOLUME)


_NEAR_THE_FIRST = partial(ieee.draw_rows, np.positive, 2)

IEEE: Mapping[str, Subject] = {
    "fma": _make("fma", 3, partial(ieee.draw_rows, np.multiply, 3), ieee.expect_fma),
    "add": _make("add", 2, _NEAR_THE_FIRST, partial(ieee.expect_of, np.add)),
    "subtract": _make("subtract", 2, _NEAR_THE_FIRST, partial(ieee.expect_of, np.subtract)),
    "multiply": _make("multiply", 2, ieee.draw_underflowing, partial(ieee.expect_of, np.multiply)),
    "divide": _make("divide", 2, _NEAR_THE_FIRST, partial(ieee.expect_of, np.divide)),
    "square_root": _make("square_root", 1, ieee.draw_squares, partial(ieee.expect_of, np.sqrt)),
    "compare": _make("compare", 2, _NEAR_THE_FIRST, ieee.expect_order),
    "maximum": _make(
        "maximum", 2, _NEAR_THE_FIRST, partial(ieee.expect_choice, np.maximum, np.logical_and)
    ),
    "minimum": _make(
        "minimum", 2, _NEAR_THE_FIRST, partial(ieee.expect_choice, np.minimum, np.logical_or)
    ),
    "to_integral": _make_with("to_integral", _DIRECTIONS, ieee.expect_integral),
    "to_integer": _make_with("to_integer", ieee.WIDTHS, ieee.expect_integer),
    "from_integer": Subject(
        "scalar",
        "_convert",
        ieee.get_known_integers,
        ieee.draw_integers,
        ieee.expect_float,
        _IEEE_VOLUME,
    ),
}
"""The operations of IEEE 754, by name; the oracle is the processor, and MPFR for the fma."""

SUBJECTS: Mapping[str, Subject] = {**IEEE, **TRANSCENDENTAL}
