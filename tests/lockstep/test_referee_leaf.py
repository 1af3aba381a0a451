from dataclasses import replace
from typing import Any

import pytest
from hypothesis import event, given, settings
from hypothesis import strategies as st

from contracts.compiler import compile_contract
from contracts.model.leaf import compute_leaf, is_known, read_node
from contracts.model.types import NO_OPENING, Opening
from contracts.reasons import Reason, Revert
from offchain.chain import Chain, Contract
from offchain.commitments.tensors import EMPTY_TOP, encode_header, hash_tensor
from offchain.errors import Reverted
from offchain.programs.encoding import MAX_NODE_BYTES, encode_node
from offchain.programs.graph import Node, Operand, Origin, Row
from tests.lockstep.harness import encode, fits
from tests.lockstep.mutations import mutate
from tests.lockstep.nodes import Leaf, leaves, operators
from tests.lockstep.programs import every_kind

TOP = b"\x77" * 32


@pytest.fixture(scope="session")
def leaf(deployed: tuple[Chain, Contract, Any]) -> Contract:
    """The contract that computes leaves."""
    chain, referee, _ = deployed
    return chain.at(compile_contract("leaf"), referee.call("leaf_contract"))


def call(contract: Contract, name: str, *args: Any) -> Any:
    """Return what a view says, or the reason why it does not."""
    try:
        return contract.call(name, *map(encode, args))
    except Reverted as refusal:
        return refusal.reason


def compute(leaf: Leaf, encoding: bytes, openings: tuple[Opening, ...]) -> int | str:
    """Return what the model computes, or the reason why it does not."""
    if not fits("leaf", (encoding, openings)):
        return Reason.NO_REASON
    try:
        return compute_leaf(leaf.context, read_node(encoding), openings)
    except Revert as refusal:
        return refusal.reason


@settings(max_examples=250, deadline=None)
@given(case=leaves())
def test_leaves_of_all_kinds_are_computed_alike(leaf: Contract, case: Leaf) -> None:
    """For any operator over any operands the contract computes what the specification says."""
    encoding = encode_node(case.node)
    expected = compute(case, encoding, case.openings)
    event(f"{case.node.kind.name} {'computed' if isinstance(expected, int) else expected}")
    assert call(leaf, "compute", case.context, encoding, case.openings) == expected


@settings(max_examples=200, deadline=None)
@given(case=leaves(), data=st.data())
def test_leaves_refuse_wrong_openings_alike(
    leaf: Contract, case: Leaf, data: st.DataObject
) -> None:
    """One change in one opening, or in a proof's length, is refused, or changes nothing."""
    encoding = encode_node(case.node)
    wrong = data.draw(st.sampled_from([*mutate(case.openings), (NO_OPENING,) * 3]))
    expected = compute(case, encoding, wrong)
    event(str(expected) if isinstance(expected, str) else "computed")
    assert call(leaf, "compute", case.context, encoding, wrong) == expected


def inspect(encoding: bytes) -> tuple[Any, Any]:
    """Return what the model says of an encoding: as `inspect` and `is_known` do."""
    if len(encoding) > MAX_NODE_BYTES:
        return Reason.NO_REASON, Reason.NO_REASON
    try:
        node = read_node(encoding)
    except Revert as refusal:
        return refusal.reason, refusal.reason
    root = hash_tensor(encode_header(node.dtype, node.shape), TOP if node.elements else EMPTY_TOP)
    length = node.fold_length if node.kind.folds else 0
    return (node.dtype.width, node.elements, length, root), is_known(node)


def assert_inspected_alike(leaf: Contract, encoding: bytes) -> None:
    """Compare what the two say of an encoding."""
    summary, known = inspect(encoding)
    assert call(leaf, "inspect", encoding, TOP) == summary
    assert call(leaf, "is_known", encoding) == known


@settings(max_examples=100, deadline=None)
@given(node=operators(), data=st.data())
def test_malformed_operators_are_refused_alike(
    leaf: Contract, node: Node, data: st.DataObject
) -> None:
    """Of valid encodings, and of ones with a byte changed, lost or added, both accept the same."""
    encoding = encode_node(node)
    assert_inspected_alike(leaf, encoding)
    place = data.draw(st.integers(0, len(encoding) - 1))
    byte = data.draw(st.sampled_from([0, 1, 2, 3, 4, 5, 8, 9, 12, 13, 29, 30, 31, 32, 78, 81, 255]))
    changed = encoding[:place] + bytes([byte]) + encoding[place + 1 :]
    for wrong in (changed, encoding[:place], encoding[:place] + encoding[place + 1 :]):
        assert_inspected_alike(leaf, wrong)
    assert_inspected_alike(leaf, encoding + bytes([byte]))


def test_every_byte_of_an_operator_counts(leaf: Contract) -> None:
    """Of the encodings of all kinds, each cut short at every length is refused by both."""
    for node in every_kind().nodes[5:13]:
        encoding = encode_node(node)
        for length in range(0, len(encoding), 7):
            assert_inspected_alike(leaf, encoding[:length])


@pytest.mark.parametrize(
    ("node_index", "changes"),
    [
        (8, {"shape": (2**31, 2**30)}),
        (8, {"shape": (2**31, 2**29)}),
        (8, {"shape": (2**63, 2**63, 2**63, 2**63, 2**63, 0)}),
        (8, {"shape": (2**64 - 1,) * 8}),
        (5, {"fold_shape": (2**31, 2**30)}),
        (5, {"fold_shape": (2**60, 2)}),
        (5, {"fold_shape": (2**64 - 1, 0, 2**64 - 1)}),
        *((13, {"function": function}) for function in (5, 11, 21, 29, 30, 64, 77, 80)),
        *((6, {"function": function}) for function in (0, 2, 17, 28, 29, 31, 64)),
        *((7, {"function": function, "dtype": 3}) for function in (1, 30, 31)),
        *((10, {"function": function}) for function in (0, 2, 7, 29, 30)),
        *((5, {"function": function}) for function in (0, 1, 3)),
        *((8, {"function": function}) for function in (1, 29)),
        *((9, {"function": function}) for function in (1, 30)),
        *((12, {"function": function}) for function in (0, 28)),
        *((index, {"dtype": dtype}) for index in (5, 6, 9, 10, 12, 13) for dtype in (2, 4)),
    ],
)
def test_sizes_and_types_have_their_limits(
    leaf: Contract, node_index: int, changes: dict[str, Any]
) -> None:
    """Shapes at and above 2^63 bytes, and types that do not fit, are judged alike."""
    node = every_kind().nodes[node_index]
    assert_inspected_alike(leaf, encode_node(replace(node, **changes)))


def test_rows_have_their_limits(leaf: Contract) -> None:
    """An operand's rows, terms, divisors and sizes are judged alike at their limits."""
    node = every_kind().nodes[8]
    terms = tuple((v, 1) for v in range(2))
    accesses = [
        (Row(1),) * 8,
        (Row(1),) * 9,
        (Row(2**64 - 1, terms=terms),),
        (Row(2**60), Row(2)),
        (Row(2**60), Row(2), Row(0)),
        (Row(1, -(2**63), ((0, -(2**63)),), 2**32 - 1),),
        (Row(1, 0, ((1, 1), (0, 1))),),
        (Row(1, 0, ((0, 1), (0, 1))),),
        (Row(1, 0, ((2, 1),)),),
        (Row(1, 0, ((1, 0),)),),
        (Row(1, 0, (), 0),),
        (Row(1, 0, tuple((v, 1) for v in range(13))),),
    ]
    for access in accesses:
        operand = Operand(Origin.NODE, node.dtype, 0, 0, access)
        assert_inspected_alike(leaf, encode_node(replace(node, operands=(operand,))))


def test_constants_have_no_rows_and_fit_their_type(leaf: Contract) -> None:
    """A constant with a reference, with rows, or wider than its type is refused by both."""
    node = every_kind().nodes[8]
    for operand in (
        Operand(Origin.IMMEDIATE, node.dtype, 0, 0x7FC00000),
        Operand(Origin.IMMEDIATE, node.dtype, 0, 0x7FC00001),
        Operand(Origin.IMMEDIATE, node.dtype, 0, 0xFF800000),
        Operand(Origin.IMMEDIATE, node.dtype, 0, 0xFF800001),
        Operand(Origin.IMMEDIATE, node.dtype, 0, 2**32),
        Operand(Origin.IMMEDIATE, node.dtype, 1, 0),
        Operand(Origin.IMMEDIATE, node.dtype, 0, 0, (Row(1),)),
        Operand(Origin.STATE, node.dtype, 2**32 - 1, 2**32, (Row(1),)),
    ):
        assert_inspected_alike(leaf, encode_node(replace(node, operands=(operand,))))
