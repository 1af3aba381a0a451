"""Tries the bound of the functions of `logged` on many operands, beside numbers of 80 bits.

Use it as `python -m tests.logged_volume.functions [--function exp ...] [--count 100000000]`.

The C library's functions of 80 bits err by less than 2^-60 of their value, as `test_functions.py`
finds with MPFR, which is too slow for such volumes. Results are kept in functions.json beside this
file, with the versions of the libraries that compute in binary64. x86-64 only: elsewhere there are
no such numbers.
"""

import argparse
import ctypes
import ctypes.util
import json
import platform
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from moot.offchain.arithmetic.functions import Function
from moot.offchain.arithmetic.logged.band import FUNCTION_EXPONENT
from moot.offchain.arithmetic.logged.binary64 import FUNCTIONS

Floats = npt.NDArray[np.float32]
Wide = npt.NDArray[np.longdouble]

RESULTS = Path(__file__).with_name("functions.json")
PIECE = 1 << 16

_LEAST = np.longdouble(2) ** -151
_LARGEST = np.longdouble(2) ** 128
"""Results that are nearer to zero than half of the least number, or infinite, have no boundary."""

_SPECIAL = np.array(
    [0, 1, 2, 0.5, np.log(2), np.pi / 2, np.pi, 1 / np.e, 88.7, 104, 10], np.float64
)
"""Numbers near to which, or near to multiples of which, a function has a zero, a pole or an end."""


def _call(name: str) -> Callable[[Wide], Wide]:
    """Return a function of the C library, whose results come rounded to binary64."""
    function = getattr(ctypes.CDLL(ctypes.util.find_library("m")), name)
    function.argtypes, function.restype = [ctypes.c_longdouble], ctypes.c_longdouble
    apply = np.frompyfunc(function, 1, 1)
    return lambda x: np.asarray(apply(x.astype(np.float64)), np.longdouble)


WIDE: Mapping[Function, Callable[..., Wide]] = {
    **FUNCTIONS,
    Function.ERF: _call("erfl"),
    Function.ERFC: _call("erfcl"),
}
"""Each function on numbers of 80 bits: those of numpy take any."""


def draw(rng: np.random.Generator) -> Floats:
    """Return operands: of any bits, ordinary ones, and ones next to special places."""
    bits = rng.integers(0, 1 << 32, PIECE // 2, dtype=np.uint64).astype(np.uint32).view(np.float32)
    usual = rng.standard_normal(PIECE // 4) * rng.choice([0.1, 1, 10, 60], PIECE // 4)
    turns = rng.choice([-1, 1], PIECE // 4) * rng.choice([1, 1, 3, 1000], PIECE // 4)
    special = (rng.choice(_SPECIAL, PIECE // 4) * turns).astype(np.float32).view(np.uint32)
    special += rng.integers(-40, 41, PIECE // 4).astype(np.uint32)
    return np.concatenate([bits, usual.astype(np.float32), special.view(np.float32)])


def draw_powers(rng: np.random.Generator) -> tuple[Floats, Floats]:
    """Return bases, and exponents that mostly keep the power in range."""
    base = np.abs(draw(rng))
    most = 150 / np.maximum(np.abs(np.log2(base.astype(np.float64))), 2.0**-40)
    near = (rng.uniform(-1, 1, PIECE) * most).astype(np.float32)
    whole = rng.integers(-9, 10, PIECE).astype(np.float32)
    return base, rng.permutation(np.where(rng.random(PIECE) < 0.7, near, whole))


@np.errstate(all="ignore")
def try_piece(function: Function, seed: int, number: int) -> tuple[int, int, float]:
    """Try some operands.

    Returns:
        How many results have a boundary near them, how many of these are farther from the real
        value than the bound allows, and the largest error as a share of its bound.
    """
    rng = np.random.default_rng([int(function), seed, number])
    operands = draw_powers(rng) if function is Function.POW else (draw(rng),)
    found = FUNCTIONS[function](*(x.astype(np.float64) for x in operands))
    real = WIDE[function](*(x.astype(np.longdouble) for x in operands))
    is_near = np.isfinite(real) & (np.abs(real) >= _LEAST) & (np.abs(real) < _LARGEST)
    is_near &= np.logical_and.reduce([np.isfinite(x) for x in operands])
    bound = np.abs(real[is_near]) * np.longdouble(2) ** FUNCTION_EXPONENT
    share = np.abs(found[is_near] - real[is_near]) / bound
    return len(share), int(np.count_nonzero(~(share <= 1))), float(share.max(initial=0))


def measure(function: Function, seed: int, count: int) -> dict[str, Any]:
    """Try at least `count` results of a function."""
    results = beyond = number = 0
    closest = 0.0
    while results < count:
        found, wrong, share = try_piece(function, seed, number)
        results, beyond, number = results + found, beyond + wrong, number + 1
        closest = max(closest, share)
    return {"results": results, "beyond": beyond, "closest": closest, "seed": seed}


def get_versions() -> str:
    """Return the libraries whose functions are tried."""
    return f"numpy {np.__version__}, {' '.join(platform.libc_ver())}, {platform.machine()}"


def load() -> dict[str, dict[str, Any]]:
    """Return the records by the functions' names."""
    return dict(json.loads(RESULTS.read_text())) if RESULTS.exists() else {}


def main(arguments: Sequence[str] | None = None) -> int:
    """Try the functions that are named, or all, and keep the results; 1 if a bound is broken."""
    parser = argparse.ArgumentParser("functions", description=__doc__.split("\n")[0])
    names = {function.name.lower(): function for function in FUNCTIONS}
    parser.add_argument("--function", nargs="*", choices=names, help="all if there is none")
    parser.add_argument("--count", type=int, default=100_000_000, help="results to try (10^8)")
    parser.add_argument("--seed", type=int, default=0, help="of the operands (0)")
    parsed = parser.parse_args(arguments)
    records = load()
    for name in parsed.function or names:
        start = time.time()
        found = measure(names[name], parsed.seed, parsed.count)
        found |= {"seconds": round(time.time() - start), "versions": get_versions()}
        records[name] = found
        lines = (f"{json.dumps(n)}: {json.dumps(records[n])}" for n in names if n in records)
        RESULTS.write_text("{\n" + ",\n".join(lines) + "\n}\n")
        sys.stdout.write(f"{name}: {json.dumps(found)}\n")
        sys.stdout.flush()
    return int(any(record["beyond"] for record in records.values()))


if __name__ == "__main__":
    sys.exit(main())
