"""Random operators: exact functions of Philox's numbers, with the distributions they stand for."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from moot.offchain.arithmetic.philox import uniform_bits
from moot.offchain.errors import CaptureError
from moot.offchain.execution.executor import Executor
from moot.offchain.frontend.lowering.randomness import MAX_INTEGERS
from tests.program_helpers import assert_close, capture_function, run_function

SEED = 7
MANY = 4_000


def draw(stream: int, count: int) -> NDArray[np.float32]:
    """Return uniform numbers of step 0, from the definition."""
    bits = [uniform_bits(SEED, 0, stream, i) for i in range(count)]
    return np.array(bits, np.uint32).view(np.float32)


def run_fast(function: Callable[..., Any], *inputs: torch.Tensor, step: int = 0) -> Any:
    """Return the one output of a function in some step."""
    captured = capture_function(function, *inputs)
    return Executor(captured.program).run(captured.initial_state, captured.batch(0), step)[-1]


def test_uniform_numbers_of_a_range() -> None:
    """A uniform number of [a, b) is a + (b - a) u, each operation rounded."""
    (found,) = run_function(lambda x: torch.empty(9).uniform_(-3, 4) + x, torch.zeros(1))
    assert found.tolist() == (draw(0, 9) * np.float32(7) + np.float32(-3)).tolist()


def test_normal_numbers() -> None:
    """A normal number is Box and Muller's function of two streams."""
    (found,) = run_function(lambda x: torch.randn(2, 3) + x, torch.zeros(1))
    u, v = (draw(stream, 6).astype(np.float64).reshape(2, 3) for stream in (0, 1))
    assert_close(found, np.sqrt(-2 * np.log(u)) * np.cos(2 * np.pi * v))


@pytest.mark.parametrize(
    ("function", "mean", "deviation"),
    [
        (torch.randn_like, 0, 1),
        (lambda x: torch.empty_like(x).normal_(3, 0.5), 3, 0.5),
        (torch.rand_like, 0.5, 12**-0.5),
        (lambda x: torch.empty_like(x).exponential_(2), 0.5, 0.5),
        (lambda x: torch.randint_like(x, 10).float(), 4.5, 8.25**0.5),
        (lambda x: torch.bernoulli(x + 0.25), 0.25, 0.1875**0.5),
    ],
)
def test_moments(function: Callable[..., Any], mean: float, deviation: float) -> None:
    """Mean and deviation of many draws are those of the distribution."""
    found = run_fast(function, torch.zeros(MANY))
    assert abs(found.mean() - mean) < 5 * deviation / MANY**0.5
    assert abs(found.std() - deviation) < 5 * deviation / MANY**0.5


def test_steps_draw_anew() -> None:
    """Another step has other numbers, the same step the same ones."""
    first, again, other = (run_fast(torch.randn_like, torch.zeros(8), step=s) for s in (1, 1, 2))
    assert (first == again).all()
    assert not (first == other).any()


def test_random_integers() -> None:
    """An integer of [low, high) is low + floor((high - low) u)."""
    (found,) = run_function(lambda x: torch.randint(-2, 5, (40,)) + x, torch.zeros(1).long())
    assert found.tolist() == [-2 + int(np.float32(7) * u) for u in draw(0, 40)]
    assert set(found.tolist()) == set(range(-2, 5))


def test_a_multinomial_draws_in_proportion() -> None:
    """Draws have the frequencies of their weights, whatever their sum; never those of weight 0."""
    weights = torch.tensor([0.0, 1.0, 0.0, 3.0])
    found = run_fast(lambda w: torch.multinomial(w, MANY, replacement=True), weights)
    counts = np.bincount(found, minlength=4)
    assert counts[0] == counts[2] == 0
    assert abs(counts[3] / MANY - 0.75) < 0.04
    single = run_fast(lambda w: torch.multinomial(w.expand(MANY, 4), 1), weights)
    assert single.shape == (MANY, 1)
    assert abs((single == 3).mean() - 0.75) < 0.04


def test_a_multinomial_without_replacement() -> None:
    """Several draws without replacement differ, and those of weight 0 are drawn last."""
    weights = torch.tensor([[0.5, 0.0, 2.0, 1.0]]).expand(50, 4)
    (found,) = run_function(lambda w: torch.multinomial(w, 3), weights)
    assert all(sorted(row) == [0, 2, 3] for row in found.tolist())
    assert len({tuple(row) for row in found.tolist()}) > 2


def test_the_only_choice_is_always_made() -> None:
    """A multinomial with one positive weight, however small, chooses it."""
    weights = torch.zeros(MANY, 3)
    weights[:, 1] = 1e-30
    assert (run_fast(lambda w: torch.multinomial(w, 1), weights) == 1).all()


@pytest.mark.parametrize(
    ("function", "message"),
    [
        (lambda x: torch.randint(MAX_INTEGERS + 1, (2,)) + x, "random integers"),
        (lambda x: torch.poisson(x.exp()), "no rule expresses this random operator"),
    ],
)
def test_other_draws_are_refused(function: Callable[..., Any], message: str) -> None:
    """Random operators that have no rule, and ranges that 24 bits cannot draw from, are refused."""
    with pytest.raises(CaptureError, match=message):
        capture_function(function, torch.zeros(1))
