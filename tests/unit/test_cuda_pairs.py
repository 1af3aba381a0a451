"""Two products of bfloat16 in one launch: the gradients of keys and of values."""

from collections.abc import Callable, Sequence
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from moot.offchain.arithmetic.tensor.blocks import BLOCKS
from moot.offchain.backends.cuda import emulated, emulator
from moot.offchain.backends.cuda.emulator import Emulator
from moot.offchain.backends.cuda.kernel import Context, Kernel, Loop, Phase, word
from moot.offchain.backends.cuda.machine import Tensor
from moot.offchain.backends.cuda.tensor import pairs
from moot.offchain.backends.cuda.tensor.pairs import ChainedPair, Pair, find_pair
from moot.offchain.backends.cuda.tensor.plans import Chained
from moot.offchain.backends.cuda.tensor.tiles import GROUP_CYCLES, STEP_CYCLES, AnyTile, GroupTile
from moot.offchain.commitments.tensors import Array
from moot.offchain.errors import BrokenPrecondition
from moot.offchain.programs.graph import Node
from tests.quick import every, only
from tests.unit.test_cuda import assemble, encode, find_assembler, upload
from tests.unit.test_cuda_tensor import FEW, SIXTEEN, define, draw_tensors, make_product
from tests.unit.test_tensor_blocks import KINDS

CAPABILITIES = {"ampere": (8, 0), "hopper": (9, 0)}
Nodes = tuple[Node, Node]
Shape = tuple[int, int, int, int]

SHAPES: dict[str, Shape] = {
    "tiles": (2, 64, 64, 64),
    "no multiples": (3, 37, 72, 40),
    "one row": (2, 1, 24, 8),
    "many rows": (1, 130, 8, 16),
    "many columns": (1, 20, 200, 24),
}
"""Heads, rows, columns, and the width of a head."""


def make_gradients(
    heads: int, rows: int, columns: int, width: int, *, starts: bool = False
) -> Nodes:
    """Return the contractions of the gradients of keys, which lies turned, and of values.

    The latter has initial values, and so may the former.
    """
    keys = make_product((heads, width, columns, rows), ((0, 3, 1), (0, 3, 2)), starts=starts)
    values = make_product((heads, columns, width, rows), ((0, 3, 1), (0, 3, 2)), starts=True)
    return keys, values


def draw_both(nodes: Nodes, kind: str) -> list[list[Array | None]]:
    """Return tensors for both, causal weights among them: zeros above the diagonal."""
    tensors = [draw_tensors(node, kind, seed) for seed, node in enumerate(nodes)]
    for operands, place in zip(tensors, (2, 1), strict=True):
        weights = operands[place]
        assert weights is not None
        weights[...] *= np.tri(*weights.shape[-2:], dtype=np.uint16)
    return tensors


def compute(
    machine: Emulator, pair: ChainedPair, nodes: Nodes, tensors: Sequence[Sequence[Array | None]]
) -> list[bytes]:
    """Return what a launch makes of both."""
    held = [[upload(machine, x) for x in operands] for operands in tensors]
    sources = [[0 if x is None else x.address for x in operands] for operands in held]
    outs = [Tensor(machine, node.shape, np.float32) for node in nodes]
    machine.launch(*pair.make_launch(sources, [out.address for out in outs]))
    return encode([out.get() for out in outs])


def join(machine: Emulator, nodes: Nodes, name: str, tile: AnyTile) -> ChainedPair:
    """Return the plan of both in a tile, whatever preconditions say."""
    first, second = (Chained(machine, node, BLOCKS[name], tile) for node in nodes)
    return ChainedPair(machine, (first, second))


def check(name: str, nodes: Nodes, kind: str, tile: AnyTile, seed: int = 0) -> None:
    """Check that one launch in a tile makes what the processor makes of both."""
    machine = Emulator(seed, capability=CAPABILITIES[name])
    check_pair(machine, join(machine, nodes, name, tile), name, nodes, kind)


def check_pair(machine: Emulator, pair: ChainedPair, name: str, nodes: Nodes, kind: str) -> None:
    """Check that a plan makes what the processor makes of both."""
    tensors = draw_both(nodes, kind)
    found = compute(machine, pair, nodes, tensors)
    assert found == [define(name, *both) for both in zip(nodes, tensors, strict=True)]


WAYS = [(name, tile) for tile in (FEW, SIXTEEN, *STEP_CYCLES) for name in BLOCKS]
WAYS += [("hopper", tile) for tile in GROUP_CYCLES]
CASES = [(*way, shape, kind) for kind, way, shape in product(KINDS, WAYS, SHAPES)]


@pytest.mark.parametrize(("name", "tile", "shape", "kind"), every(23, CASES), ids=str)
def test_pairs_are_the_processor_s(name: str, tile: AnyTile, shape: str, kind: str) -> None:
    """Gradients of any size, by warps and by warp groups, have the definition's bits."""
    check(name, make_gradients(*SHAPES[shape]), kind, tile)


def test_the_order_of_threads_makes_no_difference() -> None:
    """No barrier is missing."""
    for seed, tile in product(range(4), (SIXTEEN, GroupTile(1, 64))):
        check("hopper", make_gradients(*SHAPES["no multiples"]), "ordinary", tile, seed)


@pytest.mark.parametrize("name", CAPABILITIES)
@pytest.mark.parametrize("shape", SHAPES)
def test_gradients_are_a_pair(shape: str, name: str) -> None:
    """One tile serves both; on Hopper's devices that of warp groups, where there is much to do."""
    nodes = make_gradients(*SHAPES[shape])
    machine = Emulator(capability=CAPABILITIES[name])
    pair = find_pair(machine, nodes, BLOCKS[name])
    assert pair is not None
    check_pair(machine, pair, name, nodes, "special")


def test_a_pair_takes_no_longer_than_two_launches() -> None:
    """Where no tile serves both, each has its own: an output of few columns, and a square one.

    Heads of 64 elements, of as many rows as GPT-2's, are a pair by either instruction.
    """
    uneven = (
        make_product((1 << 16, 64, 64), ((2, 0), (2, 1))),
        make_product((1 << 12, 1 << 12, 64), ((2, 0), (2, 1))),
    )
    machine = Emulator(capability=(9, 0))
    assert find_pair(machine, uneven, BLOCKS["hopper"]) is None
    for name, capability in CAPABILITIES.items():
        machine = Emulator(capability=capability)
        machine.multiprocessors = 132
        for heads, rows in product((12, 48), (256, 1024)):
            pair = find_pair(machine, make_gradients(heads, rows, rows, 64), BLOCKS[name])
            assert pair is not None
            is_of_groups = isinstance(pair._products[0].tile, GroupTile)
            assert is_of_groups == (name == "hopper")


def lengthen(nodes: Nodes) -> Nodes:
    """Return gradients, the second of which has more steps."""
    return nodes[0], make_product((2, 64, 64, 70), ((0, 3, 1), (0, 3, 2)))


def scatter(nodes: Nodes) -> Nodes:
    """Return gradients, the second of which has a factor without vectors."""
    return nodes[0], make_product((2, 63, 64, 64), ((0, 3, 1), (0, 3, 2)))


def turn(nodes: Nodes) -> Nodes:
    """Return gradients, the second of which has a factor whose lines are rows."""
    return nodes[0], make_product((2, 64, 64, 64), ((0, 1, 3), (0, 3, 2)))


BROKEN: dict[str, Callable[[Nodes], Nodes]] = {"steps": lengthen, "seen": scatter, "turned": turn}


@pytest.mark.parametrize("broken", BROKEN)
def test_what_breaks_a_precondition_is_no_pair(broken: str) -> None:
    """It has no plan, its form is refused, and one launch would compute something else."""
    assert {each.name for each in Pair.preconditions} == {*BROKEN}
    nodes = BROKEN[broken](make_gradients(*SHAPES["tiles"]))
    machine = Emulator(capability=(9, 0))
    assert find_pair(machine, nodes, BLOCKS["hopper"]) is None
    first, second = (Chained(machine, node, BLOCKS["hopper"]) for node in nodes)
    steps = nodes[0].fold_length, nodes[1].fold_length
    with pytest.raises(BrokenPrecondition) as error:
        Pair(steps, (first.seen, second.seen))
    assert (error.value.form, error.value.precondition) == ("Pair", broken)
    for tile in (SIXTEEN, GroupTile(1, 64)):
        with pytest.raises(AssertionError):
            check("hopper", nodes, "ordinary", tile)


def swap(joining: Any, first: Phase, second: Phase) -> object:
    """Return the phases of each for the other's blocks."""
    return JOIN(joining, second, first)


def keep_first(joining: Any, first: Phase, _: Phase) -> object:
    """Return the first one's phases for the blocks of both."""
    return JOIN(joining, first, first)


def exchange(pair: ChainedPair, sources: Any, targets: Sequence[int]) -> Any:
    """Return a launch whose outputs go to each other's tensors."""
    return MAKE_LAUNCH(pair, sources, targets[::-1])


def join_phases(kernel: Kernel) -> None:
    """Leave out the barrier behind the phase that waits for the first part."""
    if not kernel.name.endswith("_of_two"):
        return
    begin, loop, end = kernel.steps
    assert isinstance(loop, Loop)
    advance, *rest = loop.phases
    assert callable(begin)
    assert callable(advance)

    def run_both(context: Context) -> None:
        is_first = context.builder.icmp_unsigned("==", context.turn, word(0))
        with context.builder.if_then(is_first):
            begin(context)
        advance(context)

    object.__setattr__(kernel, "steps", (Loop(loop.count, (run_both, *rest)), end))


JOIN, MAKE_LAUNCH = pairs._Joining.join, ChainedPair.make_launch
CHANGES: dict[str, tuple[Any, str, Any]] = {
    "no wait": (emulated._OnProcessor, "end_copies", lambda *_: None),
    "no barrier": (Kernel, "__post_init__", join_phases),
    "the other's phases": (pairs._Joining, "join", swap),
    "one's phases": (pairs._Joining, "join", keep_first),
    "the other's output": (ChainedPair, "make_launch", exchange),
}
"""What is broken reads and writes inside of tensors of the same sizes."""


@pytest.mark.parametrize("change", CHANGES)
def test_what_is_wrong_is_found_out(change: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A part that is not there, or a block that computes the other product, shows."""
    keys, _ = make_gradients(*SHAPES["tiles"], starts=True)
    # Heads of values lie side by side.
    nodes = keys, make_product((2, 64, 64, 64), ((3, 0, 1), (3, 0, 2)), starts=True)
    check("ampere", nodes, "ordinary", SIXTEEN)
    monkeypatch.setattr(emulator, "SOIL", 0xFF)  # what nobody set are NaNs
    monkeypatch.setattr(*CHANGES[change])
    with pytest.raises(AssertionError):
        check("ampere", nodes, "ordinary", SIXTEEN)


@pytest.mark.parametrize(("name", "tile"), [("hopper", FEW), ("ampere", SIXTEEN)])
def test_other_kernels_are_not_joined(name: str, tile: AnyTile) -> None:
    """Both have the threads, the shared memory and the tensor cores' work of one kernel."""
    machine, nodes = Emulator(capability=(9, 0)), make_gradients(*SHAPES["tiles"])
    first = Chained(machine, nodes[0], BLOCKS["hopper"], SIXTEEN).make_kernel()
    second = Chained(machine, nodes[1], BLOCKS[name], tile).make_kernel()
    with pytest.raises(AssertionError):
        pairs.join_kernels(first, second, 1)


@pytest.mark.skipif(find_assembler() is None, reason="NVIDIA's assembler is not installed")
@pytest.mark.parametrize(
    ("architecture", "name"),
    only([("sm_90a", "hopper")], [("sm_80", "ampere"), ("sm_90a", "hopper")]),
)
def test_code_is_assembled(architecture: str, name: str, tmp_path: Path) -> None:
    """The assembler takes the kernel of heads as GPT-2's without a spill; it has one product."""
    machine = Emulator(capability=CAPABILITIES[name])
    machine.multiprocessors = 132
    pair = find_pair(machine, make_gradients(48, 256, 256, 64), BLOCKS[name])
    assert pair is not None
    kernel = pair.make_kernel()
    text = assemble(kernel, architecture, tmp_path / "kernel.ptx")
    alone = assemble(pair._products[0].make_kernel(), architecture, tmp_path / "alone.ptx")
    for instruction in ("mma.sync", "wgmma.mma_async"):
        assert text.count(instruction) == alone.count(instruction)
