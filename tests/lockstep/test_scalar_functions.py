"""The contract's scalar functions equal the specification, bit for bit."""

import itertools
import random
from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path

import pytest

from moot.contracts.compiler import SOURCE_DIR, compile_contract
from moot.offchain.arithmetic import float32
from moot.offchain.arithmetic.evaluate import SIGNATURES, UndefinedTypesError, check_types, evaluate
from moot.offchain.arithmetic.functions import DType, Function
from moot.offchain.arithmetic.philox import uniform_bits
from moot.offchain.chain import Contract, connect
from moot.offchain.errors import Reverted
from tests.quick import every, only

WRAPPER = """
# pragma version 0.4.3
import philox
import scalar

@external
@pure
def evaluate(
    function: uint256, types: uint256[3], result_type: uint256, operands: DynArray[uint256[3], 1000]
) -> DynArray[uint256, 1000]:
    results: DynArray[uint256, 1000] = []
    for o: uint256[3] in operands:
        results.append(
            scalar.evaluate(
                function, types[0], types[1], types[2], result_type, o[0], o[1], o[2]
            )
        )
    return results

@external
@pure
def is_known(function: uint256) -> bool:
    return scalar.is_known(function)

@external
@pure
def uniform(seed: uint256, step: uint256, stream: uint256, element: uint256) -> uint256:
    return philox.uniform(seed, step, stream, element)
"""
MODULES = ("float32", "integers", "philox", "scalar")
BATCH = 1_000

ON_CHAIN = set(SIGNATURES) & {function for function in Function if not function.is_transcendental}

F, L, S, B, H, C = DType

EDGES = {
    F: [
        sign | magnitude
        for sign in (0, float32.SIGN)
        for magnitude in (
            *(0, 1, 3, 0x007FFFFF, 0x00800000, 0x00800001, 0x20000000, 0x32FFFFFF, 0x33000000),
            *(0x33800000, 0x3EFFFFFF, 0x3F000000, 0x3F000001, 0x3F7FFFFF, 0x3F800000, 0x3F800001),
            *(0x3FC00000, 0x40200000, 0x4AFFFFFF, 0x4B000000, 0x4B7FFFFF, 0x4B800000, 0x4EFFFFFF),
            *(0x4F000000, 0x5EFFFFFF, 0x5F000000, 0x7F000000, 0x7F7FFFFF, 0x7F800000),
            *(0x7F800001, 0x7FC00000, 0x7FFFFFFF),
        )
    ],
    L: [0, 1, 2, 3, (1 << 63) - 1, 1 << 63, (1 << 63) + 1, (1 << 64) - 2, (1 << 64) - 1, 1 << 32],
    S: [0, 1, 2, 3, (1 << 31) - 1, 1 << 31, (1 << 31) + 1, (1 << 32) - 2, (1 << 32) - 1, 1 << 24],
    B: [0, 1, 2, 255],
    H: [
        sign | magnitude
        for sign in (0, 0x8000)
        for magnitude in (0, 1, 0x7F, 0x80, 0x3F80, 0x3F81, 0x4F00, 0x5F00, 0x7F7F, 0x7F80, 0x7F81)
    ]
    + [0x7FC0, 0xFFFF],
    C: [0, 1, 2, 126, 127, 128, 129, 254, 255],
}


@pytest.fixture(scope="module")
def contract(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Contract]:
    """The modules behind a contract that only a test needs."""
    folder: Path = tmp_path_factory.mktemp("source")
    (folder / "wrapper.vy").write_text(WRAPPER)
    for module in MODULES:
        (folder / f"{module}.vy").write_text((SOURCE_DIR / f"{module}.vy").read_text())
    with connect() as chain:
        yield chain.deploy(compile_contract("wrapper", folder), sender=chain.accounts[0])


def pad(values: Sequence[int]) -> list[int]:
    """Return three values, zeros where there are fewer."""
    return [*values, 0, 0, 0][:3]


@cache
def signatures_of(function: Function) -> list[tuple[tuple[DType, ...], DType]]:
    """Return all operand types and result types for which a function is defined."""
    found = []
    for arity in range(1, 4):
        for *types, result in itertools.product(DType, repeat=arity + 1):
            try:
                check_types(function, types, result)
            except UndefinedTypesError:
                continue
            found.append((tuple(types), result))
    return found


def assert_equal_to_specification(
    contract: Contract,
    function: Function,
    types: tuple[DType, ...],
    result: DType,
    vectors: Sequence[tuple[int, ...]],
) -> None:
    """Compare the contract with the specification on all vectors, in batches."""
    for start in range(0, len(vectors), BATCH):
        batch = vectors[start : start + BATCH]
        got = contract.call("evaluate", function, pad(types), result, [pad(v) for v in batch])
        expected = [evaluate(function, types, result, v) for v in batch]
        assert [
            (tuple(map(hex, v)), hex(g))
            for v, g, e in zip(batch, got, expected, strict=True)
            if g != e
        ] == []


def random_pattern(rng: random.Random, dtype: DType) -> int:
    """Return an edge, a small number, or any pattern; of floats often one of moderate size."""
    choice = rng.randrange(4)
    if choice == 0:
        return rng.choice(EDGES[dtype])
    if choice == 1 and dtype is not F:
        return rng.randrange(-9, 10) % (1 << 8 * dtype.width)
    if choice == 1:
        return rng.getrandbits(1) << 31 | rng.randrange(0x3C000000, 0x44000000)
    return rng.getrandbits(8 * dtype.width)


def random_vectors(types: Sequence[DType], count: int, seed: int) -> list[tuple[int, ...]]:
    """Return vectors of patterns of these types."""
    rng = random.Random(seed)
    return [tuple(random_pattern(rng, dtype) for dtype in types) for _ in range(count)]


@pytest.mark.parametrize("count", only({20}, [20, 100]))
@pytest.mark.parametrize("function", every(6, sorted(ON_CHAIN)), ids=lambda function: function.name)
def test_function_is_the_specified_one(contract: Contract, function: Function, count: int) -> None:
    """Each function agrees with the specification on every combination of types."""
    for number, (types, result) in enumerate(signatures_of(function)):
        vectors = random_vectors(types, count, 100 * function + number)
        assert_equal_to_specification(contract, function, types, result, vectors)


@pytest.mark.parametrize(
    "function", every(12, [Function.ADD, Function.MUL, Function.DIV, Function.MAX, Function.LT])
)
def test_edges_of_two_floats(contract: Contract, function: Function) -> None:
    """Every pair of zeros, subnormals, powers of two, neighbours, infinities and NaN agrees."""
    pairs = list(itertools.product(EDGES[F][::2], EDGES[F][1::2]))
    result = B if function is Function.LT else F
    assert_equal_to_specification(contract, function, (F, F), result, pairs)


@pytest.mark.parametrize(
    "function",
    every(6, [function for function in sorted(ON_CHAIN) if SIGNATURES[function] == ("F>F",)]),
    ids=lambda function: function.name,
)
def test_edges_of_one_float(contract: Contract, function: Function) -> None:
    """Functions of one number agree on edges, halves of integers and all exponents."""
    halves = [float32.encode(n & 1, n >> 1, -1) for n in range(100)]
    exponents = [sign << 31 | e << 23 | 0x2AAAAA for sign in (0, 1) for e in range(255)]
    vectors = [(x,) for x in (*EDGES[F], *halves, *exponents)]
    assert_equal_to_specification(contract, function, (F,), F, vectors)


@pytest.mark.parametrize(
    ("function", "arity"),
    [(Function.FMA, 3), (Function.ADD, 2), (Function.MIN, 2), (Function.GE, 2)],
)
def test_special_numbers(contract: Contract, function: Function, arity: int) -> None:
    """Zeros, infinities and NaN agree in every combination with each other and with numbers."""
    magnitudes = (0, 1, 0x3F800000, 0x7F800000, 0x7FA00000)
    specials = [sign << 31 | magnitude for sign in (0, 1) for magnitude in magnitudes]
    vectors = list(itertools.product(specials, repeat=arity))
    result = B if function is Function.GE else F
    assert_equal_to_specification(contract, function, (F,) * arity, result, vectors)


def fma_vectors() -> list[tuple[int, ...]]:
    """Return triples that cancel, that are nearly ties, that differ in size, and underflow."""
    rng = random.Random(7)
    vectors = random_vectors((F, F, F), 1_000, 8)
    for _ in range(900):
        x, y = (random_pattern(rng, F) for _ in range(2))
        product = float32.multiply(x, y)
        vectors.append((x, y, (product ^ float32.SIGN ^ rng.getrandbits(2)) & 0xFFFFFFFF))
        scale = rng.randrange(-60, 90) << 23
        vectors.append((x, y, (product + scale & 0x7FFFFFFF) | rng.getrandbits(1) << 31))
    for _ in range(800):
        # The addend lies just below, or far below, the last place of the product, or above.
        x, y = (rng.getrandbits(rng.choice((3, 12, 23))) | 127 << 23 for _ in range(2))
        field = rng.choice((rng.randrange(70, 130), rng.randrange(130, 190)))
        vectors.append((x, y, rng.getrandbits(1) << 31 | field << 23 | rng.getrandbits(23)))
    for _ in range(300):
        # The product of a subnormal number and a large one is short, and the addend just below it.
        y_field = rng.randrange(200, 255)
        z_field = y_field - 149 - rng.randrange(20, 36)
        y, z = (max(field, 0) << 23 | rng.getrandbits(23) for field in (y_field, z_field))
        vectors.append((rng.randrange(1, 8), y, rng.getrandbits(1) << 31 | z))
    for _ in range(300):
        fields = [rng.randrange(40, 90) for _ in range(2)]
        x, y = (field << 23 | rng.getrandbits(23) for field in fields)
        vectors.append((x, y, rng.getrandbits(1) << 31 | rng.getrandbits(rng.randrange(1, 25))))
    return vectors


@pytest.mark.parametrize("stride", [pytest.param(1, marks=pytest.mark.slow), 3])
def test_fma(contract: Contract, stride: int) -> None:
    """The fma agrees where it is hard: cancellation, sticky bits, distance, subnormal results."""
    assert_equal_to_specification(contract, Function.FMA, (F, F, F), F, fma_vectors()[::stride])


def test_roots_next_to_half_way_points(contract: Contract) -> None:
    """Square roots agree where only the bits past the root's last say on which side they lie."""
    rng = random.Random(13)
    vectors: list[tuple[int, ...]] = []
    while len(vectors) < 12:
        half_way = rng.randrange(1 << 24, 1 << 25) | 1
        dropped = (half_way**2).bit_length() - 24
        significand = -(-(half_way**2) >> dropped)
        if (significand << dropped) - half_way**2 < 1 << 11:
            scale = 2 * rng.randrange(-60, 20) + dropped
            vectors.append((float32.encode(0, significand, scale),))
    assert_equal_to_specification(contract, Function.SQRT, (F,), F, vectors)


def test_known_functions(contract: Contract) -> None:
    """The module knows the functions below 64 that are of operands only, and no more."""
    known = {number for number in range(300) if contract.call("is_known", number)}
    assert known == ON_CHAIN
    for unknown in (Function.UNIFORM, Function.ARGMAX, Function.SIN, 63, 255, 256, 2**256 - 1):
        with pytest.raises(Reverted, match="scalar: unknown function"):
            contract.call("evaluate", unknown, pad((F,)), F, [pad(())])
    assert not contract.call("is_known", 2**256 - 1)


@pytest.mark.parametrize("function", every(6, sorted(ON_CHAIN)), ids=lambda function: function.name)
def test_undefined_types_revert(contract: Contract, function: Function) -> None:
    """Whatever combination of types the specification refuses, the contract refuses."""
    rng = random.Random(function)
    defined = {(*pad(types), result) for types, result in signatures_of(function)}
    kinds = (0, *DType, 5)
    near = {
        (*types[:place], kind, *types[place + 1 :])
        for types in defined
        for place in range(4)
        for kind in kinds
    }
    far = {tuple(rng.choice(kinds) for _ in range(4)) for _ in range(20)}
    for *types, result in rng.sample(sorted((near | far) - defined), 24):
        with pytest.raises(Reverted, match="scalar: undefined types"):
            contract.call("evaluate", function, types, result, [pad(())])


def test_uniform(contract: Contract) -> None:
    """Random numbers agree at positions with any bits, and in each word of a block."""
    rng = random.Random(11)
    widths = (64, 32, 32, 64)
    positions = [tuple(rng.getrandbits(width) for width in widths) for _ in range(40)]
    positions += [(0, 0, 0, element) for element in range(4)]
    positions += [tuple((1 << width) - 1 for width in widths)]
    for position in positions:
        assert contract.call("uniform", *position) == uniform_bits(*position)
