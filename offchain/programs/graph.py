"""The program: a flat graph of operators, each with an exact scalar definition.

Every operator kind reads its operands through *accesses*: affine index maps with bounds. An
access sees the operand's tensor as an array of the sizes of its rows; row r addresses coordinate
(offset + sum coefficient * variable) / divisor. When the division is not exact, or the coordinate
lies outside [0, size), the access is out of range and reads its fill value instead. The variables
are the output's indices, then the fold's indices, then (gather only) the values of the index
operands. That one form expresses broadcasting, transposition, convolution and both of its
gradients, padding, slicing and concatenation; `semantics.py` says what each kind does with it.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import IntEnum
from math import prod

from moot.offchain.arithmetic.base import Arithmetic
from moot.offchain.arithmetic.functions import DType, Function
from moot.offchain.arithmetic.ordered import ORDERED


class Kind(IntEnum):
    """Operator kinds; the number is the kind's canonical encoding."""

    MAP = 1
    CONTRACT = 2
    REDUCE = 3
    MOVE = 4
    GATHER = 5
    SCATTER = 6
    RANDOM = 7
    SOURCE = 8
    SINK = 9

    @property
    def folds(self) -> bool:
        """Whether an output element is the last of a chain of accumulators."""
        return self in _FOLDS

    @property
    def moves(self) -> bool:
        """Whether an output element is an operand's, from a place that the shape fixes."""
        return self in _MOVES


_FOLDS = frozenset({Kind.CONTRACT, Kind.REDUCE, Kind.SCATTER})
_MOVES = frozenset({Kind.MOVE, Kind.SOURCE, Kind.SINK})


class Origin(IntEnum):
    """Where an operand's elements come from; the number is its canonical encoding."""

    IMMEDIATE = 0
    NODE = 1
    STATE = 2
    BATCH = 3


@dataclass(frozen=True, slots=True)
class Row:
    """One coordinate of an access: (offset + sum of coefficient * variable) / divisor in [0, size).

    `terms` holds (variable, coefficient) pairs in ascending order of variable, coefficients not 0.
    """

    size: int
    offset: int = 0
    terms: tuple[tuple[int, int], ...] = ()
    divisor: int = 1

    def coordinate(self, variables: Sequence[int]) -> int | None:
        """Return the coordinate at these values of the variables, or None when out of range."""
        value = self.offset
        for variable, coefficient in self.terms:
            value += coefficient * variables[variable]
        quotient, remainder = divmod(value, self.divisor)
        return quotient if remainder == 0 and 0 <= quotient < self.size else None


@dataclass(frozen=True, slots=True)
class Operand:
    """An operand: a constant, or an access to the output of a node, a state slot or a batch slot.

    `value` holds the constant's bits (IMMEDIATE), or the bits that an out-of-range access reads.
    """

    origin: Origin
    dtype: DType
    reference: int = 0
    value: int = 0
    rows: tuple[Row, ...] = ()

    def index(self, variables: Sequence[int]) -> int | None:
        """Return the element index that the access addresses (row-major), or None out of range."""
        linear = 0
        for row in self.rows:
            coordinate = row.coordinate(variables)
            if coordinate is None:
                return None
            linear = linear * row.size + coordinate
        return linear


def immediate(dtype: DType, bits: int) -> Operand:
    """Return a constant operand."""
    return Operand(Origin.IMMEDIATE, dtype, value=bits)


@dataclass(frozen=True, slots=True)
class Node:
    """One operator of the step's graph.

    Attributes:
        kind: the operator kind.
        function: the scalar function of a map, the fold function of a fold, COPY for the others,
            UNIFORM for random.
        dtype: the output's element type.
        shape: the output's dimensions.
        fold_shape: the fold's dimensions, iterated in row-major order; empty unless `kind.folds`.
        operands: map: the arguments. contract: init, a, b. reduce: init, x. move: the candidates,
            of which the first in range is copied. gather: data, indices. scatter: init, source,
            indices. random: none. source, sink: the tensor.
        seed: random: Philox's key, 64 bits.
        stream: random: Philox's stream, 32 bits.
        targets: scatter: for each index operand, the output dimension that it must equal.
    """

    kind: Kind
    function: Function
    dtype: DType
    shape: tuple[int, ...]
    operands: tuple[Operand, ...] = ()
    fold_shape: tuple[int, ...] = ()
    seed: int = 0
    stream: int = 0
    targets: tuple[int, ...] = ()

    @property
    def elements(self) -> int:
        """Number of output elements."""
        return prod(self.shape)

    @property
    def fold_length(self) -> int:
        """Number of fold steps of one output element (1 for an empty fold shape)."""
        return prod(self.fold_shape)

    @property
    def has_short_factors(self) -> bool:
        """Whether it is a contraction of floats whose factors are of another type."""
        is_float = self.kind is Kind.CONTRACT and self.dtype is DType.FLOAT32
        return is_float and self.operands[1].dtype is not self.dtype

    @property
    def multiplies_integers(self) -> bool:
        """Whether it is a contraction of integers, which wraps around and has no order."""
        return self.kind is Kind.CONTRACT and self.dtype is not DType.FLOAT32

    @property
    def inputs(self) -> tuple[int, ...]:
        """Indices of the nodes that this node reads, ascending."""
        return tuple(sorted({o.reference for o in self.operands if o.origin is Origin.NODE}))


@dataclass(frozen=True, slots=True)
class Slot:
    """A named tensor of the state or of the batch."""

    name: str
    dtype: DType
    shape: tuple[int, ...]

    @property
    def elements(self) -> int:
        """Number of elements."""
        return prod(self.shape)


@dataclass(frozen=True, slots=True)
class Program:
    """A whole step: (state, batch) -> state.

    The last `len(state)` nodes are the sinks, in the order of the state's slots. `names` and
    `lines` (a name and the line of the user's model for every node) help people; they are not
    part of the program's encoding. `arithmetic` says what its folds mean.
    """

    state: tuple[Slot, ...]
    batch: tuple[Slot, ...]
    nodes: tuple[Node, ...]
    names: tuple[str, ...] = field(compare=False)
    lines: tuple[str, ...] = field(compare=False)
    arithmetic: Arithmetic = ORDERED

    @property
    def first_sink(self) -> int:
        """Index of the node that is the sink of state slot 0."""
        return len(self.nodes) - len(self.state)
