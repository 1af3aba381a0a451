"""Computes the tables of `quick_tables.py` anew: `python -m tests.sweeps.quick_coefficients`."""
# mypy: disallow-untyped-calls=False
# (mpmath publishes no types)

from collections.abc import Callable, Sequence

import click
import mpmath
import numpy as np
from mpmath import mpf

from moot.offchain.native.transcendental.quick_tables import ANCHOR_BITS, ANCHOR_SHIFT, STEPS
from tests.sweeps.coefficients import interpolate

_PRECISION_BITS = 200
_TERMS = 20

_TRIED = 100_000
"""Numbers to either side of an interval's middle that are tried."""

_MISSED = 2.0**-40
"""What an anchor's value may err by, of itself."""


def _to_float32(number: mpf) -> float:
    return float(np.float32(float(number)))


def _find_anchor(start: float, stop: float) -> tuple[float, float]:
    """A float32 operand inside an interval whose tanh is all but a float32 number, and that number.

    It lies as near to the middle as a miss of `_MISSED` of the value allows.
    """
    middle = (start + stop) / 2
    center = int(np.float32(np.tanh(middle)).view(np.uint32))
    values = np.arange(center - _TRIED, center + _TRIED).astype(np.uint32).view(np.float32)
    values = values[(values > 0) & (values < 1)].astype(np.float64)
    operands = np.arctanh(values).astype(np.float32).astype(np.float64)
    is_precise = np.abs(np.tanh(operands) - values) <= _MISSED * values
    values, operands = values[is_precise], operands[is_precise]
    best = int(np.abs(operands - middle).argmin())
    return float(operands[best]), float(values[best])


def _make_anchors() -> tuple[list[float], list[float]]:
    anchors, values = [0.0] * STEPS, [0.0] * STEPS
    first = int(np.float32(ANCHOR_SHIFT).view(np.uint32)) >> ANCHOR_BITS
    for place in range(first + 1, first + STEPS):
        start, stop = (
            float(np.uint32(edge << ANCHOR_BITS).view(np.float32)) - ANCHOR_SHIFT
            for edge in (place, place + 1)
        )
        anchors[place % STEPS], values[place % STEPS] = _find_anchor(start, stop)
    return anchors, values


def _series(coefficient: Callable[[int], mpf]) -> Callable[[mpf], mpf]:
    return lambda x: sum((coefficient(k) * x**k for k in range(_TERMS)), mpf(0))


def compute() -> dict[str, tuple[float, ...]]:
    """All of them, by their names, as float32 numbers."""
    with mpmath.workprec(_PRECISION_BITS):
        ln2, end = mpmath.log(2), mpmath.log(2) / (2 * STEPS) * mpf("1.001")
        powers = [_to_float32(mpf(2) ** (mpf(j) / STEPS)) for j in range(STEPS)]
        exp_tail = _series(lambda k: 1 / mpmath.factorial(k + 2))
        tanh_terms = mpmath.taylor(mpmath.tanh, 0, 2 * _TERMS + 3)[3::2]
        tanh_tail = _series(lambda k: tanh_terms[k])
        step = _to_float32(ln2 / STEPS)
        anchors, values = _make_anchors()
        numbers: dict[str, Sequence[mpf | float]] = {
            "LN2_STEP": [step, ln2 / STEPS - step],
            "POWERS": powers,
            "POWERS_LOW": [
                mpmath.log(mpf(2) ** (mpf(j) / STEPS) / powers[j]) for j in range(STEPS)
            ],
            "EXP_TAIL_32": interpolate(exp_tail, 2, end, -end),
            "ANCHORS": anchors,
            "ANCHOR_VALUES": values,
            "TANH_TAIL": interpolate(tanh_tail, 3, mpf("0.27") ** 2),
        }
        return {name: tuple(map(_to_float32, found)) for name, found in numbers.items()}


if __name__ == "__main__":
    for name, numbers in compute().items():
        click.echo(f'{name} = _numbers("""')
        texts = [number.hex().replace("0000000p", "p") for number in numbers]
        for first in range(0, len(texts), 6):
            click.echo("    " + " ".join(texts[first : first + 6]))
        click.echo('""")')
