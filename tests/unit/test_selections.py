"""The largest elements, found in one pass: what the rounds of a program find, bit for bit."""

from collections.abc import Sequence

import numpy as np
import pytest
import torch

from moot.offchain.commitments.tensors import Array, encode_elements
from moot.offchain.execution.executor import Executor
from moot.offchain.execution.preparation import Preparation
from moot.offchain.frontend.capture import capture
from moot.offchain.frontend.recipe import InferenceRecipe
from moot.offchain.planning.selections import Selection
from tests.quick import every
from tests.unit.test_kernels_scatter import PATTERNS

SPECIALS = PATTERNS.view(np.float32)


def draw_rows(rng: np.random.Generator, shape: Sequence[int]) -> Array:
    """Return rows of few values, of special ones, of nothing but -infinity, and ordinary ones."""
    rows = rng.standard_normal(shape).astype(np.float32)
    rows[..., 1, :] = rng.choice(SPECIALS, rows.shape[-1])
    rows[..., 2, :] = -np.inf
    rows[..., 3, :] = rng.integers(0, 3, rows.shape[-1])
    rows[..., 4, :] = -np.inf
    rows[..., 4, 7:9] = 1, np.nan
    return rows


@pytest.mark.parametrize(
    ("shape", "count"), every(6, [((6, 300), 5), ((2, 5, 257), 2), ((5, 1000), 64)])
)
def test_largest_are_those_of_the_rounds(shape: tuple[int, ...], count: int) -> None:
    """Fused, observed and torch's own agree: ties, NaN, zeros of both signs, rows of -infinity."""
    x = draw_rows(np.random.default_rng(count), shape)

    def find(_: torch.nn.Module, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        values, places = x.topk(count, -1)
        return values, places

    recipe = InferenceRecipe(torch.nn.Module(), find, lambda _: (torch.from_numpy(x),))
    captured = capture(recipe, trust=True)
    prepared = Preparation(captured.program)
    (selection,) = (task.unit for task in prepared.schedule() if isinstance(task.unit, Selection))
    assert len(selection.taken) == count
    executor = Executor(prepared)
    state, batch = captured.initial_state, captured.batch(0)
    names = [slot.name for slot in captured.program.state]
    places = names.index("output.1")
    wanted = np.argsort(-np.where(np.isnan(x), np.inf, x), -1, "stable")
    for moved in (0, 3):
        state[names.index("constant.0")] = np.roll(np.arange(shape[-1]), moved)
        fused = executor.run(state, batch, 0)
        separate = executor.run(state, batch, 0, observe=lambda *_: None)
        assert [a.tobytes() for a in fused] == [a.tobytes() for a in separate]
        is_sorted = np.array_equal(fused[places][..., 0, :], wanted[..., 0, :count])
        assert is_sorted == (not moved)


def test_rounds_that_are_read_are_run() -> None:
    """Any operator inside of the rounds is what it is without them, whoever asks for it."""

    def find(_: torch.nn.Module, x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        first, second = x.topk(3, -1), (x + 1).topk(2, -1)
        return *first, *second

    x = torch.from_numpy(draw_rows(np.random.default_rng(0), (6, 300)))
    captured = capture(InferenceRecipe(torch.nn.Module(), find, lambda _: (x,)), trust=True)
    program = captured.program
    executor = Executor(program)
    state, batch = captured.initial_state, captured.batch(0)
    whole: dict[int, Array] = {}
    executor.run(state, batch, 0, observe=whole.__setitem__)
    for index in range(len(program.nodes)):
        (found,) = executor.outputs(state, batch, 0, [index]).values()
        assert encode_elements(found).tobytes() == encode_elements(whole[index]).tobytes()
