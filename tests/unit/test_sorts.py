"""Sorted lines, found by their digits: what the counted pairs of a program find, bit for bit."""

from collections.abc import Callable

import numpy as np
import pytest
import torch

from moot.offchain.backends.cpu.kernels.sorting import is_counter, make_keys, sort_lines
from moot.offchain.commitments.tensors import Array, encode_elements
from moot.offchain.execution.executor import Executor
from moot.offchain.execution.preparation import Preparation
from moot.offchain.frontend.capture import Captured, capture
from moot.offchain.frontend.recipe import InferenceRecipe
from moot.offchain.planning.sorts import Sort
from tests.unit.test_kernels_scatter import PATTERNS
from tests.unit.test_selections import draw_rows

Sorting = Callable[[torch.Tensor], tuple[torch.Tensor, ...]]


def capture_sorting(sort: Sorting, x: Array) -> Captured:
    """Return the program that sorts a tensor."""
    batch = (torch.from_numpy(x),)
    recipe = InferenceRecipe(torch.nn.Module(), lambda _, x: sort(x), lambda _: batch)
    return capture(recipe, trust=True)


def list_sorts(prepared: Preparation) -> list[Sort]:
    """Return the sorts that a run computes as such."""
    return [task.unit for task in prepared.schedule() if isinstance(task.unit, Sort)]


def check_equal(captured: Captured, count: int) -> None:
    """Compare a run that sorts with one that compares all pairs, also with another counter."""
    prepared = Preparation(captured.program)
    assert len(list_sorts(prepared)) == count
    executor = Executor(prepared)
    state, batch = list(captured.initial_state), captured.batch(0)
    counters = [i for i, slot in enumerate(captured.program.state) if slot.name == "constant.0"]
    for moved in (0, 3, 0, -3, 1):  # so often that small tasks are joined
        for place in counters:
            state[place] = np.roll(captured.initial_state[place], moved)
        fused = executor.run(state, batch, 0)
        separate = executor.run(state, batch, 0, observe=lambda *_: None)
        encoded = [[encode_elements(a).tobytes() for a in run] for run in (fused, separate)]
        assert encoded[0] == encoded[1]


@pytest.mark.parametrize("descending", [False, True])
@pytest.mark.parametrize(
    ("shape", "dim"), [((5, 40), -1), ((40, 6), 0), ((2, 130, 7), 1), ((300,), 0), ((1, 64, 8), 1)]
)
def test_sorts_are_found_and_equal(shape: tuple[int, ...], dim: int, descending: bool) -> None:  # noqa: FBT001 - a parameter of the test
    """Ties, NaN, zeros of both signs, infinities, on any axis, in both directions."""
    rng = np.random.default_rng(len(shape))
    lines = draw_rows(rng, (6, max(shape[dim], 16)))[:, : shape[dim]]
    others = [size for axis, size in enumerate(shape) if axis != dim % len(shape)]
    rows = lines[np.arange(int(np.prod(others))) % len(lines)].reshape(*others, -1)
    x = np.ascontiguousarray(np.moveaxis(rows, -1, dim))

    def sort(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        return tuple(torch.sort(x, stable=True, dim=dim, descending=descending))

    captured = capture_sorting(sort, x)
    check_equal(captured, 1)
    wanted = sort(torch.from_numpy(x))[1].numpy()
    (found,) = (
        output
        for slot, output in zip(
            captured.program.state,
            Executor(captured.program).run(captured.initial_state, captured.batch(0), 0),
            strict=True,
        )
        if slot.name == "output.1"
    )
    assert np.array_equal(found, wanted)


@pytest.mark.parametrize("kind", [np.int32, np.int64])
def test_integers_are_sorted(kind: type) -> None:
    """Integers of any size and both signs, and many that are equal."""
    rng, limits = np.random.default_rng(0), np.iinfo(kind)
    x: Array = rng.integers(-5, 5, (4, 100)).astype(kind)
    x[1] = rng.integers(limits.min, limits.max, 100, kind, endpoint=True)
    x[2, :2] = limits.min, limits.max
    check_equal(capture_sorting(lambda x: tuple(torch.sort(x)), x), 1)


def test_sorts_share_what_they_compare() -> None:
    """Two sorts of one tensor, one of which is a top-k too, and one of another are three."""
    x = draw_rows(np.random.default_rng(1), (6, 50))

    def sort(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        other = (-x).sort(-1, descending=True)
        return *x.sort(-1), *x.sort(-1, descending=True), *other, *x.topk(4, -1)

    check_equal(capture_sorting(sort, x), 3)


def test_what_others_read_is_computed() -> None:
    """A program that returns whether pairs are less has no sort in that run, and the same bits."""
    x = draw_rows(np.random.default_rng(2), (6, 50))
    captured = capture_sorting(lambda x: tuple(x.sort(-1)), x)
    program, executor = captured.program, Executor(captured.program)
    state, batch = captured.initial_state, captured.batch(0)
    whole: dict[int, Array] = {}
    executor.run(state, batch, 0, observe=whole.__setitem__)
    for index in range(len(program.nodes)):
        (found,) = executor.outputs(state, batch, 0, [index]).values()
        assert found.tobytes() == whole[index].tobytes()


@pytest.mark.parametrize(
    "is_before",
    [
        lambda one, other, earlier: (other < one) | ((one == other) & ~earlier),
        lambda one, other, earlier: (other <= one) | ((one == other) & earlier),
        lambda one, other, earlier: (other < one) | ((one == other) & earlier),
        lambda one, other, _: other < one,
    ],
    ids=["last of equals first", "before themselves", "NaN nowhere", "no order of equals"],
)
def test_other_counts_are_no_sorts(is_before: Callable[..., torch.Tensor]) -> None:
    """Counts that do not place every element, or do it in another order, run as they are."""

    def rank(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        place = torch.arange(x.shape[-1])
        earlier = place[None, :] < place[:, None]
        ranks = is_before(x[..., :, None], x[..., None, :], earlier).sum(-1)
        order = torch.zeros_like(ranks).scatter(-1, ranks, place.expand(ranks.shape))
        return (order,)

    x = draw_rows(np.random.default_rng(3), (6, 40))
    check_equal(capture_sorting(rank, x), 0)


def test_counts_in_another_form_are_sorts() -> None:
    """Integers compared by what is greater, and by a choice of signs, are sorted all the same."""

    def rank(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        place = torch.arange(x.shape[-1])
        one, other = x[..., :, None], x[..., None, :]
        is_before = (one > other) | (~(one != other) & (place[:, None] > place[None, :]))
        ranks = is_before.sum(-1)
        return (torch.zeros_like(ranks).scatter(-1, ranks, place.expand(ranks.shape)),)

    check_equal(capture_sorting(rank, np.random.default_rng(4).integers(0, 9, (3, 40))), 1)


def test_digits_sort_any_bits() -> None:
    """Keys of float32 of any bits sort as numbers do, NaN last, zeros of both signs alike."""
    rng = np.random.default_rng(5)
    x = rng.integers(0, 1 << 32, (40, 257), dtype=np.uint32).view(np.float32)
    x[::3] = rng.choice(PATTERNS, (len(x[::3]), 257)).view(np.float32)
    for is_descending in (False, True):
        finite = np.where(np.isnan(x), 0, x).astype(np.float64)
        numbers = np.where(np.isnan(x), 1e300, np.clip(finite, -1e200, 1e200))
        wanted = np.argsort(-numbers if is_descending else numbers, -1, "stable")
        assert np.array_equal(sort_lines(make_keys(x, is_descending=is_descending)), wanted)


def test_counters() -> None:
    """The counter is told from whatever differs from it anywhere."""
    assert is_counter(np.arange(77))
    for place in (0, 40, 76):
        numbers = np.arange(77)
        numbers[place] ^= 1 << place % 63
        assert not is_counter(numbers)
