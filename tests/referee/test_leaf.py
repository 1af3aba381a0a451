"""The leaf in model and contract, for any operator over any operands, and for wrong evidence."""

import random
from collections.abc import Callable, Iterator
from itertools import islice
from typing import Any
from zlib import crc32

import pytest
from hypothesis import event, given, settings
from hypothesis import strategies as st

from moot.contracts.model.leaf import compute_leaf, read_node
from moot.contracts.reasons import Reason, Revert
from moot.offchain.arithmetic.base import Arithmetic
from moot.offchain.arithmetic.functions import DType, Function
from moot.offchain.arithmetic.ordered import ORDERED
from moot.offchain.arithmetic.table import ARITHMETICS
from moot.offchain.programs.encoding import encode_node
from moot.offchain.programs.graph import Kind, Node, immediate
from moot.offchain.programs.limits import MAX_EVIDENCE_BYTES, MAX_NODE_BYTES
from moot.offchain.programs.semantics import count_links
from tests.quick import every, share
from tests.referee.chosen import list_forged, list_products, list_proven, make_constant_leaf
from tests.referee.leaf_contract import get_leaf
from tests.referee.malformed import BYTES, LIMITS, list_changed, list_types
from tests.referee.nodes import Leaf, Place, leaves, operators

OTHERS_EVERY = 16
ENDING = [arithmetic for arithmetic in ARITHMETICS.values() if arithmetic.ends_on_chain]
"""The arithmetics whose scalar operations a contract computes."""


def compute(leaf: Leaf, evidence: bytes) -> int | str:
    """Return what the model computes, or the reason why it does not."""
    if len(evidence) > MAX_EVIDENCE_BYTES:
        return Reason.NO_REASON
    try:
        node = read_node(encode_node(leaf.node), leaf.arithmetic)
        return compute_leaf(leaf.arithmetic, leaf.context, node, evidence)
    except Revert as refusal:
        return str(refusal)


def assert_computed_alike(leaf: Leaf, evidence: bytes) -> int | str:
    """Compare what the two say of a leaf, and return it."""
    expected = compute(leaf, evidence)
    contract = get_leaf(leaf.arithmetic)
    assert contract.compute(leaf.context, encode_node(leaf.node), evidence) == expected
    return expected


any_leaves = st.sampled_from(ENDING).flatmap(leaves)


@settings(max_examples=share(250), deadline=None)
@given(case=any_leaves)
def test_leaves_of_all_kinds_are_computed_alike(case: Leaf) -> None:
    """For any operator over any operands the contract computes what the specification says.

    Evidence that shows what is read is never what it refuses.
    """
    said = assert_computed_alike(case, case.evidence)
    assert said != Reason.BAD_OPERAND
    event(f"{case.node.kind.name} {'computed' if isinstance(said, int) else said}")


def test_chosen_leaves_are_computed_alike() -> None:
    """At the limits of trees and tensors both compute; what was forged both refuse."""
    for leaf in list_proven():
        assert isinstance(assert_computed_alike(leaf, leaf.evidence), int)
    for leaf in list_forged():
        assert assert_computed_alike(leaf, leaf.evidence) == Reason.BAD_OPERAND


EQUALS = {
    DType.FLOAT32: (0, 0x3F800000, 0xBF800000, 0x7F800000, 0xFF800000, 0x7FC00000),
    DType.INT64: (0, 1, (1 << 64) - 1, 1 << 63, (1 << 63) - 1),
}
"""Values of which two are the same: none, of either sign, the greatest, the least, no number."""


@pytest.mark.parametrize("function", [Function.ARGMAX, Function.ARGMIN])
def test_a_search_keeps_the_first_of_equals(function: Function) -> None:
    """Whatever all elements are: the best one so far stays where it was, in every position."""
    for dtype, values in EQUALS.items():
        for value in values:
            operands = (immediate(DType.INT64, 0), immediate(dtype, value))
            node = Node(Kind.REDUCE, function, DType.INT64, (1,), operands, (9,))
            for best, position in ((0, 1), (3, 4), (0, 8)):
                at = Place(position=position + 1, accumulator=best)
                leaf = make_constant_leaf(node, at)
                assert assert_computed_alike(leaf, b"") == best


@pytest.mark.parametrize("arithmetic", ENDING, ids=lambda arithmetic: arithmetic.name)
def test_products_of_integers_are_added_up(arithmetic: Arithmetic) -> None:
    """A step adds a product to a third integer, modulo what that holds; bits above do not count."""
    for leaf, expected in list_products(arithmetic):
        assert assert_computed_alike(leaf, b"") == expected


def list_wrong(leaf: Leaf) -> Iterator[bytes]:
    """Yield evidence in which one piece has been changed, cut, dropped, doubled or moved."""
    pieces = [piece for proof in leaf.proofs for piece in proof]
    yield from (b"", leaf.evidence + b"\0", leaf.evidence[:-1], leaf.evidence * 99, b"\0" * 500)
    for place, piece in enumerate(pieces):
        before, after = b"".join(pieces[:place]), b"".join(pieces[place + 1 :])
        changes = [b"", piece * 2, piece[:-1]]
        if piece:
            changes += [bytes([piece[0] ^ 1]) + piece[1:], piece[:-1] + bytes([piece[-1] ^ 128])]
            changes += [piece[:1] + bytes([piece[1] ^ 9]) + piece[2:]]
        yield from (before + changed + after for changed in changes)
    if len(leaf.proofs) > 1:
        yield b"".join(piece for proof in leaf.proofs[::-1] for piece in proof)


@settings(max_examples=share(200), deadline=None)
@given(case=any_leaves, data=st.data())
def test_wrong_evidence_is_refused_alike(case: Leaf, data: st.DataObject) -> None:
    """One change in the evidence, or in its length, is refused by both, or changes nothing."""
    wrong = data.draw(st.sampled_from(list(list_wrong(case))))
    said = assert_computed_alike(case, wrong)
    event(said if isinstance(said, str) else "computed")


def inspect(arithmetic: Arithmetic, encoding: bytes) -> Any:
    """Return what the model says of an encoding, as `inspect` does."""
    if len(encoding) > MAX_NODE_BYTES:
        return Reason.NO_REASON
    try:
        node = read_node(encoding, arithmetic)
    except Revert as refusal:
        return str(refusal)
    return node.dtype.width, node.elements, count_links(arithmetic, node)


def assert_inspected_alike(encoding: bytes) -> Any:
    """Compare what the two say of an encoding, and return it.

    The leaves of other arithmetics, which have the same decoder, are asked of one of many.
    """
    for arithmetic in ENDING:
        if arithmetic == ORDERED or crc32(encoding) % OTHERS_EVERY == 0:
            expected = inspect(arithmetic, encoding)
            assert get_leaf(arithmetic).ask("inspect", encoding) == expected
    return inspect(ORDERED, encoding)


@settings(max_examples=share(100), deadline=None)
@given(node=st.sampled_from([None, DType.BFLOAT16]).flatmap(operators), data=st.data())
def test_malformed_operators_are_refused_alike(node: Node, data: st.DataObject) -> None:
    """Of valid encodings, and of ones with a byte changed, lost or added, both accept the same."""
    encoding = encode_node(node)
    assert_inspected_alike(encoding)
    place = data.draw(st.integers(0, len(encoding) - 1))
    byte = data.draw(st.sampled_from(BYTES))
    changed = encoding[:place] + bytes([byte]) + encoding[place + 1 :]
    for wrong in (changed, encoding[:place], encoding[:place] + encoding[place + 1 :]):
        assert_inspected_alike(wrong)
    assert_inspected_alike(encoding + bytes([byte]))


@pytest.mark.parametrize("stride", [pytest.param(1, marks=pytest.mark.slow), 7])
def test_every_byte_of_an_operator_counts(stride: int) -> None:
    """Encodings of all kinds, cut short, or with a byte changed, are judged alike."""
    for encoding in islice(list_changed(random.Random(3)), 0, None, stride):
        assert_inspected_alike(encoding)


@pytest.mark.parametrize(
    ("cases", "stride"),
    every(
        6,
        [
            pytest.param(list_types, 1, marks=pytest.mark.slow),
            (list_types, 3),
            *((cases, 1) for cases in LIMITS if cases is not list_types),
        ],
    ),
)
def test_operators_have_their_limits(cases: Callable[[], Iterator[bytes]], stride: int) -> None:
    """At the limits of sizes, types, counts, rows and constants, and beyond, both agree."""
    encodings = islice(cases(), 0, None, stride)
    is_refused = {assert_inspected_alike(encoding) == Reason.BAD_OPERATOR for encoding in encodings}
    assert is_refused == {True, False}
