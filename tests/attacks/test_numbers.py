import pytest

from contracts.reasons import Ending
from offchain.arithmetic.functions import DType, Function
from offchain.programs.graph import Kind, Node, immediate
from tests.attacks.paper import claim_element
from tests.lockstep.harness import Lockstep

F32, INT64, BOOL = DType.FLOAT32, DType.INT64, DType.BOOL

ZERO_BY_ZERO = Node(Kind.MAP, Function.DIV, F32, (1,), (immediate(F32, 0), immediate(F32, 0)))
MINUS_ZERO = Node(Kind.MAP, Function.NEG, F32, (1,), (immediate(F32, 0),))
TRUE = Node(Kind.MAP, Function.EQ, BOOL, (1,), (immediate(INT64, 7), immediate(INT64, 7)))
HALVED = Node(Kind.MAP, Function.MUL, F32, (1,), (immediate(F32, 1), immediate(F32, 0x3F800000)))


@pytest.mark.parametrize(
    ("node", "bits", "winner"),
    [
        (ZERO_BY_ZERO, 0x7FC00000, 0),
        (ZERO_BY_ZERO, 0x7FC00001, 1),
        (ZERO_BY_ZERO, 0xFFC00000, 1),
        (MINUS_ZERO, 0x80000000, 0),
        (MINUS_ZERO, 0x00000000, 1),
        (HALVED, 0x00000001, 0),
        (HALVED, 0x00000000, 1),
        (HALVED, 0x01000000, 1),
        (TRUE, 1, 0),
        (TRUE, 255, 1),
    ],
)
def test_h5_every_value_has_one_pattern(
    referee: Lockstep, node: Node, bits: int, winner: int
) -> None:
    """NaNs with payloads, the other zero, flushed or swapped subnormals and other truths lose."""
    assert claim_element(referee, node, bits) == (winner, Ending.SCALAR)
