"""Operands of divisions that are hard to round, and our quotients of them.

`python -m tests.sweeps.division` tries every mantissa of a divisor with the dividends whose
quotients are nearest to a number, or to half way between two.
"""
# mypy: disallow-untyped-calls=False
# (numba annotates only a part of what it exports)

import sys
from collections.abc import Callable, Iterator

import numba
import numpy as np
import numpy.typing as npt
from llvmlite import ir
from numba.core import types

from moot.offchain.arithmetic.functions import CANONICAL_NAN
from moot.offchain.native import division, vectors
from moot.offchain.native.compiled import emitted

Floats = npt.NDArray[np.float32]
Integers = npt.NDArray[np.int64]

LANES = 16
_PLACES = 23
MANTISSAS = 1 << _PLACES
_ONE = 127 << _PLACES
_PIECE = 1 << 16
_NEAREST = 3
"""Numerators of the distances, in units of the least one, that are tried."""


def compile_quotients() -> Callable[[Floats, Floats], Floats]:
    """Compile afresh the quotients of rows of dividends, (R, C) with C in vectors, and (R,)."""
    kind = ir.VectorType(vectors.FLOAT, LANES)

    @emitted(types.void, *[types.intp] * 4)
    def divide_row(
        builder: ir.IRBuilder, source: ir.Value, b: ir.Value, target: ir.Value, count: ir.Value
    ) -> None:
        number = vectors.load(builder, vectors.FLOAT, b)
        divisor = division.prepare(builder, vectors.splat(builder, number, LANES))

        def divide_vector(place: ir.Value, _: list[ir.Value]) -> list[ir.Value]:
            offset = builder.mul(place, vectors.WORD(4 * LANES))
            a = vectors.load(builder, kind, builder.add(source, offset))
            quotients = division.divide(builder, a, divisor)
            vectors.store(builder, quotients, builder.add(target, offset))
            return []

        vectors.repeat(builder, count, [], divide_vector)

    @numba.njit(nogil=True, error_model="numpy")
    def run(a: Floats, b: Floats, results: Floats) -> None:
        for row in range(b.size):
            source, target = a[row:].ctypes.data, results[row:].ctypes.data
            divide_row(source, b[row:].ctypes.data, target, a.shape[1] // LANES)

    def compute(a: Floats, b: Floats) -> Floats:
        results = np.empty_like(a)
        run(a, b, results)
        return results

    return compute


def count_wrong(compute: Callable[[Floats, Floats], Floats], a: Floats, b: Floats) -> int:
    """How many quotients of rows, (R, C) and (R,), are not the processor's own."""
    with np.errstate(all="ignore"):
        expected = a / b[:, None]
    return int(np.count_nonzero(_list_bits(compute(a, b)) != _list_bits(expected)))


def _list_bits(numbers: Floats) -> npt.NDArray[np.uint32]:
    return np.where(np.isnan(numbers), np.uint32(CANONICAL_NAN), numbers.view(np.uint32))


def list_hard_dividends(divisors: Integers) -> Integers:
    """Dividends of integers of 24 bits, (R, C), by which quotients of 24 bits are hard to round.

    a * 2^24 or a * 2^25 is next to a multiple of b, which a number or half way between two is; a
    is found by dividing by powers of two modulo the odd part of b. The rest are dividends next to
    b, to twice b and to the ends.
    """
    odd = divisors // (divisors & -divisors)
    found = []
    for power in (24, 25):
        inverse = _invert_power(odd, power)
        for distance in range(-_NEAREST, _NEAREST + 1):
            least = inverse * distance % odd
            above = least + (MANTISSAS - least + odd - 1) // odd * odd
            found += [above, above + odd, least + odd * ((2 * MANTISSAS - 1 - least) // odd)]
    ends = [np.full_like(odd, x) for x in (0, 1, 2, 3, MANTISSAS // 2)]
    for end in ends:
        found += [MANTISSAS + end, 2 * MANTISSAS - 1 - end, divisors + end, divisors - end]
    tried = np.stack(found, axis=1)
    inside = (tried >= MANTISSAS) & (tried < 2 * MANTISSAS)
    return np.where(inside, tried, MANTISSAS)


def _invert_power(odd: Integers, power: int) -> Integers:
    """What times 2^power is 1 modulo odd numbers below 2^24."""
    result, half = np.ones_like(odd) % odd, (odd + 1) // 2 % odd
    for bit in f"{power:b}":
        result = result * result % odd
        if bit == "1":
            result = result * half % odd
    return result


def draw_hard(divisors: Integers, exponent: int = 0) -> tuple[Floats, Floats]:
    """Hard dividends, (R, C), and divisors in [1, 2), the former times a power of two."""
    a = list_hard_dividends(divisors)
    a = np.concatenate([a, np.repeat(a[:, :1], -a.shape[1] % LANES, axis=1)], axis=1)
    bits = [(x - MANTISSAS + _ONE).astype(np.uint32) for x in (a, divisors)]
    dividends, chosen = (x.view(np.float32) for x in bits)
    return np.ldexp(dividends, exponent), chosen


def sweep() -> Iterator[tuple[int, int]]:
    """Yield how many mantissas of divisors have been tried, and how many quotients were wrong."""
    compute, wrong = compile_quotients(), 0
    for first in range(MANTISSAS, 2 * MANTISSAS, _PIECE):
        wrong += count_wrong(compute, *draw_hard(np.arange(first, first + _PIECE)))
        yield first + _PIECE - MANTISSAS, wrong


def main() -> int:
    """Try every mantissa of a divisor; 1 if a quotient is wrong."""
    *_, (tried, wrong) = sweep()
    sys.stdout.write(f"{tried:,} divisors, {wrong} wrong quotients\n")
    return int(wrong > 0)


if __name__ == "__main__":
    sys.exit(main())
