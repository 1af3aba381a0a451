"""Contractions as batches of products of matrices, on tensor cores."""

from collections.abc import Callable

from llvmlite import ir

from moot.offchain.backends.cuda.elements import Variable, read, unravel
from moot.offchain.backends.cuda.kernel import Context, word
from moot.offchain.backends.cuda.tiling import Split, count_sides
from moot.offchain.native.vectors import INDEX
from moot.offchain.programs.graph import Node

Read = Callable[[Context, ir.Value, ir.Value, ir.Value], ir.Value]
"""(context, batch, row, step) -> the element of a factor, a float."""


class Matrices:
    """A contraction as batches of products of matrices.

    Args:
        node: the contraction.
        split: which variables are those of rows, columns and batches.

    Attributes:
        node: that.
        split: that.
        sides: the rows of the first factor and the columns of the second one.
        batches: the number of products.
    """

    def __init__(self, node: Node, split: Split) -> None:
        self.node, self.split = node, split
        *sides, self.batches = count_sides(node)
        self.sides = sides[0], sides[1]

    def find_variables(
        self, context: Context, batch: ir.Value, row: ir.Value | None, column: ir.Value | None
    ) -> list[Variable]:
        """Return the output's variables at a row and a column; None where any will do."""
        found = [Variable(word(0), 0, 0)] * len(self.node.shape)
        groups = self.split.batch, self.split.rows, self.split.columns
        for group, number in zip(groups, (batch, row, column), strict=True):
            if number is not None:
                shape = [self.node.shape[v] for v in group]
                for v, variable in zip(group, unravel(context, number, shape), strict=True):
                    found[v] = variable
        return found

    def read_factor(self, axis: int, parameter: int) -> Read:
        """Return what reads a factor whose tensor's address is a parameter."""

        def load(context: Context, batch: ir.Value, row: ir.Value, step: ir.Value) -> ir.Value:
            places = (row, None) if axis == 0 else (None, row)
            variables = self.find_variables(context, batch, *places)
            variables += unravel(context, step, self.node.fold_shape)
            operand = self.node.operands[1 + axis]
            found = read(context, operand, variables, context.parameters[parameter])
            return context.builder.extract_element(found, INDEX(0))

        return load
