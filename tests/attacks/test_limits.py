"""The largest trees, tensors, folds and encodings that the protocol allows."""

from dataclasses import astuple
from functools import cache

import pytest

from moot.contracts.compiler import compile_contract
from moot.contracts.model.leaf import Context, compute_leaf
from moot.contracts.model.types import FOLD_ARITY, ZERO
from moot.contracts.reasons import Ending, Phase
from moot.offchain.arithmetic.functions import DType, Function
from moot.offchain.arithmetic.ordered import ORDERED
from moot.offchain.commitments.tags import CHUNK_BYTES, Tag
from moot.offchain.disputes.referee.gas import calculate_gas_limit
from moot.offchain.programs.encoding import encode_node
from moot.offchain.programs.graph import Kind, Node, Operand, Origin, Row, immediate
from moot.offchain.programs.limits import (
    MAX_EVIDENCE_BYTES,
    MAX_NODE_BYTES,
    MAX_OPERANDS,
    MAX_SLOTS,
    MAX_STEPS,
)
from moot.offchain.programs.semantics import compute_element
from moot.sim.synthetic.run_length import RunLengthTensor, RunLengthTree
from tests.attacks.court import Court
from tests.attacks.elements import decide, make_runs, make_task
from tests.attacks.twin import Twin
from tests.quick import every

F32 = DType.FLOAT32
ELEMENTS = 2**61 - 1
"""Four bytes each: the largest tensor, whose last chunk lacks one element."""
ONE, TWO = 0x3F800000, 0x40000000


@pytest.mark.parametrize("element", every(12, [ELEMENTS - 1, ELEMENTS // 3, 64]))
def test_s8_elements_of_the_largest_tensor(referee: Twin, element: int) -> None:
    """Step 2^32 - 1, chunk 2^55 - 1, element 2^61 - 2: indices are neither cut nor confused."""
    node = Node(Kind.RANDOM, Function.UNIFORM, F32, (ELEMENTS,), seed=2**64 - 1, stream=2**32 - 1)

    def fetch(place: int, operand: Operand, index: int) -> int:
        raise AssertionError((place, operand, index))

    right = compute_element(ORDERED, node, element, MAX_STEPS - 1, fetch)
    task = make_task(node, MAX_STEPS)
    court = Court(referee, task, make_runs(task, node, (right, right ^ 1), element))
    pair = court.begin()
    court.play_to(pair, Phase.LEAF)
    board = court.look(pair)
    assert board is not None
    assert (board.facts.step, board.facts.element) == (MAX_STEPS - 1, element)
    assert court.finish(pair) == (court.members[0], Ending.SCALAR)


@pytest.mark.parametrize("place", every(8, [0, 1, 2**60 + 12345, ELEMENTS - 1]))
def test_s8_longest_fold(referee: Twin, place: int) -> None:
    """A fold of 2^61 - 1 steps is narrowed to any of its steps, in eleven rounds and a leaf.

    One side says that the sum of ones is 1 from the first step on, the other that it is 2 from one
    of them on: it is right if that is the second, and wrong like the first otherwise.
    """
    operands = (immediate(F32, 0), immediate(F32, ONE))
    node = Node(Kind.REDUCE, Function.ADD, F32, (), operands, (ELEMENTS,))
    task = make_task(node)
    runs = make_runs(task, node, (ONE, TWO))
    runs[0].accumulators = lambda done: ONE if done else 0
    runs[1].accumulators = lambda done: TWO if done > place else ONE if done else 0
    court = Court(referee, task, runs)
    pair = court.begin()
    court.play_to(pair, Phase.LEAF)
    board = court.look(pair)
    assert board is not None
    assert (board.facts.low, board.facts.high) == (place, place + 1)
    assert ELEMENTS <= FOLD_ARITY**11
    winner = court.members[1 if place else 0]
    assert court.finish(pair) == (winner, Ending.SCALAR)


def test_s8_single_chunk_and_single_slot_have_trees_without_levels(referee: Twin) -> None:
    """A tree of one leaf is entered and left like any other."""
    node = Node(Kind.MOVE, Function.COPY, F32, (1,), (immediate(F32, 0),))
    assert decide(referee, node, (0, 1)) == (0, Ending.SCALAR)


def test_s8_tensors_without_elements_have_one_root(referee: Twin) -> None:
    """A tensor without elements has one root, and whoever claims another one loses."""
    node = Node(Kind.MOVE, Function.COPY, F32, (0, 3), (immediate(F32, 0),))
    task = make_task(node)
    runs = make_runs(task, node, (0, 1))
    other = Node(Kind.MOVE, Function.COPY, F32, (3, 0), node.operands)
    runs[1] = make_runs(task, other, (0, 1))[1]
    court = Court(referee, task, runs)
    pair = court.begin()
    court.await_call(pair, "enter_tensor")
    if (pair.first, pair.second)[court.at(pair).mover] != court.members[0]:
        referee.mine_to(court.at(pair).deadline + 1)
        referee.call("timeout", court.client, pair, court.at(pair))
    else:
        assert court.finish(pair) == (court.members[0], Ending.EMPTY)


@cache
def make_largest_encodings() -> tuple[bytes, ...]:
    """Return valid encodings close to the greatest length, with many rows and many terms."""
    row = Row(2, 0, tuple((v, 1 - 2**63) for v in range(8)))
    wide = Operand(Origin.STATE, F32, 0, 0, (row,) * 8)
    narrow = Operand(Origin.STATE, F32, 0, 0, (Row(2),) * 8)
    shape = (1,) * 8
    return (
        encode_node(Node(Kind.MOVE, Function.COPY, F32, shape, (wide, wide))),
        encode_node(Node(Kind.MOVE, Function.COPY, F32, shape, (narrow,) * 8)),
    )


@pytest.mark.parametrize("encoding", make_largest_encodings())
def test_g2_largest_operators_are_read_with_little_gas(referee: Twin, encoding: bytes) -> None:
    """An operator that fills its encoding takes a small part of a transaction's gas."""
    assert MAX_NODE_BYTES * 2 // 3 < len(encoding) <= MAX_NODE_BYTES
    leaf = referee.chain.at(compile_contract("leaf"), referee.contract.call("leaf_contract"))
    receipt = leaf.transact("inspect", encoding, sender=referee.chain.accounts[0])
    assert receipt.gas_used < 2**20


def make_longest_leaf() -> tuple[Context, Node, bytes]:
    """Return a leaf that reads eight elements of the largest tensors in the largest data set."""
    widths = {DType.INT64: 2**60 - 1, F32: ELEMENTS}
    step, last = MAX_STEPS - 1, MAX_SLOTS - 1
    tensors = {
        dtype: RunLengthTensor(dtype, (1,) * 7 + (n,), {0: 0}) for dtype, n in widths.items()
    }
    roots = {0: tensors[DType.INT64].root, step * MAX_SLOTS + last: tensors[F32].root}
    data = RunLengthTree(Tag.DATA_NODE, MAX_STEPS * MAX_SLOTS, roots)
    reads = []
    evidence = []
    for place in (*range(1, MAX_OPERANDS), 0):
        dtype, slot = (F32, last) if place == 0 else (DType.INT64, last - place)
        rows = (
            *[Row(1, 0, tuple((v, 1) for v in range(8 * (place == 0))))] * 7,
            Row(widths[dtype]),
        )
        reads.append(Operand(Origin.BATCH, dtype, slot, 0, rows))
        tensor = tensors[dtype]
        assert tensor.tree is not None
        siblings = (*tensor.tree.proof(0), *data.proof(step * MAX_SLOTS + slot))
        evidence += [tensor.header, tensor.chunk(0).ljust(CHUNK_BYTES, b"\0"), *siblings]
    node = Node(Kind.GATHER, Function.COPY, F32, (1,) * 8, (reads[-1], *reads[:-1]))
    counts = {"operators": 1, "state_slots": 1, "batch_slots": MAX_SLOTS, "steps": MAX_STEPS}
    place_ = {"step": step, "element": 0, "position": 0, "accumulator": 0}
    tops = {"trace_top": ZERO, "before": ZERO, "data_top": data.top}
    return Context(**tops, **counts, **place_), node, b"".join(evidence)


def test_g2_longest_leaf_is_computed_with_what_it_is_offered(referee: Twin) -> None:
    """The evidence of eight operands in the largest trees fits into a call, and into its gas."""
    context, node, evidence = make_longest_leaf()
    assert len(evidence) == MAX_EVIDENCE_BYTES
    assert len(encode_node(node)) > MAX_NODE_BYTES * 3 // 4
    assert compute_leaf(ORDERED, context, node, evidence) == 0
    leaf = referee.chain.at(compile_contract("leaf"), referee.contract.call("leaf_contract"))
    top, operators, before, *rest = astuple(context)
    args = ((top, operators, True, before, *rest), encode_node(node), evidence)
    assert leaf.call("compute", *args) == 0
    receipt = leaf.transact("compute", *args, sender=referee.chain.accounts[0])
    told = calculate_gas_limit("leaf", b"") // 2
    data = encode_node(node) + evidence
    assert receipt.gas_used + told < calculate_gas_limit("leaf", data) < 2**21
