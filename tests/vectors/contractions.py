"""Contractions for the vectors: products of matrices, and convolutions with both gradients."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from moot.offchain.arithmetic.functions import Function
from moot.offchain.commitments.tensors import Array
from moot.offchain.programs.graph import Kind, Node, Operand, Row, immediate
from tests.vectors.tensors import FLOAT32, ONE, draw, reads, row

Cases = Iterator[tuple[str, Node, list[Array]]]
"""A name, an operator that reads batch slots, and the tensors of these slots."""

ZERO = immediate(FLOAT32, 0)


def contract(
    shape: tuple[int, ...], fold: tuple[int, ...], a: Operand, b: Operand, start: Operand = ZERO
) -> Node:
    """Return a contraction."""
    return Node(Kind.CONTRACT, Function.FMA, FLOAT32, shape, (start, a, b), fold)


def products() -> Cases:
    """Yield products of matrices, laid out in several ways, with and without a start."""
    a, b = draw("a", FLOAT32, 3, 5), draw("b", FLOAT32, 5, 4)
    left, right = reads(0, FLOAT32, row(3, 0), row(5, 2)), reads(1, FLOAT32, row(5, 2), row(4, 1))
    yield "a product of matrices", contract((3, 4), (5,), left, right), [a, b]
    yield "no terms", contract((3, 4), (0,), left, right, immediate(FLOAT32, ONE)), [a, b]

    biased = contract((3, 4), (5,), left, right, reads(2, FLOAT32, row(4, 1)))
    yield "a product that starts from a bias", biased, [a, b, draw("bias", FLOAT32, 4)]

    left, right = reads(0, FLOAT32, row(5, 2), row(3, 0)), reads(1, FLOAT32, row(4, 1), row(5, 2))
    swapped = contract((3, 4), (5,), left, right)
    yield "both matrices transposed", swapped, [a.T.copy(), b.T.copy()]

    a, b = (draw(f"special {name}", FLOAT32, 5, 5, specials=0.15) for name in "ab")
    left, right = reads(0, FLOAT32, row(5, 0), row(5, 2)), reads(1, FLOAT32, row(5, 2), row(5, 1))
    special = contract((5, 5), (5,), left, right, immediate(FLOAT32, 1 << 31))
    yield "special values, from minus zero", special, [a, b]

    a, b = draw("batch a", FLOAT32, 2, 2, 3), draw("batch b", FLOAT32, 2, 3, 2)
    left = reads(0, FLOAT32, row(2, 0), row(2, 1), row(3, 3))
    right = reads(1, FLOAT32, row(2, 0), row(3, 3), row(2, 2))
    yield "a batch of products", contract((2, 2, 2), (3,), left, right), [a, b]

    a, b = draw("long a", FLOAT32, 1, 150), draw("long b", FLOAT32, 150, 5)
    left, right = (
        reads(0, FLOAT32, row(1, 0), row(150, 2)),
        reads(1, FLOAT32, row(150, 2), row(5, 1)),
    )
    yield "a long product", contract((1, 5), (150,), left, right), [a, b]


@dataclass(frozen=True, slots=True)
class Convolution:
    """Sizes of a two-dimensional convolution whose two dimensions are alike.

    `inputs` and `outputs` count the channels of one group.
    """

    samples: int
    groups: int
    inputs: int
    outputs: int
    side: int
    kernel: int
    stride: int = 1
    padding: int = 0
    dilation: int = 1

    @property
    def result(self) -> int:
        """Side of the output."""
        reach = self.dilation * (self.kernel - 1) + 1
        return (self.side + 2 * self.padding - reach) // self.stride + 1

    def window(self, place: int, tap: int) -> Row:
        """Return the input's coordinate under a tap of the window at a place of the output."""
        return row(self.side, {place: self.stride, tap: self.dilation}, -self.padding)

    def seen_by(self, place: int, tap: int) -> Row:
        """Return the output's coordinate whose window sees a place of the input under a tap."""
        terms = {place: 1, tap: -self.dilation}
        return row(self.result, terms, self.padding, self.stride)

    def channel(self, each: int, variable: int) -> Row:
        """Return channel `variable` of the group, variable 1, of `each` channels."""
        return row(self.groups * each, {1: each, variable: 1})

    @property
    def forward(self) -> Node:
        """The convolution of (input, weight), of shape (sample, group, channel, y, x)."""
        n, k, s = self.samples, self.kernel, self.result
        windows = self.window(3, 6), self.window(4, 7)
        x = reads(0, FLOAT32, row(n, 0), self.channel(self.inputs, 5), *windows)
        taps = row(self.inputs, 5), row(k, 6), row(k, 7)
        w = reads(1, FLOAT32, self.channel(self.outputs, 2), *taps)
        return contract((n, self.groups, self.outputs, s, s), (self.inputs, k, k), x, w)

    @property
    def to_input(self) -> Node:
        """The gradient of the input, given (the output's, weight), shaped like the forward one."""
        n, k, side = self.samples, self.kernel, self.side
        places = self.seen_by(3, 6), self.seen_by(4, 7)
        y = reads(0, FLOAT32, row(n, 0), self.channel(self.outputs, 5), *places)
        taps = row(self.inputs, 2), row(k, 6), row(k, 7)
        w = reads(1, FLOAT32, self.channel(self.outputs, 5), *taps)
        return contract((n, self.groups, self.inputs, side, side), (self.outputs, k, k), y, w)

    @property
    def to_weight(self) -> Node:
        """The gradient of the weight, given (the output's, input).

        A leading dimension of one element keeps the group at variable 1.
        """
        n, k, s = self.samples, self.kernel, self.result
        y = reads(0, FLOAT32, row(n, 6), self.channel(self.outputs, 2), row(s, 7), row(s, 8))
        windows = self.window(7, 4), self.window(8, 5)
        x = reads(1, FLOAT32, row(n, 6), self.channel(self.inputs, 3), *windows)
        return contract((1, self.groups, self.outputs, self.inputs, k, k), (n, s, s), y, x)


CONVOLUTIONS: Mapping[str, Convolution] = {
    "padded": Convolution(2, 1, 2, 3, side=4, kernel=3, padding=1),
    "strided": Convolution(1, 1, 2, 2, side=6, kernel=3, stride=2, padding=1),
    "dilated": Convolution(1, 1, 1, 2, side=7, kernel=3, padding=2, dilation=2),
    "grouped": Convolution(1, 2, 2, 1, side=4, kernel=2),
    "depthwise": Convolution(1, 3, 1, 1, side=7, kernel=2, stride=3, padding=1, dilation=2),
}


def convolutions() -> Cases:
    """Yield convolutions and both their gradients."""
    for name, c in CONVOLUTIONS.items():
        x = draw(f"{name} x", FLOAT32, c.samples, c.groups * c.inputs, c.side, c.side)
        w = draw(f"{name} w", FLOAT32, c.groups * c.outputs, c.inputs, c.kernel, c.kernel)
        y = draw(f"{name} y", FLOAT32, c.samples, c.groups * c.outputs, c.result, c.result)
        yield f"a {name} convolution", c.forward, [x, w]
        yield f"the input's gradient of a {name} convolution", c.to_input, [y, w]
        yield f"the weight's gradient of a {name} convolution", c.to_weight, [y, x]
