import pytest

from moot.contracts.reasons import Ending
from moot.offchain.arithmetic.functions import DType, Function
from moot.offchain.programs.graph import Kind, Node, immediate
from tests.attacks.elements import decide
from tests.attacks.twin import Twin
from tests.quick import every

F32, INT64, BOOL = DType.FLOAT32, DType.INT64, DType.BOOL

ZERO_BY_ZERO = Node(Kind.MAP, Function.DIV, F32, (1,), (immediate(F32, 0), immediate(F32, 0)))
MINUS_ZERO = Node(Kind.MAP, Function.NEG, F32, (1,), (immediate(F32, 0),))
TRUE = Node(Kind.MAP, Function.EQ, BOOL, (1,), (immediate(INT64, 7), immediate(INT64, 7)))
HALVED = Node(Kind.MAP, Function.MUL, F32, (1,), (immediate(F32, 1), immediate(F32, 0x3F800000)))


@pytest.mark.parametrize(
    ("node", "right", "wrong"),
    every(
        8,
        [
            (ZERO_BY_ZERO, 0x7FC00000, (0x7FC00001, 0xFFC00000, 0x7F800001)),
            (MINUS_ZERO, 0x80000000, (0x00000000,)),
            (HALVED, 0x00000001, (0x00000000, 0x01000000)),
            (TRUE, 1, (255, 2, 0)),
        ],
    ),
)
def test_h5_every_value_has_one_pattern(
    referee: Twin, node: Node, right: int, wrong: tuple[int, ...]
) -> None:
    """NaNs with payloads, the other zero, flushed or swapped subnormals and other truths lose.

    Two of them against each other lose both.
    """
    for bits in wrong:
        assert decide(referee, node, (right, bits)) == (0, Ending.SCALAR)
        assert decide(referee, node, (bits, right)) == (1, Ending.SCALAR)
    if len(wrong) > 1:
        assert decide(referee, node, (wrong[0], wrong[1])) == (None, Ending.SCALAR)
