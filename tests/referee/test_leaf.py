"""The leaf of model and contract: any operator over any operands, and wrong evidence."""

from collections.abc import Iterator
from dataclasses import astuple, replace
from functools import cache
from typing import Any

import pytest
from hypothesis import event, given, settings
from hypothesis import strategies as st

from contracts.compiler import compile_contract
from contracts.model.leaf import Context, compute_leaf, read_node
from contracts.model.types import NOBODY, ZERO
from contracts.reasons import Reason, Revert
from offchain.programs.encoding import MAX_NODE_BYTES, encode_node
from offchain.programs.graph import Node, Operand, Origin, Row
from tests.machine import Deployed, Machine
from tests.projection import MAX_EVIDENCE_BYTES
from tests.referee.nodes import Leaf, leaves, operators
from tests.referee.programs import every_kind


@cache
def get_leaf() -> tuple[Machine, Deployed]:
    """Return the contract that computes leaves."""
    machine = Machine([NOBODY])
    functions = machine.deploy(compile_contract("transcendental"))
    return machine, machine.deploy(compile_contract("leaf"), functions.address)


def ask(name: str, *args: Any) -> Any:
    """Return what the contract says, or the reason why it does not."""
    machine, leaf = get_leaf()
    data = leaf.codec.encode_call(name, args)
    result = machine.call(leaf.raw, data, sender=NOBODY, value_wei=0, block=1)
    return result.reason or leaf.codec.decode_result(name, args, result.output)


def pack_context(context: Context) -> tuple[Any, ...]:
    """Return a context as the contract takes it."""
    trace_top, operators_, before, *rest = astuple(context)
    return trace_top, operators_, before is not None, before or ZERO, *rest


def compute(leaf: Leaf, evidence: bytes) -> int | str:
    """Return what the model computes, or the reason why it does not."""
    if len(evidence) > MAX_EVIDENCE_BYTES:
        return Reason.NO_REASON
    try:
        return compute_leaf(leaf.context, read_node(encode_node(leaf.node)), evidence)
    except Revert as refusal:
        return str(refusal)


def assert_computed_alike(leaf: Leaf, evidence: bytes) -> int | str:
    """Compare what the two say of a leaf, and return it."""
    expected = compute(leaf, evidence)
    args = (pack_context(leaf.context), encode_node(leaf.node), evidence)
    assert ask("compute", *args) == expected
    return expected


@settings(max_examples=250, deadline=None)
@given(case=leaves())
def test_leaves_of_all_kinds_are_computed_alike(case: Leaf) -> None:
    """For any operator over any operands the contract computes what the specification says.

    Evidence that shows what is read is never what it refuses.
    """
    said = assert_computed_alike(case, case.evidence)
    assert said != Reason.BAD_OPERAND
    event(f"{case.node.kind.name} {'computed' if isinstance(said, int) else said}")


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


@settings(max_examples=200, deadline=None)
@given(case=leaves(), data=st.data())
def test_wrong_evidence_is_refused_alike(case: Leaf, data: st.DataObject) -> None:
    """One change in the evidence, or in its length, is refused by both, or changes nothing."""
    wrong = data.draw(st.sampled_from(list(list_wrong(case))))
    said = assert_computed_alike(case, wrong)
    event(said if isinstance(said, str) else "computed")


def inspect(encoding: bytes) -> Any:
    """Return what the model says of an encoding, as `inspect` does."""
    if len(encoding) > MAX_NODE_BYTES:
        return Reason.NO_REASON
    try:
        node = read_node(encoding)
    except Revert as refusal:
        return str(refusal)
    return node.dtype.width, node.elements, node.fold_length if node.kind.folds else 0


def assert_inspected_alike(encoding: bytes) -> None:
    """Compare what the two say of an encoding."""
    assert ask("inspect", encoding) == inspect(encoding)


@settings(max_examples=100, deadline=None)
@given(node=operators(), data=st.data())
def test_malformed_operators_are_refused_alike(node: Node, data: st.DataObject) -> None:
    """Of valid encodings, and of ones with a byte changed, lost or added, both accept the same."""
    encoding = encode_node(node)
    assert_inspected_alike(encoding)
    place = data.draw(st.integers(0, len(encoding) - 1))
    byte = data.draw(st.sampled_from([0, 1, 2, 3, 4, 5, 8, 9, 12, 13, 29, 30, 31, 32, 78, 81, 255]))
    changed = encoding[:place] + bytes([byte]) + encoding[place + 1 :]
    for wrong in (changed, encoding[:place], encoding[:place] + encoding[place + 1 :]):
        assert_inspected_alike(wrong)
    assert_inspected_alike(encoding + bytes([byte]))


def test_every_byte_of_an_operator_counts() -> None:
    """Of the encodings of all kinds, each cut short at every length is refused by both."""
    for node in every_kind().nodes[5:13]:
        encoding = encode_node(node)
        for length in range(0, len(encoding), 7):
            assert_inspected_alike(encoding[:length])


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
def test_sizes_and_types_have_their_limits(node_index: int, changes: dict[str, Any]) -> None:
    """Shapes at and above 2^63 bytes, and types that do not fit, are judged alike."""
    node = every_kind().nodes[node_index]
    assert_inspected_alike(encode_node(replace(node, **changes)))


def test_rows_have_their_limits() -> None:
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
        assert_inspected_alike(encode_node(replace(node, operands=(operand,))))


def test_constants_have_no_rows_and_fit_their_type() -> None:
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
        assert_inspected_alike(encode_node(replace(node, operands=(operand,))))
