"""Philox on a device: the uniform number of one element (`arithmetic/philox.py`)."""

from llvmlite import ir

from moot.offchain.arithmetic import philox
from moot.offchain.backends.cuda.kernel import Context, word
from moot.offchain.native.vectors import FLOAT, INDEX, WORD

_WORD_BITS, _DROPPED, _UNIT = 32, 8, 2.0**-24


def write_uniform(
    context: Context, seed: int, stream: int, step: ir.Value, element: ir.Value
) -> ir.Value:
    """Return the uniform number of an element, in the training step of a parameter."""
    builder = context.builder
    block = builder.lshr(element, word(2))
    lanes = [
        builder.trunc(block, INDEX),
        builder.trunc(builder.lshr(block, word(_WORD_BITS)), INDEX),
        builder.trunc(step, INDEX),
        INDEX(stream),
    ]
    keys = [seed & 0xFFFFFFFF, seed >> _WORD_BITS]
    for _ in range(philox.ROUNDS):
        (high_0, low_0), (high_1, low_1) = (
            _multiply(builder, factor, lanes[place])
            for factor, place in zip(philox.MULTIPLIERS, (0, 2), strict=True)
        )
        lanes = [
            builder.xor(builder.xor(high_1, lanes[1]), INDEX(keys[0])),
            low_1,
            builder.xor(builder.xor(high_0, lanes[3]), INDEX(keys[1])),
            low_0,
        ]
        keys = [
            (key + step_) & 0xFFFFFFFF for key, step_ in zip(keys, philox.KEY_STEPS, strict=True)
        ]
    chosen = lanes[3]
    place = builder.and_(element, word(3))
    for number in (2, 1, 0):
        is_this = builder.icmp_unsigned("==", place, word(number))
        chosen = builder.select(is_this, lanes[number], chosen)
    wide = builder.uitofp(builder.lshr(chosen, INDEX(_DROPPED)), FLOAT)
    return builder.fmul(wide, FLOAT(_UNIT))


def _multiply(builder: ir.IRBuilder, factor: int, lane: ir.Value) -> tuple[ir.Value, ir.Value]:
    """Return the high and the low word of a product."""
    product = builder.mul(builder.zext(lane, WORD), word(factor))
    high = builder.trunc(builder.lshr(product, word(_WORD_BITS)), INDEX)
    return high, builder.trunc(product, INDEX)
