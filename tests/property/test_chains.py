"""Chains of sums: products that are added up in registers, with the bits of the definition."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from moot.offchain.arithmetic.exact import EXACT
from moot.offchain.arithmetic.functions import DType, Function
from moot.offchain.backends.cpu import chains as cpu
from moot.offchain.commitments.tensors import Array, encode_elements
from moot.offchain.execution import preparation
from moot.offchain.execution.executor import Executor
from moot.offchain.execution.preparation import Preparation, Ready
from moot.offchain.execution.readable import run_step
from moot.offchain.native.vectors import LANES
from moot.offchain.planning import chains as planning
from moot.offchain.planning.chains import Chain
from moot.offchain.programs.graph import Kind, Node, Operand, Origin, Program, Row, Slot, immediate
from tests.quick import share
from tests.unit.test_kernels_scatter import draw_bits

FLOAT = DType.FLOAT32
INITS = (0, 0x80000000, 0x3F800000, 1, 0x7FC00000, 0xFF800000)
"""What products start from: zeros of both signs, 1, a subnormal number, NaN, -infinity."""

RUNS = 3


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let short chains of small matrices be worth it, and sequences from the second run on."""
    monkeypatch.setattr(planning, "_LEAST_PRODUCTS", 1)
    monkeypatch.setattr(planning, "_LEAST_ELEMENTS", 1)
    monkeypatch.setattr(planning, "_LEAST_COLUMNS", 1)
    monkeypatch.setattr(planning, "_MOST_READ", 9)
    monkeypatch.setattr(preparation, "_COLD_RUNS", 1)


class Builder:
    """A program of tensors of one shape while it is built.

    Args:
        shape: that shape.
    """

    def __init__(self, shape: tuple[int, ...]) -> None:
        self.shape = shape
        self.nodes: list[Node] = []
        self._slots: list[Slot] = []

    def read(self, shape: Sequence[int], variables: Sequence[int]) -> Operand:
        """Return the access to a new tensor whose coordinates are these variables."""
        self._slots.append(Slot(f"tensor{len(self._slots)}", FLOAT, tuple(shape)))
        rows = tuple(Row(n, terms=((v, 1),)) for n, v in zip(shape, variables, strict=True))
        return Operand(Origin.BATCH, FLOAT, len(self._slots) - 1, rows=rows)

    def get(self, index: int) -> Operand:
        """Return the access to the output of an operator."""
        rows = tuple(Row(n, terms=((v, 1),)) for v, n in enumerate(self.shape))
        return Operand(Origin.NODE, FLOAT, index, rows=rows)

    def multiply(
        self,
        steps: int,
        init: Operand,
        turned: tuple[bool, bool] = (False, False),
        *,
        cut: int = 1,
        is_swapped: bool = False,
    ) -> int:
        """Add a product of new tensors, each of which may be turned; they may be swapped.

        The first `cut` variables of the output are its rows.
        """
        rank = len(self.shape)
        sizes, variables = (*self.shape, steps), range(rank)
        nests = [*variables[:cut], rank], [rank, *variables[cut:]]
        nests = [
            nest[::-1] if is_turned else nest for nest, is_turned in zip(nests, turned, strict=True)
        ]
        factors = [self.read([sizes[v] for v in nest], nest) for nest in nests]
        operands = (init, *(factors[::-1] if is_swapped else factors))
        return self._append(
            Node(Kind.CONTRACT, Function.FMA, FLOAT, self.shape, operands, (steps,))
        )

    def add(self, left: Operand, right: Operand) -> int:
        """Add a sum."""
        return self._append(Node(Kind.MAP, Function.ADD, FLOAT, self.shape, (left, right)))

    def _append(self, node: Node) -> int:
        self.nodes.append(node)
        return len(self.nodes) - 1

    def finish(self, wanted: Sequence[int]) -> Program:
        """Return the program whose next state is these operators' outputs."""
        sinks = [
            Node(Kind.SINK, Function.COPY, FLOAT, self.shape, (self.get(index),))
            for index in wanted
        ]
        state = tuple(Slot(f"output.{i}", FLOAT, self.shape) for i in range(len(wanted)))
        names = tuple(f"operator{i}" for i in range(len(self.nodes) + len(sinks)))
        return Program(state, tuple(self._slots), (*self.nodes, *sinks), names, names)


def accumulate(builder: Builder, count: int, init: int = 0) -> list[int]:
    """Add up so many products of two steps, and return the indices of the sums."""
    start, steps = immediate(FLOAT, init), 2
    sums = [builder.multiply(steps, start)]
    for _ in range(count - 1):
        sums.append(builder.add(builder.get(sums[-1]), builder.get(builder.multiply(steps, start))))
    return sums


@st.composite
def programs(draw: st.DrawFn) -> Program:
    """Draw sums of products, and of what is none, in any order and form."""
    columns = st.sampled_from([1, 2, 5, LANES, LANES + 3, 2 * LANES + 1])
    builder = Builder((draw(st.integers(1, 9)), draw(st.integers(1, 2)), draw(columns)))
    whole: Callable[[], Operand] = lambda: builder.read(builder.shape, (0, 1, 2))  # noqa: E731 - a name for one of three
    inits: list[Callable[[], Operand]] = [
        lambda: immediate(FLOAT, draw(st.sampled_from(INITS))),
        lambda: builder.read(builder.shape[1:], (1, 2)),
        lambda: builder.read(builder.shape[:1], (0,)),
        lambda: builder.read(builder.shape[::-1], (2, 1, 0)),
        whole,
    ]
    sums: list[int] = []
    for _ in range(draw(st.integers(2, 6))):
        what = draw(st.integers(0, 9)) if sums else 9
        if what == 0 and len(sums) > 1:
            sums.append(builder.add(builder.get(sums[-2]), builder.get(sums[-1])))
            continue
        init = draw(st.sampled_from(inits))()
        flags = [draw(st.booleans()) for _ in range(4)]
        added = builder.multiply(
            draw(st.integers(1, 3)),
            init,
            (flags[0], flags[1]),
            cut=draw(st.integers(1, 2)),
            is_swapped=flags[2],
        )
        if what == 9:
            sums.append(added)
            continue
        term = builder.get(added) if what > 1 else draw(st.sampled_from(inits))()
        pair = builder.get(sums[-1]), term
        sums.append(builder.add(*(pair[::-1] if flags[3] else pair)))
    others = draw(st.lists(st.sampled_from(range(len(builder.nodes))), max_size=1))
    return builder.finish([*others, len(builder.nodes) - 1, sums[-1]])


def draw_tensors(program: Program, seed: int) -> tuple[list[Array], list[Array]]:
    """Return a state and a batch with special numbers among others."""
    rng = np.random.default_rng(seed)
    state, batch = (
        [draw_bits(rng, slot.shape).view(np.float32) for slot in slots]
        for slots in (program.state, program.batch)
    )
    return state, batch


def encode(arrays: Sequence[Array]) -> list[bytes]:
    """Return the canonical bytes of tensors."""
    return [encode_elements(array).tobytes() for array in arrays]


def list_chains(ready: Ready) -> Iterator[Chain]:
    """Yield the chains that a run has plans for."""
    for job in ready.jobs:
        if isinstance(job.plan, cpu.ChainedProducts):
            yield job.plan.chain


@settings(max_examples=share(60), deadline=None)
@given(programs(), st.integers(0, 2**16), st.integers(1, 2), st.sampled_from([1, 9]))
def test_chains_are_what_they_are_defined_to_be(
    program: Program, seed: int, threads: int, most_read: int
) -> None:
    """Sums of any products have the definition's bits, in sequences or not, shared out or not."""
    state, batch = draw_tensors(program, seed)
    expected = encode(run_step(program, state, batch, 0))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(planning, "_MOST_READ", most_read)
        patch.setattr(cpu, "_GRAIN", 1)
        patch.setattr(cpu, "_GROUP_BYTES", 1)
        executor = Executor(program, threads=threads)
        for _ in range(RUNS):
            assert encode(executor.run(state, batch, 0)) == expected
    shown: list[int] = []
    assert encode(executor.run(state, batch, 0, lambda i, _: shown.append(i))) == expected
    assert sorted(shown) == list(range(len(program.nodes)))


@pytest.mark.parametrize("rows", [7, 8, 18, 40])
def test_rows_in_several_panels_are_what_they_are_defined_to_be(rows: int) -> None:
    """A group's rows lie in as many panels as they need."""
    builder = Builder((rows, LANES + 3))
    program = builder.finish(accumulate(builder, 3)[-1:])
    (chain,) = list_chains(Preparation(program).fused)
    assert len(chain.products) == 3
    state, batch = draw_tensors(program, rows)
    expected = encode(run_step(program, state, batch, 0))
    assert encode(Executor(program).run(state, batch, 0)) == expected


@pytest.mark.parametrize(("bits", "expected"), [(0, 0x80000000), (0xFFC12345, 0x7FC00000)])
def test_sums_of_zeros_and_of_nans_are_canonical(bits: int, expected: int) -> None:
    """The first product is a chain's first sum as it is, -0 for instance; there is one NaN."""
    builder = Builder((3, 4))
    program = builder.finish(accumulate(builder, 3, init=0x80000000)[-1:])
    value = np.uint32(bits).view(np.float32)
    batch = [np.full(s.shape, (value, -1)[i % 2], np.float32) for i, s in enumerate(program.batch)]
    (found,) = Executor(program).run([np.empty((3, 4), np.float32)], batch, 0)
    assert (found.view(np.uint32) == expected).all()


@pytest.mark.parametrize("count", [2, 3, 5])
def test_sums_that_nobody_else_reads_are_one_chain(count: int) -> None:
    """All products are in one chain, whose last sum alone is there after it."""
    builder = Builder((3, 4))
    sums = accumulate(builder, count)
    (chain,) = list_chains(Preparation(builder.finish(sums[-1:])).fused)
    assert chain.indices == tuple(range(len(builder.nodes)))
    assert (len(chain.products), chain.start) == (count, None)


def test_what_is_wanted_cuts_a_chain() -> None:
    """A sum that is kept, or replaced, ends a chain; a run that is looked at has none."""
    builder = Builder((3, 4))
    sums = accumulate(builder, 4)
    program = builder.finish([sums[1], sums[-1]])
    first, second = list_chains(Preparation(program).fused)
    assert first.indices == (0, 1, 2)
    assert second.start == builder.get(sums[1])
    assert not list(list_chains(Preparation(program).shown))
    state, batch = draw_tensors(program, 1)
    executor = Executor(program)
    expected = encode(executor.run(state, batch, 0))
    patched = encode(executor.run(state, batch, 0, patch={sums[2]: lambda x: x + 1}))
    assert patched[0] == expected[0]
    assert patched[1] != expected[1]


def test_a_product_that_is_read_twice_is_in_no_chain() -> None:
    """What somebody else reads, or a sum reads twice, is there by itself."""
    builder = Builder((3, 4))
    product = builder.get(builder.multiply(2, immediate(FLOAT, 0)))
    total = builder.add(product, product)
    program = builder.finish([total])
    assert not list(list_chains(Preparation(program).fused))
    state, batch = draw_tensors(program, 3)
    assert encode(Executor(program).run(state, batch, 0)) == encode(
        run_step(program, state, batch, 0)
    )


def test_what_a_chain_reads_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """A chain is cut where it would keep more alive than it may."""
    monkeypatch.setattr(planning, "_MOST_READ", 2)
    builder = Builder((4, 4))
    sums = accumulate(builder, 6)  # each product reads as much as the output has
    found = list(list_chains(Preparation(builder.finish(sums[-1:])).fused))
    assert [len(chain.products) for chain in found] == [2, 2, 2]


@pytest.mark.parametrize(
    ("name", "least"),
    [("_LEAST_PRODUCTS", 4), ("_LEAST_ELEMENTS", 13), ("_LEAST_COLUMNS", 5), ("_MOST_STEPS", 1)],
)
def test_small_and_long_products_are_no_chain(
    name: str, least: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Few products, small ones and long ones run by themselves."""
    builder = Builder((3, 4))
    program = builder.finish(accumulate(builder, 3)[-1:])
    assert list(list_chains(Preparation(program).fused))
    monkeypatch.setattr(planning, name, least)
    assert not list(list_chains(Preparation(program).fused))


def test_exact_sums_are_no_chain() -> None:
    """Another arithmetic's products are not added up here."""
    builder = Builder((3, 4))
    program = builder.finish(accumulate(builder, 3)[-1:])
    assert not list(list_chains(Preparation(replace(program, arithmetic=EXACT)).fused))
