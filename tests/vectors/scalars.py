"""Vectors of the scalar functions: each function with all operand types that it is defined for.

Operands are special values of every pair, ties and neighbours of ties, subnormal results, the
operands whose results lie closest to a tie in a search of many, and random patterns.
"""

import random
from collections.abc import Iterator, Sequence
from itertools import product
from typing import Any

from moot.offchain.arithmetic.evaluate import SIGNATURES, evaluate
from moot.offchain.arithmetic.functions import DType, Function
from moot.offchain.arithmetic.philox import uniform_bits
from tests.vectors.files import Document, make_document
from tests.vectors.hard import HARD
from tests.vectors.notation import write_bits

Types = tuple[DType, ...]
"""The types of the operands, then that of the result."""

Operands = tuple[int, ...]

FLOAT32, INT64, INT32, BOOL, BFLOAT16, INT8 = DType
_LETTERS: dict[str, Types] = {
    "F": (FLOAT32,),
    "I": (INT64, INT32),
    "B": (BOOL,),
    "X": tuple(DType),
    "Y": tuple(DType),
}
_ADDED = frozenset({INT8})
"""Types that came later: their vectors follow those of all others."""

_SIGN = 0x80000000


def _with_negatives(*patterns: int) -> tuple[int, ...]:
    return tuple(x | sign for x in patterns for sign in (0, _SIGN))


PAIRED = (*_with_negatives(0, 1, 0x007FFFFF, 0x3F800000, 0x7F7FFFFF, 0x7F800000), 0xFF800001)
"""Floats that are tried in every pair."""

_ORDINARY = (0x33800000, 0x3F000000, 0x3F7FFFFF, 0x3F800001, 0x40490FDB, 0x42B17218, 0x4B000001)
SINGLE = (*PAIRED, *_with_negatives(0x00800000, *_ORDINARY), 0x7FC00000)
"""Floats that a function of one operand is tried on."""

BOUNDS = (0x4EFFFFFF, 0x4F000000, 0x4F000001, 0x5EFFFFFF, 0x5F000000, 0x5F800000)
"""Floats around the ends of the integer types."""

HALVES = (0x3EFFFFFF, 0x3F000001, 0x3FC00000, 0x40200000, 0x4B000000, 0x4AFFFFFF, 0x3F7FFFFF)
"""Floats around the ties of rounding to an integer."""

ROUNDED = (1 << 24, (1 << 24) + 1, (1 << 24) + 3, (1 << 25) + 2, (1 << 25) + 6, 33554433)
"""Integers around the ties of their conversion to a float."""

ROUNDED_UP_AND_DOWN = (
    *(0x3F807FFF, 0x3F808000, 0x3F808001, 0x3F818000, 0x00008000, 0x00008001, 0x00018000),
    *(0x007F8000, 0x7F7F7FFF, 0x7F7F8000, 0x7F7FFFFF),
)
"""Floats around the ties of their conversion to bfloat16, and around its largest number."""

_RANDOM_ROWS = 24
_RANDOM_TRIPLES = 60


def signatures() -> Iterator[tuple[Function, Types]]:
    """Yield every function of the arithmetic with every types."""
    found = []
    for function, forms in SIGNATURES.items():
        for form in forms:
            letters = sorted(set(form) - {">"})
            for choice in product(*(_LETTERS[letter] for letter in letters)):
                bound = dict(zip(letters, choice, strict=True))
                found.append((function, tuple(bound[letter] for letter in form if letter != ">")))
    yield from sorted(found, key=lambda each: not _ADDED.isdisjoint(each[1]))


def special_values(dtype: DType, *, paired: bool) -> tuple[int, ...]:
    """Return patterns of a type that deserve to be tried, in every pair or alone."""
    if dtype is FLOAT32:
        return PAIRED if paired else (*SINGLE, *_with_negatives(*BOUNDS))
    if dtype is BOOL:
        return (0, 1)
    if dtype is BFLOAT16:
        return tuple(dict.fromkeys(x >> 16 for x in special_values(FLOAT32, paired=paired)))
    width = 8 * dtype.width
    least = 1 << width - 1
    values = [0, 1, 2, 3, least - 1, least, 2 * least - 1, 2 * least - 3]
    if not paired:
        wide = (
            [(1 << 53) + 1, (1 << 62) + (1 << 38), (1 << 62) + (1 << 38) + 1] if width > 32 else []
        )
        values += [sign * x % (2 * least) for x in (*ROUNDED, *wide) for sign in (1, -1)]
    return tuple(values)


def random_value(rng: random.Random, dtype: DType) -> int:
    """Return a pattern; a float is of ordinary size as often as it is any pattern."""
    if dtype is FLOAT32 and rng.getrandbits(1):
        return rng.getrandbits(1) << 31 | (rng.randrange(100, 150) << 23) | rng.getrandbits(23)
    return rng.getrandbits(1 if dtype is BOOL else 8 * dtype.width)


def _near(rng: random.Random, x: int, distance: int) -> int:
    """Return a float whose exponent is at most some distance from another's."""
    exponent = (x >> 23 & 0xFF) + rng.randint(-distance, distance)
    return rng.getrandbits(1) << 31 | min(max(exponent, 0), 254) << 23 | rng.getrandbits(23)


def _ties(function: Function, rng: random.Random) -> Iterator[Operands]:
    """Yield operands of IEEE's functions whose results are ties, or next to one, or subnormal."""
    for _ in range(12):
        x = rng.randrange(60, 190) << 23 | rng.getrandbits(23)
        half = (x >> 23) - 24 << 23
        if function in (Function.ADD, Function.SUB):
            yield from (
                (x, half),
                (x, half + 1),
                (x | _SIGN, half),
                (x | 1, half),
                (x, half | _SIGN),
            )
            yield x, _near(rng, x, 26)
        elif function is Function.MUL:
            odd = 0x3F800001 | rng.getrandbits(11) << 1
            yield from (
                (odd, 0x3FC00000),
                (odd, 0x3FE00000),
                (0x00800001 | rng.getrandbits(23), 0x3F000000),
            )
            yield rng.getrandbits(23) | 0x1F800000, rng.getrandbits(23) | 0x1FC00000
        elif function is Function.DIV:
            yield rng.getrandbits(23) | 0x00800001, 0x40000000
            yield rng.getrandbits(23) | 0x01000000, rng.getrandbits(23) | 0x44000000
            yield x, _near(rng, x, 3)
        elif function is Function.SQRT:
            yield (x,)
            yield (rng.getrandbits(23),)
        elif function is Function.FMA:
            y = _near(rng, 0x3F800000, 4)
            yield x, 0x3F800000, half
            yield x, 0x3F800000, half + 1
            yield x, y, evaluate(Function.MUL, (FLOAT32,) * 2, FLOAT32, (x | _SIGN, y))
            yield x, y, _near(rng, x, 26)


def choose_operands(function: Function, types: Types) -> list[Operands]:
    """Return the operands on which a function of these types is tried, without repetition."""
    *operands, _ = types
    rng = random.Random(f"{function.name} {' '.join(dtype.name for dtype in types)}")
    chosen: list[Operands] = []
    several = len(operands) > 1
    values = [special_values(dtype, paired=several) for dtype in operands]
    if len(operands) < 3:
        chosen += product(*values)
    else:
        chosen += [tuple(map(rng.choice, values)) for _ in range(_RANDOM_TRIPLES)]
    if operands == [FLOAT32]:
        chosen += [(x,) for x in _with_negatives(*HALVES)]
    if types == (FLOAT32, BFLOAT16):
        chosen += [(x,) for x in _with_negatives(*ROUNDED_UP_AND_DOWN)]
    if set(operands) == {FLOAT32}:
        chosen += _ties(function, rng)
        chosen += HARD.get(function, ())
    chosen += [tuple(random_value(rng, t) for t in operands) for _ in range(_RANDOM_ROWS)]
    return list(dict.fromkeys(chosen))


def make_uniform_rows() -> list[str]:
    """Return rows of seed, step, stream, element and the uniform number."""
    rng = random.Random("uniform")
    widths = (64, 32, 32, 64)
    places = [[0, 0, 0, element] for element in range(9)]
    places.append([(1 << width) - 1 for width in widths])
    for narrow in (64, 12):
        draws = [(*widths[:3], narrow)] * (_RANDOM_ROWS // 2)
        places += [[rng.getrandbits(width) for width in row] for row in draws]
    rows = []
    for place in places:
        seed, step, stream, element = place
        words = [f"{x:#0{2 + width // 4}x}" for x, width in zip(place, widths, strict=True)]
        rows.append(
            " ".join([*words, write_bits(uniform_bits(seed, step, stream, element), FLOAT32)])
        )
    return rows


def name_types(types: Sequence[DType]) -> list[str]:
    """Return the names of types as the vectors spell them."""
    return [dtype.name.lower() for dtype in types]


def make_scalars() -> Document:
    """Return the vectors of all scalar functions."""
    cases: list[Any] = []
    for function, types in signatures():
        *operands, result = types
        rows = []
        for row in choose_operands(function, types):
            bits = (*row, evaluate(function, operands, result, row))
            rows.append(" ".join(map(write_bits, bits, types)))
        names = {"operands": name_types(operands), "result": result.name.lower()}
        cases.append({"function": function.name.lower(), "number": function, **names, "rows": rows})
    uniform = {"operands": ["uint64", "uint32", "uint32", "uint64"], "result": "float32"}
    number = Function.UNIFORM
    cases.append({"function": "uniform", "number": number, **uniform, "rows": make_uniform_rows()})
    return make_document(cases)
