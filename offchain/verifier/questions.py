"""What the bounded verifier is asked, and the checks that need no computation."""

from dataclasses import dataclass

from offchain.commitments.tensors import NUMPY_TYPES, Array
from offchain.commitments.tree import Digest
from offchain.errors import ProgramError, VerifierError, WrongOperand
from offchain.programs.encoding import decode_node
from offchain.programs.graph import Node, Origin
from offchain.verifier.bounds import (
    Bound,
    Cost,
    compute_operator_cost,
    compute_scalar_cost,
    get_elements,
)


@dataclass(frozen=True, slots=True)
class Inputs:
    """What both sides of a dispute agree on.

    Attributes:
        encoding: the operator, which the program root binds.
        step: number of the training step.
        operands: for each operand its whole tensor in the shape in which it was committed to;
            None for a constant.
        operand_roots: for each operand its agreed tensor root; None for a constant.
    """

    encoding: bytes
    step: int
    operands: tuple[Array | None, ...]
    operand_roots: tuple[Digest | None, ...]


@dataclass(frozen=True, slots=True)
class Question(Inputs):
    """Whether the output of an operator has the root that the defender claims.

    Attributes:
        claimed_root: the defender's tensor root.
        claimed: the defender's output, if it supplied it; it only serves to say where it errs,
            and is passed over when it does not have the claimed root.
    """

    claimed_root: Digest
    claimed: Array | None = None


@dataclass(frozen=True, slots=True)
class ScalarQuestion(Inputs):
    """Whether one element, or of a fold one accumulator, has the bits that the defender claims.

    Attributes:
        element: linear index of the output element.
        position: fold step; 0 for kinds that do not fold.
        accumulator_bits: agreed accumulator before that step; ignored at the first one, which
            begins with the fold's initial operand, and by kinds that do not fold.
        claimed_bits: the defender's bits after that step.
    """

    element: int
    position: int
    accumulator_bits: int
    claimed_bits: int


def check(question: Question | ScalarQuestion, bound: Bound) -> tuple[Node, Cost]:
    """Return a question's operator and its cost, or refuse the question.

    Raises:
        CostBoundExceeded: the operator costs more than the bound.
        WrongOperand: an operand is missing or not a tensor as the operator reads it.
        VerifierError: the question makes no sense.
    """
    try:
        node = decode_node(question.encoding)
    except ProgramError as error:
        raise VerifierError(f"there is no such operator: {error}") from error
    if isinstance(question, ScalarQuestion):
        cost = compute_scalar_cost(node)
        _check_place(node, question)
    else:
        cost = compute_operator_cost(node)
    cost.check(bound)
    _check_operands(node, question)
    return node, cost


def _check_place(node: Node, question: ScalarQuestion) -> None:
    positions = max(1, node.fold_length)
    if not (0 <= question.element < node.elements and 0 <= question.position < positions):
        raise VerifierError(
            f"element {question.element} at fold step {question.position} is outside an output of "
            f"{node.elements} elements and {positions} steps; read the place from the match again"
        )


def _check_operands(node: Node, question: Inputs) -> None:
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
