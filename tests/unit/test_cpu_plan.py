"""How a plan for the processor is added: it says its calls once, and is they."""

from collections.abc import Sequence

import numpy as np

from moot.offchain.arithmetic.functions import DType, Function
from moot.offchain.arithmetic.ordered import ORDERED
from moot.offchain.backends.cpu.called_plans import CalledOperator
from moot.offchain.backends.cpu.calls import lay_out, lay_out_whole, list_copies
from moot.offchain.backends.cpu.sequences import CalledSequence
from moot.offchain.backends.cpu.views import Reader
from moot.offchain.backends.port import Step
from moot.offchain.native.memory_layout import Memory
from moot.offchain.native.sequences import Call, Place, Word
from moot.offchain.programs.graph import Kind, Node, Operand, Origin, Row
from moot.offchain.programs.semantics import compute_element


class Turn(CalledOperator):
    """The plan of a matrix of INT32 that is turned."""

    def __init__(self, node: Node) -> None:
        self._shape, self._reader = node.shape, Reader(node.operands[0], node.shape)
        super().__init__([self._reader], [(node.shape, np.int32)])

    def list_own_calls(self, at: Sequence[Word], to: Sequence[Place], memory: Memory) -> list[Call]:  # noqa: D102 - the base says it
        source = lay_out(at[0], 4, self._shape, self._reader.strided)
        return list_copies(source, lay_out_whole(to[0], 4, self._shape), memory)


def test_a_plan_is_its_calls_alone_and_in_a_sequence() -> None:
    """A new plan has the bits of the definition, by itself and joined with what runs after it."""
    x, rows = np.arange(15, dtype=np.int32), (Row(5, 0, ((1, 1),)), Row(3, 0, ((0, 1),)))
    operand = Operand(Origin.BATCH, DType.INT32, 0, 0, rows)
    plan = Turn(node := Node(Kind.MAP, Function.COPY, DType.INT32, (3, 5), (operand,)))
    joined = CalledSequence([Step(plan, (1,), (2,), (node,))], [1], [2]).run([x])
    expected = [compute_element(ORDERED, node, i, 0, lambda *it: int(x[it[2]])) for i in range(15)]
    assert joined is not None
    assert plan.run([x], 0).ravel().tolist() == joined[0].ravel().tolist() == expected
