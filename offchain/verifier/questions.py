"""The questions to the bounded verifier, and the checks of them that need no computation."""

from dataclasses import dataclass

from moot.offchain.arithmetic.base import Arithmetic
from moot.offchain.commitments.tensors import NUMPY_TYPES, Array
from moot.offchain.commitments.tree import Digest
from moot.offchain.errors import ProgramError, VerifierError, WrongOperand
from moot.offchain.programs.cost import Cost, compute_operator_cost, get_elements
from moot.offchain.programs.decoding import decode_node
from moot.offchain.programs.graph import Node, Origin
from moot.offchain.verifier.bounds import Bound


@dataclass(frozen=True, slots=True)
class Question:
    """The question whether the output of an operator has the root that the defender claims.

    Both sides agree on the arithmetic, the operator, the step and the operands.

    Attributes:
        arithmetic: what its fold means.
        encoding: the operator, which the program root binds.
        step: number of the training step.
        operands: for each operand its whole tensor in the shape in which it was committed to;
            None for a constant.
        operand_roots: for each operand its agreed tensor root; None for a constant.
        claimed_root: the defender's tensor root.
        claimed: the defender's output, if it supplied it; it only serves to say where it errs,
            and is passed over when it does not have the claimed root.
        entries: the encoding of the operator's entries in the step's rounding log, which is agreed.
    """

    arithmetic: Arithmetic
    encoding: bytes
    step: int
    operands: tuple[Array | None, ...]
    operand_roots: tuple[Digest | None, ...]
    claimed_root: Digest
    claimed: Array | None = None
    entries: bytes = b""


def check(question: Question, bound: Bound) -> tuple[Node, Cost]:
    """Return a question's operator and its cost, or refuse the question.

    Raises:
        CostBoundExceeded: the operator costs more than the bound.
        WrongOperand: an operand is missing or not a tensor as the operator reads it.
        VerifierError: the question makes no sense.
    """
    try:
        node = decode_node(question.encoding, question.arithmetic)
    except ProgramError as error:
        raise VerifierError(f"there is no such operator: {error}") from error
    cost = compute_operator_cost(node)
    bound.require(cost)
    _check_operands(node, question)
    return node, cost


def _check_operands(node: Node, question: Question) -> None:
    count = len(node.operands)
    if (len(question.operands), len(question.operand_roots)) != (count, count):
        raise VerifierError(f"the operator has {count} operands; give a tensor and a root for each")
    for index, operand in enumerate(node.operands):
        array, root = question.operands[index], question.operand_roots[index]
        if operand.origin is Origin.IMMEDIATE:
            if array is not None or root is not None:
                raise WrongOperand(index, "is a constant and has neither tensor nor root")
        elif array is None or root is None:
            raise WrongOperand(index, "is missing")
        elif array.dtype != NUMPY_TYPES[operand.dtype] or array.size != get_elements(operand):
            raise WrongOperand(
                index, f"is not {get_elements(operand)} elements of {operand.dtype.name}"
            )
