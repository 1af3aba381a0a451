"""Copies square by square: the elements that numpy copies, and nothing beside them."""

import numpy as np
import pytest
import torch

from moot.offchain.backends.cpu.calls import share_out
from moot.offchain.backends.cpu.plans import plan_node
from moot.offchain.backends.cpu.turns import find_turned
from moot.offchain.execution.executor import Executor
from moot.offchain.frontend.capture import capture
from moot.offchain.frontend.recipe import InferenceRecipe
from moot.offchain.native.buffers import get_address
from moot.offchain.native.sequences import DONE, NativeSequence
from moot.offchain.native.threads import get_threads, set_threads
from moot.offchain.programs.graph import Kind
from tests.quick import share

TYPES = (np.bool_, np.uint16, np.int32, np.float32, np.int64)

MOST_ELEMENTS = 1 << 21
"""Elements of a tensor that is drawn."""


def draw_view(rng: np.random.Generator, shape: tuple[int, ...], kind: type) -> np.ndarray:
    """Return elements of any bits in a larger array, whose axes of neighbours are permuted."""
    order = rng.permutation(len(shape))
    whole = [int(size + rng.integers(0, 3)) for size in shape]
    bits = rng.integers(0, 2, size=[whole[axis] for axis in order], dtype=np.uint8)
    if kind is not np.bool_:
        width = np.dtype(kind).itemsize
        bits = rng.integers(0, 256, size=(*bits.shape, width), dtype=np.uint8)
    nested = bits.view(kind).reshape([whole[axis] for axis in order])
    return nested.transpose(np.argsort(order))[tuple(map(slice, shape))]


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("kind", TYPES)
def test_squares_copy_what_numpy_copies(kind: type, threads: int) -> None:
    """Odd extents, several matrices, strides of larger arrays: no byte is another one."""
    rng, found, before = np.random.default_rng(threads), 0, get_threads()
    set_threads(threads)
    try:
        for _ in range(share(200)):
            shape = tuple(map(int, rng.choice([1, 3, 4, 5, 17, 33, 70, 300], rng.integers(2, 5))))
            if np.prod(shape) > MOST_ELEMENTS:
                continue
            source, out = (draw_view(rng, shape, kind) for _ in range(2))
            strides = [[step // v.itemsize for step in v.strides] for v in (out, source)]
            turned = find_turned(shape, out.itemsize, (strides[0], strides[1]))
            if turned is None:
                continue
            found += 1
            base = out.base if out.base is not None else out
            bytes_before = base.tobytes()
            kept = out.copy()
            turned.run(out, source)
            assert out.tobytes() == source.tobytes()
            out[...] = kept
            assert base.tobytes() == bytes_before
            one = turned.make_call(get_address(out), get_address(source))
            assert NativeSequence([share_out(one, turned.grain)], 0, 0).perform([None]) == DONE
            assert out.tobytes() == source.tobytes()
            out[...] = kept
            assert base.tobytes() == bytes_before
    finally:
        set_threads(before)
    assert found >= share(10)


@pytest.mark.parametrize(
    ("shape", "strides"),
    [
        ((64, 64), ((64, 1), (64, 1))),
        ((64, 64), ((64, 1), (128, 2))),
        ((64, 3), ((3, 1), (1, 64))),
        ((8, 8), ((8, 1), (1, 8))),
        ((64, 64), ((64, 1), (0, 0))),
    ],
)
def test_other_copies_are_left_to_numpy(
    shape: tuple[int, ...], strides: tuple[tuple[int, ...], tuple[int, ...]]
) -> None:
    """Rows that stay rows, columns that are no neighbours, few elements, and broadcasts."""
    assert find_turned(shape, 4, strides) is None


def test_turned_operands_of_programs() -> None:
    """A transposition alone, in a map, before a softmax and in a join is what each operator is."""

    def turn(_: torch.nn.Module, x: torch.Tensor, y: torch.Tensor) -> tuple[torch.Tensor, ...]:
        moved = x.permute(0, 2, 3, 1)
        return (
            moved.contiguous(),
            moved * 2 + y,
            moved.softmax(-1),
            torch.cat([y, moved], 1),
            x.mT.contiguous(),
        )

    generator = torch.Generator().manual_seed(0)
    x = torch.randn(3, 70, 9, 33, generator=generator)
    x[0, 0, 0, :5] = torch.tensor([float("nan"), -0.0, 0.0, float("inf"), 1e-40])
    y = torch.randn(3, 9, 33, 70, generator=generator)
    captured = capture(InferenceRecipe(torch.nn.Module(), turn, lambda _: (x, y)), trust=True)
    program, executor = captured.program, Executor(captured.program)
    state, batch = captured.initial_state, captured.batch(0)
    fused = executor.run(state, batch, 0)
    shown = executor.run(state, batch, 0, observe=lambda *_: None)
    assert [a.tobytes() for a in fused] == [a.tobytes() for a in shown]
    wanted = turn(torch.nn.Module(), x, y)
    names = [slot.name for slot in program.state]
    for number in (0, 3, 4):
        assert fused[names.index(f"output.{number}")].tobytes() == wanted[number].numpy().tobytes()
    copies = [node for node in program.nodes if node.kind is Kind.SINK and node.elements > 1 << 14]
    assert any(getattr(plan_node(node), "_turned", None) for node in copies)
