"""A job about one operator, for whose output two members claim arbitrary values."""

from collections.abc import Sequence

from moot.contracts.reasons import Ending
from moot.offchain.arithmetic.functions import DType
from moot.offchain.programs.graph import Node
from moot.sim.synthetic import operators
from moot.sim.synthetic.jobs import make_rows
from moot.sim.synthetic.operators import OperatorRun, OperatorTask
from moot.sim.synthetic.run_length import RunLengthTensor
from tests.attacks.court import Court
from tests.attacks.twin import Twin

F32 = DType.FLOAT32
STATE = RunLengthTensor(F32, (2,), {0: 0x40490FDB, 1: 0xC2280000})
"""The one tensor of the state before the last step: pi and -42."""
ROWS = make_rows(STATE.shape)


def make_task(node: Node, steps: int = 1) -> OperatorTask:
    """Return the job of an operator, between the source and the sink of the state."""
    return operators.make_task(node, [STATE], steps=steps)


def make_runs(
    task: OperatorTask,
    node: Node,
    bits: Sequence[int],
    element: int = 0,
    *,
    common: int = 0,
    changed: int = -1,
) -> list[OperatorRun]:
    """Return runs that differ in the bits of an element, and of those after it only, in a step.

    Before the element all have the bits `common`.
    """
    runs = []
    for number, own in enumerate(bits, 2):
        values = {0: common, element: own} if element else {0: own}
        output = RunLengthTensor(node.dtype, node.shape, values)
        runs.append(OperatorRun(task, output, after=bytes([number]) * 32, changed=changed))
    return runs


def decide(
    referee: Twin, node: Node, bits: tuple[int, int], element: int = 0, steps: int = 1
) -> tuple[int | None, Ending]:
    """Let two members play about an element of an operator; return whose bits were right, and how.

    Nobody is if the first is None.
    """
    task = make_task(node, steps)
    court = Court(referee, task, make_runs(task, node, bits, element))
    winner, ending = court.finish(court.begin())
    return (None if winner is None else court.members.index(winner)), ending
