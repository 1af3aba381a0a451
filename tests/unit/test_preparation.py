"""What a preparation finds out once for all operators that are alike."""

from dataclasses import replace

from offchain.arithmetic.functions import DType, Function
from offchain.execution.preparation import forget_tensors
from offchain.programs.graph import Kind, Node, Operand, Origin, Row


def make_product(*sources: tuple[Origin, int]) -> Node:
    """Return the product of two vectors, given what they are."""
    rows = (Row(4, 0, ((0, 1),), 1),)
    operands = tuple(Operand(*source[:1], DType.FLOAT32, source[1], 0, rows) for source in sources)
    return Node(Kind.MAP, Function.MUL, DType.FLOAT32, (4,), operands)


def test_operators_that_read_other_tensors_are_alike() -> None:
    """What an operator is planned by tells its tensors apart, but not from those of others."""
    product = make_product((Origin.NODE, 3), (Origin.NODE, 5))
    assert forget_tensors(product) == forget_tensors(
        make_product((Origin.NODE, 9), (Origin.NODE, 7))
    )


def test_operators_that_differ_otherwise_are_not_alike() -> None:
    """A square is no product of two tensors, and a tensor of the state is none of an operator."""
    product = make_product((Origin.NODE, 3), (Origin.NODE, 5))
    others = [
        make_product((Origin.NODE, 3), (Origin.NODE, 3)),
        make_product((Origin.STATE, 3), (Origin.NODE, 5)),
        replace(product, shape=(3,)),
    ]
    assert forget_tensors(product) not in map(forget_tensors, others)
