"""Packed factors: a run copies what several of its products read, and changes no bit."""

from collections.abc import Sequence
from dataclasses import replace
from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from moot.offchain.arithmetic.exact import EXACT
from moot.offchain.arithmetic.functions import DType, Function
from moot.offchain.arithmetic.ordered import ORDERED
from moot.offchain.backends.cpu import contractions, panels
from moot.offchain.backends.cpu.kernels.contraction import tile
from moot.offchain.commitments.tensors import Array
from moot.offchain.execution.executor import Executor
from moot.offchain.execution.preparation import Preparation
from moot.offchain.programs.graph import Kind, Node, Operand, Origin, Program, Row, Slot, immediate
from moot.offchain.programs.semantics import compute_element
from tests.quick import share

FLOAT = DType.FLOAT32
COLUMNS, STEPS = 160, 128
"""The weights, (COLUMNS, STEPS), of which a product folds the rows."""


def read(
    origin: Origin, number: int, shape: tuple[int, ...], variables: tuple[int, ...]
) -> Operand:
    """Return the access to a tensor whose coordinates are these variables."""
    rows = tuple(Row(n, terms=((v, 1),)) for n, v in zip(shape, variables, strict=True))
    return Operand(origin, FLOAT, number, rows=rows)


def make_program(
    rows: int,
    count: int,
    *,
    is_swapped: bool,
    is_dense: bool = False,
    is_reversed: bool = False,
    start: Sequence[int] | None = None,
) -> Program:
    """Return a program of products of different rows and the same weights, each kept.

    Args:
        rows: of a product.
        count: of products.
        is_swapped: whether products are (COLUMNS, rows), and weights the first factor.
        is_dense: whether the weights are turned.
        is_reversed: whether the other factor is the first.
        start: the variables that say at which element of the product before a product starts; all
            start from zero if None.
    """
    shape = (COLUMNS, rows) if is_swapped else (rows, COLUMNS)
    row, column = (1, 0) if is_swapped else (0, 1)
    nodes = []
    weights = Slot("weights", FLOAT, (STEPS, COLUMNS) if is_dense else (COLUMNS, STEPS))
    for number in range(count):
        factors = [
            read(Origin.BATCH, number, (rows, STEPS), (row, 2)),
            read(Origin.STATE, 0, weights.shape, (2, column) if is_dense else (column, 2)),
        ]
        init = immediate(FLOAT, 0)
        if start is not None and number:
            sides = (Row(n, terms=((v, 1),) * (v in start)) for v, n in enumerate(shape))
            init = Operand(Origin.NODE, FLOAT, number - 1, rows=tuple(sides))
        operands = (init, *(factors[::-1] if is_swapped != is_reversed else factors))
        nodes.append(Node(Kind.CONTRACT, Function.FMA, FLOAT, shape, operands, (STEPS,)))
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


@pytest.mark.parametrize("start", [None, (), (0,), (1,), (0, 1)])
@settings(max_examples=share(20), deadline=None)
@given(
    rows=st.sampled_from([1, 2, 5, 8, 9, 33]),
    count=st.sampled_from([4, 5]),
    layout=st.tuples(st.booleans(), st.booleans(), st.booleans()),
    least_panels=st.sampled_from([1, 1 << 18]),
    threads=st.integers(1, 2),
    seed=st.integers(0, 2**16),
)
def test_packing_changes_no_bit(
    *,
    rows: int,
    count: int,
    layout: tuple[bool, bool, bool],
    start: Sequence[int] | None,
    least_panels: int,
    threads: int,
    seed: int,
) -> None:
    """Runs, in sequences or not, compute the bits of each product by itself."""
    flags = dict(zip(("is_swapped", "is_dense", "is_reversed"), layout, strict=True))
    program = make_program(rows, count, start=start, **flags)
    state, batch = draw(program, seed)
    shown: dict[int, Array] = {}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(contractions, "_LEAST_PANELS", least_panels)
        patch.setattr(contractions, "_LEAST_DENSE", 4)
        patch.setattr(panels, "GRAIN", 1)
        executor = Executor(program, threads=threads)
        executor.run(state, batch, 0, observe=lambda i, x: shown.update({i: x}))
        for turn in range(5):
            found = executor.run(state, batch, turn)
            for number in range(count):
                assert found[1 + number].shape == program.nodes[number].shape
                assert found[1 + number].tobytes() == shown[number].tobytes()
        replaced = list(state)
        executor.advance(replaced, batch, 0)
    assert [x.tobytes() for x in replaced] == [x.tobytes() for x in found]


@pytest.mark.parametrize("is_dense", [False, True])
@pytest.mark.parametrize("least_panels", [1, 1 << 18])
def test_products_are_as_defined(
    least_panels: int, monkeypatch: pytest.MonkeyPatch, *, is_dense: bool
) -> None:
    """Some elements of products of packed weights, in panels or not, are as defined."""
    monkeypatch.setattr(contractions, "_LEAST_PANELS", least_panels)
    monkeypatch.setattr(contractions, "_LEAST_DENSE", 4)
    program = make_program(3, 4, is_swapped=False, is_dense=is_dense)
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


@pytest.mark.parametrize(
    ("is_dense", "count", "copies"), [(False, 4, 1), (True, 15, 0), (True, 16, 1)]
)
def test_large_factors_lie_in_panels(
    count: int, copies: int, monkeypatch: pytest.MonkeyPatch, *, is_dense: bool
) -> None:
    """A factor beyond the cache is copied to panels, for many more readers if it is dense."""
    monkeypatch.setattr(contractions, "_LEAST_PANELS", STEPS * COLUMNS)
    ready = Preparation(make_program(8, count, is_swapped=False, is_dense=is_dense)).fused
    shape = (COLUMNS // tile.COLUMNS, STEPS, tile.COLUMNS)
    assert [copy.shape for copy in ready.copies] == [shape] * copies
    found = [job.plan for job in ready.jobs if isinstance(job.plan, panels.PanelledProduct)]
    assert len(found) == count * copies


def test_panels_are_whole() -> None:
    """A factor whose panels do not follow each other is none, nor one of another width."""
    program = make_program(8, 4, is_swapped=False, is_dense=True)
    node = program.nodes[0]
    assert panels.find_panels(node) is None
    wide = replace(node, shape=(8, COLUMNS // tile.COLUMNS, tile.COLUMNS))
    rows = (Row(STEPS, terms=((3, 1),)), Row(COLUMNS, terms=((1, tile.COLUMNS), (2, 1))))
    left = replace(node.operands[1], rows=(Row(8, terms=((0, 1),)), Row(STEPS, terms=((3, 1),))))
    right = replace(node.operands[2], rows=rows)
    assert panels.find_panels(replace(wide, operands=(node.operands[0], left, right))) is None


def test_only_runs_in_order_copy() -> None:
    """Nothing is packed where somebody looks on, nor in an arithmetic whose sums are exact."""
    program = make_program(8, 5, is_swapped=False)
    assert not Preparation(program).shown.copies
    assert not Preparation(replace(program, arithmetic=EXACT)).fused.copies
