"""Packed factors: a run copies what several of its products read, and changes no bit."""

from dataclasses import replace
from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from offchain.arithmetic.exact import EXACT
from offchain.arithmetic.functions import DType, Function
from offchain.arithmetic.ordered import ORDERED
from offchain.commitments.tensors import Array
from offchain.execution.executor import Executor
from offchain.execution.preparation import Preparation
from offchain.programs.graph import Kind, Node, Operand, Origin, Program, Row, Slot, immediate
from offchain.programs.semantics import compute_element

FLOAT = DType.FLOAT32
COLUMNS, STEPS = 160, 128
"""The weights, (COLUMNS, STEPS), of which a product folds the rows."""


def read(
    origin: Origin, number: int, shape: tuple[int, ...], variables: tuple[int, ...]
) -> Operand:
    """Return the access to a tensor whose coordinates are these variables."""
    rows = tuple(Row(n, terms=((v, 1),)) for n, v in zip(shape, variables, strict=True))
    return Operand(origin, FLOAT, number, rows=rows)


def make_program(rows: int, count: int, *, is_swapped: bool) -> Program:
    """Return a program of products of different rows and the same weights, each kept.

    Products are (rows, COLUMNS), or turned if swapped.
    """
    start = immediate(FLOAT, 0)
    shape = (COLUMNS, rows) if is_swapped else (rows, COLUMNS)
    row, column = (1, 0) if is_swapped else (0, 1)
    nodes = []
    for number in range(count):
        factors = [
            read(Origin.BATCH, number, (rows, STEPS), (row, 2)),
            read(Origin.STATE, 0, (COLUMNS, STEPS), (column, 2)),
        ]
        operands = (start, *(factors[::-1] if is_swapped else factors))
        nodes.append(Node(Kind.CONTRACT, Function.FMA, FLOAT, shape, operands, (STEPS,)))
    weights = Slot("weights", FLOAT, (COLUMNS, STEPS))
    sinks = [
        Node(
            Kind.SINK,
            Function.COPY,
            FLOAT,
            weights.shape,
            (read(Origin.STATE, 0, weights.shape, (0, 1)),),
        )
    ]
    sinks += [
        Node(Kind.SINK, Function.COPY, FLOAT, shape, (read(Origin.NODE, number, shape, (0, 1)),))
        for number in range(count)
    ]
    state = (weights, *(Slot(f"product{i}", FLOAT, shape) for i in range(count)))
    batch = tuple(Slot(f"rows{i}", FLOAT, (rows, STEPS)) for i in range(count))
    names = tuple(f"operator{i}" for i in range(len(nodes) + len(sinks)))
    return Program(state, batch, (*nodes, *sinks), names, names)


def draw(program: Program, seed: int) -> tuple[list[Array], list[Array]]:
    """Return a state and a batch, some elements of which are infinite, or zeros of any sign."""
    rng = np.random.default_rng(seed)
    tensors = []
    for slot in (*program.state, *program.batch):
        tensor = rng.standard_normal(slot.shape).astype(np.float32)
        places = rng.random(slot.shape)
        tensor[places < 0.002] = -0.0
        tensor[places > 0.9999] = np.inf
        tensors.append(tensor)
    return tensors[: len(program.state)], tensors[len(program.state) :]


@settings(max_examples=8, deadline=None)
@given(
    rows=st.sampled_from([1, 2, 5, 8, 9, 33]),
    count=st.sampled_from([3, 4, 5]),
    is_swapped=st.booleans(),
    seed=st.integers(0, 2**16),
)
def test_packing_changes_no_bit(*, rows: int, count: int, is_swapped: bool, seed: int) -> None:
    """Runs, in sequences or not, compute the bits of each product by itself."""
    program = make_program(rows, count, is_swapped=is_swapped)
    state, batch = draw(program, seed)
    shown: dict[int, Array] = {}
    executor = Executor(program, threads=1)
    executor.run(state, batch, 0, observe=lambda i, x: shown.update({i: x}))
    for turn in range(5):
        found = executor.run(state, batch, turn)
        for number in range(count):
            assert found[1 + number].tobytes() == shown[number].tobytes()
    replaced = list(state)
    executor.advance(replaced, batch, 0)
    assert [x.tobytes() for x in replaced] == [x.tobytes() for x in found]


def test_products_are_as_defined() -> None:
    """Some elements of products of packed weights are those of the definition."""
    program = make_program(3, 4, is_swapped=False)
    state, batch = draw(program, 1)
    found = Executor(program, threads=1).run(state, batch, 0)

    def fetch(_place: int, operand: Operand, index: int) -> int:
        tensors = batch if operand.origin is Origin.BATCH else state
        return int(tensors[operand.reference].view(np.uint32).reshape(-1)[index])

    for number, element in product(range(4), (0, 161, 3 * COLUMNS - 1)):
        bits = compute_element(ORDERED, program.nodes[number], element, 0, fetch)
        assert found[1 + number].view(np.uint32).reshape(-1)[element] == bits


@pytest.mark.parametrize(("count", "copies"), [(3, 0), (4, 1), (6, 1)])
def test_few_readers_are_worth_no_copy(count: int, copies: int) -> None:
    """One copy is made for four products and more, and counts as memory; none for three."""
    program = make_program(8, count, is_swapped=False)
    ready = Preparation(program).fused
    assert [copy.shape for copy in ready.copies] == [(STEPS, COLUMNS)] * copies
    outputs = 4 * count * 8 * COLUMNS
    assert ready.needed_bytes == outputs + 4 * STEPS * COLUMNS * copies


def test_only_runs_in_order_copy() -> None:
    """Nothing is packed where somebody looks on, nor in an arithmetic whose sums are exact."""
    program = make_program(8, 5, is_swapped=False)
    assert not Preparation(program).shown.copies
    assert not Preparation(replace(program, arithmetic=EXACT)).fused.copies
