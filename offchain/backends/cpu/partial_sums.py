"""Parts of exact sums as arrays of whole numbers, which add up among workers in any order.

A sum is a row of 64-bit numbers: limbs, each worth 2^32 times the one before it, the first in units
of 2^-298, and then how many terms were NaN, +infinity, -infinity, anything but -0. Less than 2^31
terms in all never overflow. `arithmetic/exact/sums.py` is the definition, and rounds the result.
"""

from collections.abc import Sequence
from math import prod

import numpy as np
import numpy.typing as npt

from moot.offchain.arithmetic.exact import sums
from moot.offchain.backends.cpu.views import Reader
from moot.offchain.commitments.tensors import Array
from moot.offchain.planning.accesses import iterate_slabs, project, restrict
from moot.offchain.programs.graph import Node

Limbs = npt.NDArray[np.int64]

LIMBS = 23
COLUMNS = LIMBS + 4
_LIMB_BITS, _LOW = 32, (1 << 32) - 1
_HALF_BITS = 24
_SLAB_TERMS = 1 << 20
_ONE = np.ones((1, 1), np.float32)


def add_terms(node: Node, flats: Sequence[Array | None]) -> Limbs:
    """Return the sums of all terms of a contraction or a reduction, but for the initial values.

    Args:
        node: the operator, of the terms that are wanted.
        flats: the tensors that it reads; None for constants.

    Returns:
        (elements, COLUMNS) int64.
    """
    rank = len(node.shape)
    if not node.fold_length:
        return np.zeros((node.elements, COLUMNS), np.int64)
    ranges = [range(size) for size in node.shape + node.fold_shape]
    found = np.zeros((*node.shape, COLUMNS), np.int64)
    limit = _SLAB_TERMS
    for part in iterate_slabs(ranges, range(rank), lambda r: prod(map(len, r)), limit):
        sizes = tuple(len(r) for r in part)
        if not prod(sizes):
            continue
        terms = [
            Reader(restrict(operand, part), sizes).read(flat).reshape(prod(sizes[:rank]), -1)
            for operand, flat in zip(node.operands[1:], flats[1:], strict=True)
        ]
        added = _add_products(terms[0], terms[1] if len(terms) > 1 else _ONE)
        found[tuple(slice(r.start, r.stop) for r in part[:rank])] = added.reshape(
            *sizes[:rank], COLUMNS
        )
    return found.reshape(-1, COLUMNS)


def finish(node: Node, init: Array | None, limbs: Limbs) -> Array:
    """Return the output of an operator: each sum with its initial value, rounded once.

    Args:
        node: the whole operator.
        init: the tensor of its initial values; None for a constant.
        limbs: (elements, COLUMNS) int64: the sums of all workers' terms.
    """
    starts = Reader(project(node.operands[0], range(len(node.shape))), node.shape).read(init)
    bits = np.ascontiguousarray(starts).reshape(-1).view(np.uint32)
    words, counts = _carry(limbs), limbs[:, LIMBS:] > 0
    found = np.empty(len(limbs), np.uint32)
    for place, (word, flags) in enumerate(zip(words, counts.tolist(), strict=True)):
        total = int.from_bytes(word.tobytes(), "little", signed=True)
        accumulator = sums.compose(total, flags)
        found[place] = sums.finish(sums.add(accumulator, sums.begin(int(bits[place]))))
    return found.view(np.float32).reshape(node.shape)


def _carry(limbs: Limbs) -> npt.NDArray[np.int64]:
    """Return the finite sums as little-endian integers in two's complement."""
    words, carry = np.empty((len(limbs), LIMBS), np.uint32), np.zeros(len(limbs), np.int64)
    for place in range(LIMBS):
        carry += limbs[:, place]
        words[:, place] = carry & _LOW
        carry >>= _LIMB_BITS
    return np.concatenate([words.view(np.uint8), carry.view(np.uint8).reshape(-1, 8)], axis=1)


def _add_products(a: Array, b: Array) -> Limbs:
    """Return the sums of the rows of a * b, two arrays that broadcast to (elements, terms)."""
    (first, one, is_one_finite), (second, other, is_other_finite) = map(_split, (a, b))
    product, exponent = first * second, one + other
    is_finite = is_one_finite & is_other_finite
    is_negative = np.signbit(a) ^ np.signbit(b)
    limbs = np.zeros((len(product), COLUMNS), np.int64)
    limbs[:, LIMBS + 3] = (~(is_finite & (product == 0) & is_negative)).sum(axis=1)
    if not is_finite.all():
        _count_special(a, b, is_finite, limbs)
        product = np.where(is_finite, product, 0)
    sign = np.sign(product)
    magnitude = np.abs(product)
    for half in (0, 1):
        piece = (magnitude >> half * _HALF_BITS) & ((1 << _HALF_BITS) - 1)
        place, shift = np.divmod(exponent + half * _HALF_BITS, _LIMB_BITS)
        shifted = piece << shift
        starts = np.arange(len(product))[:, None] * COLUMNS + place
        np.add.at(limbs.reshape(-1), starts, sign * (shifted & _LOW))
        np.add.at(limbs.reshape(-1), starts + 1, sign * (shifted >> _LIMB_BITS))
    return limbs


def _split(x: Array) -> tuple[Limbs, Limbs, npt.NDArray[np.bool_]]:
    """Return signed significands, exponents above the least one, and which numbers are finite."""
    bits = np.ascontiguousarray(x).view(np.uint32).astype(np.int64)
    field, fraction = (bits >> 23) & 0xFF, bits & 0x7FFFFF
    significand = np.where(field > 0, fraction | 1 << 23, fraction)
    return np.where(bits >> 31, -significand, significand), np.maximum(field, 1) - 1, field < 0xFF


def _count_special(a: Array, b: Array, is_finite: npt.NDArray[np.bool_], limbs: Limbs) -> None:
    with np.errstate(all="ignore"):
        special = np.where(is_finite, np.float32(0), np.multiply(a, b))
    limbs[:, LIMBS] = np.isnan(special).sum(axis=1)
    limbs[:, LIMBS + 1] = np.isposinf(special).sum(axis=1)
    limbs[:, LIMBS + 2] = np.isneginf(special).sum(axis=1)
