"""The trial of an engine, before anything depends on it: hostile sums and functions, and the truth.

The truth of a sum are numbers of 80 bits, in which products of two binary32 numbers are exact, so
that a sum of 512 errs by less than a thousandth of what an engine may. Where every partial sum is a
whole number of at most 52 bits, the truth is in integers, and an engine has no error at all. That
of a function is the C library's in 80 bits. Where a machine's `long double` is narrower, sums and
functions are taken from exact integers and from mpmath, and there are fewer of them.
"""

import ctypes
import ctypes.util
from collections.abc import Callable, Iterator
from fractions import Fraction
from functools import partial
from typing import Any, NamedTuple

import mpmath
import numpy as np
import numpy.typing as npt

from moot.offchain.arithmetic.functions import Function
from moot.offchain.arithmetic.logged.band import CHUNK, FUNCTION_EXPONENT, UNIT_EXPONENT
from moot.offchain.arithmetic.logged.binary64 import FUNCTIONS
from moot.offchain.errors import UnsuitableEngine
from moot.offchain.native.binary64.base import Doubles, Engine

Wide = npt.NDArray[Any]

UNIT = 2.0**UNIT_EXPONENT
SLACK = 1 + 2.0**-8
"""More than the truth's own error, and all higher orders, make of a bound."""

LENGTHS = (1, 2, 3, 5, 8, 17, 64, 128, 511, 512)
"""Terms of the sums that are tried; an engine is asked for no more at once."""

_SIDE, _LARGE = 48, 512
_DRAWN = 512
_WHOLE_SIDE, _WHOLE_ROUNDS = 1024, 6
"""6,000,000 products of whole numbers: one wrong bit in a million is found 997 times of 1,000."""
_FUNCTION_VALUES, _FEW = 4_096, 64
_SEED = 46


class _Kind(NamedTuple):
    """A kind of matrices: what it is called, and (random, shape) -> their elements."""

    name: str
    draw: Callable[[np.random.Generator, tuple[int, ...]], Doubles]


def _draw_wide(random: np.random.Generator, shape: tuple[int, ...]) -> Doubles:
    return random.standard_normal(shape) * 2.0 ** random.integers(-40, 41, shape)


def _draw_scaled(random: np.random.Generator, shape: tuple[int, ...]) -> Doubles:
    """Return rows that are each of another size: who adds up rows of several loses the small."""
    scales = 2.0 ** random.integers(-40, 41, (*shape[:-1], 1))
    return random.standard_normal(shape) * scales


def _draw_cancelling(random: np.random.Generator, shape: tuple[int, ...]) -> Doubles:
    found = random.standard_normal(shape)
    half = shape[-1] // 2
    found[..., half : 2 * half] = -found[..., :half] * (1 + 2.0**-20 * random.random())
    return found


KINDS = (
    _Kind("drawn numbers", lambda random, shape: random.standard_normal(shape)),
    _Kind("one number", lambda random, shape: np.full(shape, random.uniform(0.5, 1))),
    _Kind("wide exponents", _draw_wide),
    _Kind("rows of several sizes", _draw_scaled),
    _Kind("numbers that cancel", _draw_cancelling),
)


def try_engine(name: str, engine: Engine, seed: int = _SEED) -> None:
    """Try an engine, for about a second.

    Args:
        name: what it is called.
        engine: the engine.
        seed: of what is drawn.

    Raises:
        UnsuitableEngine: it errs by more than `base.py` allows, fails, or returns something else.
    """
    random = np.random.default_rng(seed)
    with np.errstate(all="ignore"):
        for complaint in _complain(engine, random):
            raise UnsuitableEngine(f"the engine {name} {complaint}; choose another --engine")


def _complain(engine: Engine, random: np.random.Generator) -> Iterator[str]:
    yield from _try_products(engine, random)
    yield from _try_sums(engine, random)
    yield from _try_whole(engine, random)
    yield from _try_functions(engine, random)


def _try_products(engine: Engine, random: np.random.Generator) -> Iterator[str]:
    """Yield what is wrong with products of matrices, of which drawn elements are looked at."""
    shapes = [(_SIDE, length, _SIDE) for length in LENGTHS] + [(_LARGE,) * 3]
    for kind in KINDS:
        for height, steps, width in shapes:
            a = _narrow(kind.draw(random, (2, height, steps)))
            b = _narrow(kind.draw(random, (2, width, steps))).swapaxes(1, 2)
            what = f"a product whose sums have {steps} terms, {kind.name}"
            found, problem = _call(partial(engine.multiply, a, b), (2, height, width), what)
            if problem:
                yield problem
                return
            z, m, n = (random.integers(0, size, _DRAWN) for size in (2, height, width))
            terms = a[z, m].astype(np.longdouble) * b[z, :, n]
            yield from _find_excess(found[z, m, n], terms, what)


def _try_sums(engine: Engine, random: np.random.Generator) -> Iterator[str]:
    """Yield what is wrong with sums of rows."""
    for kind in KINDS:
        for steps in (it for it in LENGTHS if it <= CHUNK):
            terms = _narrow(kind.draw(random, (_DRAWN, steps)))
            terms *= _narrow(kind.draw(random, (_DRAWN, steps)))
            what = f"a sum of {steps} terms, {kind.name}"
            found, problem = _call(partial(engine.add_up, terms), (_DRAWN,), what)
            if problem:
                yield problem
                return
            yield from _find_excess(found, terms.astype(np.longdouble), what)


def _try_whole(engine: Engine, random: np.random.Generator) -> Iterator[str]:
    """Yield what is wrong with products and sums of whole numbers, of which none may be off."""
    side = _WHOLE_SIDE
    for _ in range(_WHOLE_ROUNDS):
        steps = int(random.integers(1, 9))
        a, b = (random.integers(-(1 << 24), 1 << 24, (side, steps)) for _ in "ab")
        what = f"a product whose sums have {steps} terms, whole numbers"
        left, right = a.astype(np.float64)[None], b.astype(np.float64).T[None]
        found, problem = _call(partial(engine.multiply, left, right), (1, side, side), what)
        if problem:
            yield problem
            return
        wrong = int(np.count_nonzero(found[0] != (a @ b.T)))
        if wrong:
            yield f"errs in {wrong:,} of {side * side:,} elements of {what}, where it can't"
            return


def _try_functions(engine: Engine, random: np.random.Generator) -> Iterator[str]:
    """Yield what is wrong with functions."""
    for function in FUNCTIONS:
        operands = _draw_operands(function, random)
        what = function.name.lower()
        found, problem = _call(
            partial(engine.evaluate, function, *operands), operands[0].shape, what
        )
        if problem:
            yield problem
            return
        real = _evaluate_widely(function, operands)
        if real is None:
            continue
        is_plain = np.isfinite(real) & (np.abs(real) >= 2.0**-149) & (np.abs(real) < 2.0**128)
        bound = np.abs(real) * 2.0**FUNCTION_EXPONENT
        share = np.where(is_plain, np.abs(found - real) / np.where(is_plain, bound, 1), 0)
        if not (share <= 1).all():
            worst = int(np.argmax(np.where(np.isnan(share), np.inf, share)))
            yield (
                f"errs by {_say(float(share[worst]))} its bound in {what} of "
                f"{', '.join(repr(float(x[worst])) for x in operands)}"
            )
            return


def _call(compute: Callable[[], Any], shape: tuple[int, ...], what: str) -> tuple[Doubles, str]:
    """Return what an engine computes, and what is wrong with it as an array."""
    nothing = np.zeros(shape)
    try:
        found = np.asarray(compute())
    except Exception as error:  # noqa: BLE001 - it is a stranger's, and is named
        said = " ".join(f"{type(error).__name__} {error}".split())[:200]
        return nothing, f"fails in {what} ({said})"
    if found.shape != shape or found.dtype != np.float64:
        return nothing, f"returns {found.dtype} {found.shape} for {what}, not float64 {shape}"
    return found, ""


def _find_excess(found: Doubles, terms: Wide, what: str) -> Iterator[str]:
    """Yield by how much sums are off, if they are off by more than their additions may err."""
    real, size = _add_up(terms), _add_up(np.abs(terms))
    bound = (terms.shape[-1] - 1) * UNIT * SLACK * size
    error = np.abs(found.astype(np.longdouble) - real)
    is_wrong = ~(error <= bound + size * _TRUTH)
    if is_wrong.any():
        worst = np.where(is_wrong, error / np.maximum(bound, size * UNIT), 0)
        worst = np.where(np.isnan(worst), np.inf, worst)
        yield f"errs by {_say(float(worst.max()))} its bound in {what}"


def _say(ratio: float) -> str:
    return f"{ratio:.3g} times" if np.isfinite(ratio) else "more than any multiple of"


def _narrow(values: Doubles) -> Doubles:
    """Return numbers that binary32 has, which an engine is given, as binary64."""
    return values.astype(np.float32).astype(np.float64)


_IS_WIDE = np.finfo(np.longdouble).nmant >= 63
_TRUTH = 2.0**-58 if _IS_WIDE else 0.0
"""What sums in `long double` err by at most, as a share of the terms' magnitudes."""


def _add_up(terms: Wide) -> Wide:
    """Return sums over the last axis, all but exact."""
    if _IS_WIDE:
        return np.asarray(terms.sum(axis=-1))
    rows = terms.reshape(-1, terms.shape[-1]).tolist()
    sums = [float(sum(map(Fraction, row), Fraction())) for row in rows]
    return np.array(sums, np.longdouble).reshape(terms.shape[:-1])


def _draw_operands(function: Function, random: np.random.Generator) -> tuple[Doubles, ...]:
    """Return operands of a function: any bits, and ordinary ones."""
    count = _FUNCTION_VALUES
    bits = random.integers(0, 1 << 32, count // 2, dtype=np.uint64).astype(np.uint32)
    usual = random.standard_normal(count // 2) * random.choice([0.1, 1, 10, 60], count // 2)
    values = np.concatenate([bits.view(np.float32), usual.astype(np.float32)])
    values = np.where(np.isfinite(values), values, np.float32(0.5)).astype(np.float64)
    if function is not Function.POW:
        return (values,)
    return np.abs(values), _narrow(random.uniform(-4, 4, count))


def _evaluate_widely(function: Function, operands: tuple[Doubles, ...]) -> Wide | None:
    """Return what a function is to 60 bits or more; None where nothing here knows."""
    if _IS_WIDE and function in {Function.ERF, Function.ERFC}:
        compute = _find_wide({Function.ERF: "erfl", Function.ERFC: "erfcl"}[function])
        return None if compute is None else compute(*operands)
    if _IS_WIDE:
        return np.asarray(FUNCTIONS[function](*(x.astype(np.longdouble) for x in operands)))
    real = np.full(operands[0].shape, np.nan, np.longdouble)
    names = {Function.POW: "power", Function.EXP2: "exp2"}
    compute = getattr(mpmath, names.get(function, function.name.lower()), None)
    if compute is None:
        return None
    with mpmath.workprec(80):
        for place in range(_FEW):
            value = compute(*(mpmath.mpf(float(x[-1 - place])) for x in operands))
            real[-1 - place] = float(value) if isinstance(value, mpmath.mpf) else np.nan
    return real


def _find_wide(name: str) -> Callable[[Doubles], Wide] | None:
    """Return a function of the C library on numbers of 80 bits, whose results come as binary64."""
    path = ctypes.util.find_library("m")
    function = getattr(ctypes.CDLL(path), name, None) if path else None
    if function is None:
        return None
    function.argtypes, function.restype = [ctypes.c_longdouble], ctypes.c_longdouble
    apply = np.frompyfunc(function, 1, 1)
    return lambda x: np.asarray(apply(x), np.longdouble)
