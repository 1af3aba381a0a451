"""The plan of a chain of blocks by its definition, element by element."""

from collections.abc import Sequence

from moot.offchain.arithmetic.base import Arithmetic
from moot.offchain.commitments.tensors import Array
from moot.offchain.execution.readable import from_bits, to_bits
from moot.offchain.programs.graph import Node, Operand
from moot.offchain.programs.semantics import compute_element


class DefinedProduct:
    """The plan of a contraction with elements and terms, in an arithmetic."""

    def __init__(self, node: Node, arithmetic: Arithmetic) -> None:
        self._node, self._arithmetic = node, arithmetic

    def run(self, flats: Sequence[Array | None], step: int) -> Array:
        """Return the output, given the tensors of init and factors (None for constants)."""
        bits = [None if flat is None else to_bits(flat) for flat in flats]

        def fetch(place: int, operand: Operand, index: int) -> int:
            del operand
            found = bits[place]
            assert found is not None
            return found[index]

        node, places = self._node, range(self._node.elements)
        elements = [compute_element(self._arithmetic, node, e, step, fetch) for e in places]
        return from_bits(elements, node.dtype, node.shape)
