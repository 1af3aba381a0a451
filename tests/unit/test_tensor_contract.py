"""The chain of blocks in Vyper: what the definition makes of any 96 bytes, in both generations."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from typing import Any

import pytest

from moot.contracts.compiler import SOURCE_DIR, compile_contract, read_sources
from moot.contracts.port import load
from moot.offchain.arithmetic import float32
from moot.offchain.arithmetic.tensor import pairs
from moot.offchain.arithmetic.tensor.blocks import BLOCKS, Block
from moot.offchain.chain import Contract, connect
from tests.quick import only

HARNESS = """
# pragma version 0.4.3

import sums

@external
@pure
def begin(numbers: DynArray[uint256, 400]) -> DynArray[uint256[3], 400]:
    found: DynArray[uint256[3], 400] = []
    for number: uint256 in numbers:
        found.append(sums.begin(number))
    return found

@external
@pure
def add_products(cases: DynArray[uint256[5], 400]) -> DynArray[uint256[3], 400]:
    found: DynArray[uint256[3], 400] = []
    for case: uint256[5] in cases:
        found.append(sums.add_product([case[0], case[1], case[2]], case[3], case[4]))
    return found

@external
@pure
def finish(totals: DynArray[uint256[3], 400]) -> DynArray[uint256, 400]:
    found: DynArray[uint256, 400] = []
    for total: uint256[3] in totals:
        found.append(sums.finish(total))
    return found
"""
BATCH = 400
GENERATIONS = pytest.mark.parametrize("generation", only({"hopper"}, BLOCKS))
KINDS = ("ordinary", "cancelling", "wide", "subnormal", "tiny", "large", "special", "short", "junk")
KINDS += ("power",)
FIELDS: Mapping[str, tuple[int, int]] = {"wide": (0, 190), "large": (180, 200), "tiny": (50, 58)}
"""The exponent fields of a kind's factors, of which the last is not one; others' are about 1's."""
NOT_FINITE = (*(0x7F80, 0xFF80) * 3, 0x7FC0, 0xFF81)
WORD = (1 << 256) - 1
COUNT_AT = 32
Case = tuple[int, int, int]
"""96 bytes, and the bfloat16 patterns of a pair."""


def draw_number(rng: Random, fields: tuple[int, int], fraction_bits: int) -> int:
    """Return a pattern with eight bits of exponent; one in eight is zero."""
    fraction = rng.choice((0, 1, (1 << fraction_bits) - 1, *[rng.getrandbits(fraction_bits)] * 5))
    magnitude = rng.randrange(*fields) << fraction_bits | fraction
    return magnitude * (rng.random() > 1 / 8) | rng.getrandbits(1) << fraction_bits + 8


def draw_factors(rng: Random, kind: str, count: int) -> tuple[list[int], list[int]]:
    """Return the factors of a block's pairs."""
    fields = FIELDS.get(kind, (120, 135))
    x, y = ([draw_number(rng, fields, 7) for _ in range(count)] for _ in range(2))
    if kind == "subnormal":
        x = [rng.getrandbits(7) | each & 0x8080 for each in x]
    if kind in {"cancelling", "tiny"} and rng.random() < 1 / 2:
        x[1::2], y[1::2] = x[::2], [each ^ 0x8000 ^ (rng.random() < 1 / 8) for each in y[::2]]
    if kind == "tiny":
        y = [b if a & 0x7FFF else draw_number(rng, (0, 255), 7) for a, b in zip(x, y, strict=True)]
    if kind == "special":
        for factors in rng.choice(((x,), (y,), (x, y))):
            factors[rng.randrange(count)] = rng.choice(NOT_FINITE)
    return x, y


def draw_power(rng: Random, block: Block) -> Case:
    """Return a block whose sum is a power of two, or next to one: as many products, less a number.

    The number is all but one part in 2^(bits + 1) of a product; and another product of one unit may
    be taken off.
    """
    fields, bits = [rng.randrange(90, 164) for _ in range(2)], rng.choice((0, *range(24), 23, 23))
    ones = (1 << bits) - 1 << 24 - bits
    number = (sum(fields) - 127 << 23) + (ones >> 1) - (1 << 23) if bits else 0
    number += rng.choice((-1, 0, 0, 0, 1)) * (bits > 0)
    many = 1 if bits else rng.choice((1, 2, 4, block.pairs))
    sign = rng.getrandbits(1)
    pair = fields[0] << 7, fields[1] << 7 | sign << 15
    first, second = (sum(each << 16 * place for place in range(many - 1)) for each in pair)
    if bits and rng.random() < 1 / 2:
        first |= fields[0] - block.kept_bits << 7
        second |= pair[1] ^ 0x8000
    count = block.pairs - 1
    return number | (1 - sign) << 31 | count << COUNT_AT | first << 256 | second << 512, *pair


def draw_case(rng: Random, block: Block, kind: str) -> Case:
    """Return 96 bytes and a pair, which fills a block unless they are short, or junk."""
    if kind == "junk":
        count = rng.choice((0, block.pairs - 1, 2 * block.pairs - 1, rng.getrandbits(224)))
        numbers = rng.getrandbits(32), rng.getrandbits(512)
        return numbers[0] | count << COUNT_AT | numbers[1] << 256, *draw_patterns(rng)
    if kind == "power":
        return draw_power(rng, block)
    x, y = draw_factors(rng, kind, block.pairs)
    fields = FIELDS.get(kind, (120, 135))
    number = draw_number(rng, (0, 255) if rng.random() < 1 / 4 else fields, 23)
    if kind in {"subnormal", "tiny"}:
        number = rng.choice((0, 1 << 31, rng.getrandbits(24), number))
    if kind == "special" and rng.random() < 1 / 2:
        number = rng.choice(NOT_FINITE) << 16 | (rng.random() < 1 / 8)
    count = rng.randrange(block.pairs) if kind == "short" else block.pairs - 1
    first, second = (
        sum(each << 16 * place for place, each in enumerate(factors[:count])) for factors in (x, y)
    )
    return number | count << COUNT_AT | first << 256 | second << 512, x[count], y[count]


def draw_patterns(rng: Random) -> tuple[int, int]:
    """Return two bfloat16 patterns."""
    return rng.getrandbits(16), rng.getrandbits(16)


def list_edges(block: Block) -> Iterator[Case]:
    """Yield cases next to where a rule begins, each a number and the last pair of a block."""
    last = block.pairs - 1 << COUNT_AT
    yield 0, 0, 0
    yield (1 << 768) - 1, 0xFFFF, 0xFFFF
    # An infinity times the least number, which is not 0.
    yield last, 0x7F80, 1
    yield last, 1, 0x7F80
    # 1 less all of it but a power of two, which leaves each number of units that is one.
    for bits in range(1, 24):
        yield last | 0xBF800000 - (1 << 24 - bits), 0x3F80, 0x3F80
    # The largest number below infinity, twice it, and the largest power of two with a little more.
    for number, x in ((0x7F7FFFFF, 0), (0x7F7FFFFF, 0x7F00), (0x7F000000, 0x3F80)):
        yield last | number, x, 0x3F80


def draw_cases(block: Block, count: int, seed: int) -> list[Case]:
    """Return the edges, and as many cases of each kind."""
    rng = Random(seed)
    return [*list_edges(block)] + [
        draw_case(rng, block, kind) for kind in KINDS for _ in range(count)
    ]


def split(accumulator: int) -> list[int]:
    """Return 96 bytes as the contract's words."""
    return [accumulator >> place & WORD for place in (0, 256, 512)]


def join(words: Sequence[int]) -> int:
    """Return 96 bytes, given their words."""
    return sum(word << 256 * place for place, word in enumerate(words))


@contextmanager
def lay_out(generation: str, change: tuple[str, str] = ("", "")) -> Iterator[Path]:
    """Make a folder with the sources of a generation, and the harness; one text may be changed."""
    sources = read_sources(SOURCE_DIR, generation)
    texts = {name: sources[name] for name in ("float32.vy", "sums.vy", "generation.vy")}
    assert any(change[0] in text for text in texts.values())
    with TemporaryDirectory() as place:
        for name, text in {**texts, "harness.vy": HARNESS}.items():
            (Path(place) / name).write_text(text.replace(*change) if change[0] else text)
        yield Path(place)


@pytest.fixture(scope="module", params=only({"hopper"}, BLOCKS))
def deployed(request: pytest.FixtureRequest) -> Iterator[tuple[Block, Contract]]:
    """The harness on a chain, and its generation's block."""
    with lay_out(request.param) as folder, connect() as chain:
        artifact = compile_contract("harness", folder)
        yield BLOCKS[request.param], chain.deploy(artifact, sender=chain.accounts[0])


def call(contract: Contract, function: str, cases: Sequence[Any]) -> list[Any]:
    """Return what a function of the harness makes of cases."""
    batches = (cases[at : at + BATCH] for at in range(0, len(cases), BATCH))
    return [each for batch in batches for each in contract.call(function, batch)]


def test_the_contract_is_the_definition(deployed: tuple[Block, Contract]) -> None:
    """It does not revert, and returns the same bits, on accumulators of every kind."""
    block, contract = deployed
    cases = draw_cases(block, 150, 0)
    found = call(contract, "add_products", [[*split(bits), x, y] for bits, x, y in cases])
    assert [join(words) for words in found] == [
        pairs.advance(block, bits, xy) for bits, *xy in cases
    ]
    found = call(contract, "finish", [split(bits) for bits, _, _ in cases])
    assert found == [pairs.finish(block, bits) for bits, _, _ in cases]


def test_the_contract_begins_as_the_definition(deployed: tuple[Block, Contract]) -> None:
    """With a number's own bits, and one NaN for all."""
    numbers = [0, float32.NEGATIVE_ZERO, 1, 0x7F800000, 0xFF800000, 0x7F800001, 0xFFFFFFFF]
    found = call(deployed[1], "begin", numbers)
    assert [join(words) for words in found] == [pairs.begin(each) for each in numbers]


@cache
def draw_results(generation: str, draws: int) -> tuple[list[Case], list[tuple[int, int]]]:
    """Return cases, and what the definition says of them: with one pair more, and as they are."""
    block = BLOCKS[generation]
    cases = draw_cases(block, draws, 1)
    return cases, [(pairs.advance(block, a, xy), pairs.finish(block, a)) for a, *xy in cases]


def is_defined(generation: str, draws: int, change: tuple[str, str] = ("", "")) -> bool:
    """Tell whether the contract, which may be changed, is the definition in drawn cases."""
    with lay_out(generation, change) as folder:
        port = load("sums", folder)
    return all(
        (join(port.add_product(split(bits), *xy)), port.finish(split(bits))) == expected
        for (bits, *xy), expected in zip(*draw_results(generation, draws), strict=True)
    )


@pytest.mark.parametrize("draws", [500, pytest.param(15_000, marks=pytest.mark.slow)])
@GENERATIONS
def test_many_blocks_are_those_of_the_definition(generation: str, draws: int) -> None:
    """More cases, by the port of the contract; results of every class are among them."""
    assert is_defined(generation, draws)
    found = {result for _, result in draw_results(generation, draws)[1]}
    assert {0, float32.NAN, float32.INFINITY, float32.NEGATIVE_INFINITY} <= found
    assert any(0 < each & ~float32.SIGN < 1 << 23 for each in found)


DOWN = "size = size << 23 >> unsafe_sub(field, largest)"
BELOW = "~(max_value(uint256) << unsafe_sub(field, largest))"
APART = "unsafe_sub(largest, exponent)"
MORE = f"(before >> 31) * ~(max_value(uint256) << min({APART}, 30))"
TERM = f"significand = significand << (generation.KEPT_BITS - 23) >> {APART}"
CHANGES = {
    "the exponent of a product is a normalised one": (
        "self._find_largest(exponents)",
        "self._find_largest(unsafe_add(exponents, (self._multiply(x, y) >> 15) & LANES))",
    ),
    "a negative sum is cut downwards": (
        DOWN,
        f"size = unsafe_add(size << 23, {BELOW} * (sign >> 31)) >> unsafe_sub(field, largest)",
    ),
    "a negative term is cut downwards": (
        TERM,
        f"significand = unsafe_add(significand << (generation.KEPT_BITS - 23), {MORE}) >> {APART}",
    ),
    "a sum is rounded": (
        DOWN,
        f"size = unsafe_add(size << 23, {BELOW} >> 1) >> unsafe_sub(field, largest)",
    ),
    "a zero has no exponent": (
        "exponent = convert(convert(OFFSET, int256) + generation.ZERO_EXPONENT, uint256)",
        "exponent = 0",
    ),
    "a zero product has an exponent": ("unsafe_mul(nonzero, LANE)", "max_value(uint256)"),
    "a negative zero": (
        f"{DOWN}\n    if size == 0:\n        return 0\n",
        f"{DOWN}\n",
    ),
    "an exponent of subnormal numbers is 0's": (
        "LEAST: constant(uint256) = OFFSET - 126",
        "LEAST: constant(uint256) = OFFSET - 127",
    ),
    "products far below are shifted by less": ("unsafe_mul(near, LANE)", "max_value(uint256)"),
    "a lane's lowest bits come into the next": (
        "WITHOUT_4: constant(uint256) = 2**28 - 1",
        "WITHOUT_4: constant(uint256) = 2**32 - 1",
    ),
    "a bit more": ("KEPT_BITS: constant(uint256) = 25", "KEPT_BITS: constant(uint256) = 26"),
    "a number of pairs above the most": ("(generation.PAIRS - 1)", "31"),
}


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
def test_a_changed_contract_is_seen(change: tuple[str, str]) -> None:
    """What is computed otherwise changes results that are drawn."""
    assert not is_defined("hopper", 500, change)
