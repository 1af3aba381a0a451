"""Encodings of operators, and leaves over drawn operands, right and wrong ones."""

import random
from collections.abc import Iterator
from itertools import product

from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis.strategies import SearchStrategy

from moot.contracts.model.leaf import Context
from moot.contracts.model.types import ZERO
from moot.offchain.arithmetic import float32
from moot.offchain.arithmetic.base import Arithmetic
from moot.offchain.arithmetic.exact import sums
from moot.offchain.arithmetic.functions import DType, Function
from moot.offchain.arithmetic.ordered import ORDERED
from moot.offchain.arithmetic.tensor.blocks import BLOCKS
from moot.offchain.programs.encoding import encode_node
from moot.offchain.programs.graph import Kind, Node, immediate
from tests.chain_arithmetic.test_exact_sums import FLAGS, SUM_BITS, draw_number, draw_sum
from tests.mutants.replay import Call
from tests.mutants.tape import CLIENT, Tape
from tests.referee.chosen import list_forged, list_products, list_proven
from tests.referee.malformed import LIMITS, list_changed
from tests.referee.nodes import SEARCHES, Leaf, leaves, make_canonical
from tests.referee.test_leaf import list_wrong
from tests.unit.test_tensor_contract import draw_cases

LEAVES = 260
SEARCHED = 200
"""Further functions: a search compares elements, an exact sum adds, as no other operator does."""
SUMS = (Function.ADD, Function.FMA)
WRONG = 5
CASES = 100
"""Blocks of each kind."""
TIE_BITS = float32.SIGNIFICAND_BITS + 1
SPECIAL = (0, 1, 0x3F800000, 0x7F7FFFFF, float32.INFINITY, float32.INFINITY + 1)
SPECIAL += tuple(float32.negate(each) for each in SPECIAL)
"""Nothing, the least and the greatest number, one, infinity and no number, of either sign."""
CUTS = [bit for cut in range(0, SUM_BITS, 64) for bit in (cut, cut + 63)]


def ask_leaves(arithmetic: Arithmetic = ORDERED) -> list[Call]:
    """Return calls of the leaf contract."""
    tape, rng = Tape(arithmetic), random.Random(7)
    drawn = leaves(arithmetic)
    functions = SEARCHES if arithmetic == ORDERED else SUMS
    special = drawn.filter(lambda leaf: leaf.node.kind.folds and leaf.node.function in functions)
    for leaf in (*_draw(drawn, LEAVES), *_draw(special, SEARCHED)):
        encoding = encode_node(leaf.node)
        wrong = list(list_wrong(leaf))
        for evidence in (leaf.evidence, *rng.sample(wrong, min(WRONG, len(wrong)))):
            tape.note("compute", CLIENT, leaf.context, encoding, evidence)
    return tape.calls


def ask_sums(arithmetic: Arithmetic) -> list[Call]:
    """Return calls that add a product of constants to sums of all sizes, and that finish these."""
    tape, rng = Tape(arithmetic), random.Random(7)
    if arithmetic.short_factors is not None:
        for accumulator, *factors in draw_cases(BLOCKS[arithmetic.name], CASES, 7):
            x, y = (make_canonical(bits, arithmetic.short_factors) for bits in factors)
            _ask_sum(tape, accumulator, x, y, arithmetic.short_factors)
        return tape.calls
    for x, y in product(SPECIAL, repeat=2):
        _ask_sum(tape, sums.begin(0), x, y)
    for bits in range(1, SUM_BITS + 1):
        x, y = draw_number(rng), draw_number(rng)
        for accumulator in _list_sums(rng, bits, x, y):
            _ask_sum(tape, accumulator, x, y)
    return tape.calls


def _ask_sum(tape: Tape, accumulator: int, x: int, y: int, dtype: DType = DType.FLOAT32) -> None:
    """Note calls that begin with a product of factors, add it to a sum, and finish the sum."""
    nothing = dict.fromkeys(("operators", "state_slots", "batch_slots", "step", "element"), 0)
    constants = (immediate(DType.FLOAT32, 0), immediate(dtype, x), immediate(dtype, y))
    node = Node(Kind.CONTRACT, Function.FMA, DType.FLOAT32, (1,), constants, (2,))
    for position in (0, 1, 2):
        context = Context(
            trace_top=ZERO,
            before=None,
            data_top=ZERO,
            steps=1,
            position=position,
            accumulator=accumulator,
            **nothing,
        )
        tape.note("compute", CLIENT, context, encode_node(node), b"")


def _list_sums(rng: random.Random, bits: int, x: int, y: int) -> Iterator[int]:
    """Yield sums of a size, others that carry far, and what the product of two numbers cancels."""
    other = 1 << SUM_BITS + FLAGS - 1
    flags = rng.getrandbits(1) << SUM_BITS | other
    drawn = draw_sum(rng, bits)
    yield drawn & (1 << SUM_BITS) - 1 | flags
    if bits > TIE_BITS:
        # Half way between two numbers, the lower one odd or even, and a little above that.
        tie = (rng.getrandbits(TIE_BITS) | 1 << TIE_BITS - 1 | 1) << bits - TIE_BITS
        yield tie | flags
        yield tie | 1 << rng.randrange(bits - TIE_BITS) | flags
        # What breaks a tie may be a sum's last bit alone, or one beside a cut through it.
        cuts = [cut for cut in CUTS if cut < bits - TIE_BITS]
        yield tie & ~(2 << bits - TIE_BITS) | 1 << rng.choice(cuts) | flags
        yield tie & ~(2 << bits - TIE_BITS) | 1 | flags
    match bits % 4:
        case 0:
            yield drawn
        case 1:
            yield rng.getrandbits(bits) | flags
        case 2:
            yield (1 << bits) - 1 | flags
        case _:
            opposite = sums.advance(sums.begin(0), (float32.negate(x), y))
            yield opposite
            yield opposite ^ 1 << rng.randrange(SUM_BITS)


def ask_chosen() -> list[Call]:
    """Return calls of the leaf contract about leaves that are not drawn."""
    tape = Tape()
    products = (leaf for leaf, _ in list_products(ORDERED))
    for leaf in (*list_proven(), *list_forged(), *products):
        tape.note("compute", CLIENT, leaf.context, encode_node(leaf.node), leaf.evidence)
    return tape.calls


def ask_encodings() -> list[Call]:
    """Return calls that show encodings of operators, right and wrong ones."""
    tape, rng = Tape(), random.Random(7)
    for encoding in (*list_changed(rng), *(found for cases in LIMITS for found in cases())):
        tape.note("inspect", CLIENT, encoding)
    return tape.calls


def _draw(strategy: SearchStrategy[Leaf], count: int) -> list[Leaf]:
    drawn: list[Leaf] = []

    @seed(7)
    @settings(
        max_examples=count,
        database=None,
        deadline=None,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @given(leaf=strategy)
    def draw(leaf: Leaf) -> None:
        drawn.append(leaf)

    draw()
    return drawn
