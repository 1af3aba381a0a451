"""Loops of one thread that ask for several elements at once, and wait once for all of them."""

from collections.abc import Callable, Sequence

from llvmlite import ir

from moot.offchain.backends.cuda.kernel import word
from moot.offchain.native import vectors

Body = Callable[[Sequence[ir.Value], list[ir.Value]], Sequence[ir.Value]]
"""(numbers, state before them) -> the state after them."""


def repeat_together(
    builder: ir.IRBuilder, count: int, state: Sequence[ir.Value], together: int, body: Body
) -> list[ir.Value]:
    """Run `state = body(numbers, state)` for all numbers below a count, so many of them at a time.

    They come in ascending order; the last few come one by one.
    """
    now = list(state)
    for first, each in ((0, together), (count - count % together, 1)):
        turns = (count - first) // each
        if not turns:
            continue

        def turn(
            number: ir.Value, before: list[ir.Value], first: int = first, each: int = each
        ) -> Sequence[ir.Value]:
            at = builder.add(builder.mul(number, word(each)), word(first))
            return body([builder.add(at, word(place)) for place in range(each)], before)

        now = vectors.repeat(builder, word(turns), now, turn)
    return now
