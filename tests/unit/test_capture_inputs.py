"""Inputs of a step that a program can't have: hidden in generators, batches and the model."""

import random
from collections.abc import Callable
from functools import lru_cache
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from moot.offchain.errors import CaptureError, UsageError
from moot.offchain.frontend.capture import capture
from moot.offchain.frontend.recipe import Recipe, TrainingRecipe
from moot.offchain.text import show, show_error


def make_batch(step: int) -> tuple[torch.Tensor, ...]:
    """Return a batch."""
    x = torch.randn(8, 4, generator=torch.Generator().manual_seed(step))
    return x, x[:, :2].sin()


def make_recipe(
    loss: Callable[..., torch.Tensor], batch: Any = make_batch, model: nn.Module | None = None
) -> Recipe:
    """Return a recipe."""
    torch.manual_seed(0)
    model = nn.Linear(4, 2) if model is None else model
    return TrainingRecipe(model, loss, torch.optim.SGD(model.parameters(), 0.1), batch)


def compute_loss(model: nn.Module, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    """Return a loss."""
    return nn.functional.mse_loss(model(x), y)


def seed_every_step(model: nn.Module, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    """Return a loss with noise that is the same in every step."""
    with torch.random.fork_rng():
        torch.manual_seed(42)
        noise = torch.randn(2)
    return compute_loss(model, x, y + noise)


STATE = torch.Generator().manual_seed(7).get_state()


def set_state_every_step(model: nn.Module, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    """Return a loss with noise that is the same in every step, by a state that was kept."""
    torch.set_rng_state(STATE)
    return compute_loss(model, x, y + torch.randn(2))


@pytest.mark.parametrize("loss", [seed_every_step, set_state_every_step])
def test_noise_that_repeats_is_refused(loss: Callable[..., torch.Tensor]) -> None:
    """What torch draws alike in every step, and a program would draw anew, is refused."""
    with pytest.raises(CaptureError, match="sets the state of torch's generator"):
        capture(make_recipe(loss))


def test_noise_of_every_step_is_captured() -> None:
    """Noise that torch draws anew in every step is the program's, too."""
    capture(make_recipe(lambda m, x, y: compute_loss(m, x, y + torch.randn(2))))


def _make_schedule(first: int) -> Recipe:
    model = nn.Linear(4, 2)
    model.beta = 0.0  # type: ignore[assignment]  # as users do

    def batch(step: int) -> tuple[torch.Tensor, ...]:
        model.beta = max(0.0, 0.5 * (step - first))  # type: ignore[assignment]  # likewise
        return make_batch(step)

    return make_recipe(
        lambda m, x, y: compute_loss(m, x, y) + m.beta * m.weight.square().sum(), batch, model
    )


def _make_memory() -> Recipe:
    data = torch.utils.data.TensorDataset(*make_batch(0))
    loader = iter(torch.utils.data.DataLoader(data, 2))
    kept: dict[int, Any] = {}

    def batch(step: int) -> tuple[torch.Tensor, ...]:
        if step not in kept:
            kept[step] = tuple(next(loader))
        return kept[step]

    return make_recipe(compute_loss, batch)


@pytest.mark.parametrize(("first", "found"), [(3, 7), (30, 64), (300, 999)])
def test_a_schedule_that_batches_set_is_refused(first: int, found: int) -> None:
    """A batch function that changes what a step reads is refused, however late it begins."""
    message = rf"^model.beta: asking for the batch of step {found} changes it from 0.0 to"
    with pytest.raises(CaptureError, match=message):
        capture(_make_schedule(first))


def test_batches_with_a_memory_are_refused() -> None:
    """A batch that depends on which were asked for before is refused by the iterator's name."""
    with pytest.raises(CaptureError, match=r"^batch.loader: the batch function reads an iterator"):
        capture(_make_memory())


READS: dict[str, Callable[[nn.Module], torch.Tensor]] = {
    "a weight": lambda m: m.weight.detach(),
    "a bias that begins with 0": lambda m: m.bias.detach().expand(2, 4),
    "a counter": lambda m: m.count.expand(2, 4).float(),
    "what does not change": lambda m: m.data[:2],
}


def _read_model(name: str) -> TrainingRecipe:
    model = nn.Linear(4, 4)
    nn.init.zeros_(model.bias)
    model.register_buffer("count", torch.zeros((), dtype=torch.int64))
    model.register_buffer("data", torch.ones(3, 4))

    def compute(m: Any, x: torch.Tensor) -> torch.Tensor:
        m.count += 1
        return (m(x) + m.data.sum()).square().mean()

    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    return TrainingRecipe(model, compute, optimizer, lambda _: (READS[name](model)[:2] + 1,))


@pytest.mark.parametrize("trust", [False, True], ids=["compared", "trusted"])
@pytest.mark.parametrize("name", READS)
def test_batches_of_what_learns_are_refused(name: str, trust: bool) -> None:  # noqa: FBT001 - pytest's
    """A provider that begins later has no weights of its own to make a batch of."""
    if name == "what does not change":
        assert capture(_read_model(name), trust=trust).program
        return
    with pytest.raises(
        CaptureError, match=r"^batch x: step 0, asked for when the model has changed"
    ):
        capture(_read_model(name), trust=trust)


class Stream:
    """Gives one batch after the other, and keeps those that it has given."""

    def __init__(self) -> None:
        self.position, self.kept = 0, dict[int, Any]()

    def __call__(self, step: int) -> tuple[torch.Tensor, ...]:
        """Return the batch that it has given for a step, or the next one."""
        if step not in self.kept:
            self.kept[step] = make_batch(self.position)
            self.position += 1
        return self.kept[step]


def _memoize_stream() -> Any:
    draws = np.random.default_rng(0)
    return lru_cache(None)(lambda _: make_batch(int(draws.integers(1000))))


def _cycle_short(step: int) -> tuple[torch.Tensor, ...]:
    rows = make_batch(0)
    start = 8 * (step % 3)
    return tuple(torch.cat([tensor] * 3)[:22][start : start + 8] for tensor in rows)


def _make_loader(*, drop_last: bool) -> Any:
    data = torch.utils.data.TensorDataset(torch.randn(300, 4), torch.randn(300, 2))
    batches = list(torch.utils.data.DataLoader(data, 8, drop_last=drop_last))
    return lambda step: batches[step % len(batches)]


def _make_slices() -> Any:
    x, y = torch.randn(300, 4), torch.randn(300, 2)
    return lambda step: (x[8 * step : 8 * step + 8], y[8 * step : 8 * step + 8])


def _narrow_at(number: int) -> Any:
    return lambda step: tuple(x.double() if step >= number else x for x in make_batch(step))


def _narrow_outside(first: int, end: int) -> Any:
    return lambda step: tuple(x.double() if first <= step < end else x for x in make_batch(step))


def _make_growing() -> Any:
    kept: dict[int, Any] = {}

    def batch(step: int) -> tuple[torch.Tensor, ...]:
        if step >= 8 and len(kept) < 8:
            raise IndexError
        return kept.setdefault(step, make_batch(step))

    return batch


def _count(step: int) -> tuple[torch.Tensor, ...]:
    x, y = make_batch(step)
    return (x, y, x) if step == 7 else (x, y)


OTHERS: dict[str, tuple[Callable[[], Any], str]] = {
    "a stream": (
        Stream,
        r"^batch x: step \d+, asked for out of order, gives two different tensors \(element 0 is ",
    ),
    "a memoized stream": (_memoize_stream, r"^batch x: step \d+, asked for out of order, gives "),
    "a short batch": (
        lambda: _cycle_short,
        r"^batch x: float32 \(6, 4\) in step 2, and float32 \(8, 4\) in step 0; give all",
    ),
    "the last batch of a loader": (
        lambda: _make_loader(drop_last=False),
        r"^batch x: float32 \(4, 4\) in step 37, and float32 \(8, 4\) in step 0; give all",
    ),
    "the last slice": (
        _make_slices,
        r"^batch x: float32 \(4, 4\) in step 37, and float32 \(8, 4\) in step 0; give all",
    ),
    "a wider type later": (
        lambda: _narrow_at(500),
        r"^batch x: float64 \(8, 4\) in step \d{3}, and float32 \(8, 4\) in step 0; give all",
    ),
    "a wider type in between": (
        lambda: _narrow_outside(100, 900),
        r"^batch x: float64 \(8, 4\) in step \d{3}, and float32 \(8, 4\) in step 0; give all",
    ),
    "data that end once": (
        _make_growing,
        r"^batch: step \d+, asked for out of order, gives data once and IndexError then; make it",
    ),
    "another number of tensors": (
        lambda: _count,
        r"^the batch of step 7 has 3 tensors, and that of step 0 has 2; give all",
    ),
    "another kind": (
        lambda: lambda step: make_batch(step) if step < 6 else dict(enumerate(make_batch(step))),
        r"^batch\(6\) is a dict; return a tuple of tensors",
    ),
}


@pytest.mark.parametrize("trust", [False, True], ids=["compared", "trusted"])
@pytest.mark.parametrize("name", OTHERS)
def test_batches_of_another_order_or_form_are_refused(name: str, trust: bool) -> None:  # noqa: FBT001 - pytest's
    """Batches are asked for far away, at the ends of data, and in another order."""
    make, message = OTHERS[name]
    with pytest.raises(CaptureError if "dict" not in message else UsageError, match=message):
        capture(make_recipe(compute_loss, make()), trust=trust)


def test_batches_that_end_are_captured() -> None:
    """Data that end before some far step are no fault of the recipe, nor are whole batches."""
    batches = [make_batch(step) for step in range(4)]
    x, y = torch.randn(32, 4), torch.randn(32, 2)
    capture(make_recipe(compute_loss, batches.__getitem__))
    capture(make_recipe(compute_loss, _make_loader(drop_last=True)))
    capture(make_recipe(compute_loss, lambda s: (x[8 * s : 8 * s + 8], y[8 * s : 8 * s + 8])))


def _seed_generators(step: int) -> tuple[torch.Tensor, ...]:
    random.seed(step)
    np.random.seed(step)  # noqa: NPY002 - as users do
    torch.manual_seed(step)
    shift = random.random() + float(np.random.rand())  # noqa: NPY002 - likewise
    return tuple(x + shift for x in (torch.randn(8, 4), torch.randn(8, 2)))


def test_batches_of_generators_that_they_seed_are_captured() -> None:
    """A batch may be drawn from the generators of the process, seeded by its number."""
    capture(make_recipe(compute_loss, _seed_generators))


def test_what_batches_keep_is_put_back() -> None:
    """A capture leaves what a batch function keeps as it was, whatever was asked for."""
    kept = {3: make_batch(3)}

    def batch(step: int) -> tuple[torch.Tensor, ...]:
        if step not in kept:
            kept[step] = make_batch(step)
        return kept[step]

    capture(make_recipe(compute_loss, batch))
    assert {*kept} <= {0, 1, 2, 3}


def test_a_mismatch_names_what_differs() -> None:
    """A step that keeps something elsewhere is refused by its name, with both numbers behind it."""

    class Fourth(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.linear, self.calls = nn.Linear(4, 2), 0

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            self.calls += 1
            return self.linear(x) * self.calls

    with pytest.raises(CaptureError, match=r"^model.calls: a step changes it from 0 to ") as caught:
        capture(make_recipe(compute_loss, model=Fourth()))
    assert "in torch" in str(caught.value)
    assert "in the program" in str(caught.value)


def differentiate_twice(model: nn.Module, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    """Return a loss of derivatives forward of derivatives backward."""
    hessian = torch.func.vmap(torch.func.hessian(lambda row: model(row)[0].tanh()))
    return hessian(x).square().mean() + compute_loss(model, x, y)


def differentiate_along(model: nn.Module, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    """Return a loss of a derivative forward along a direction, of a function of two tensors."""
    zeros = torch.zeros_like(y)
    change: torch.Tensor = torch.func.jvp(lambda a, b: model(a) * b, (x, y), (x.cos(), zeros))[1]
    return change.square().mean()


@pytest.mark.slow
@pytest.mark.parametrize("loss", [differentiate_twice, differentiate_along])
def test_derivatives_forward_are_captured(loss: Callable[..., torch.Tensor]) -> None:
    """What torch differentiates forward is traced, and its gradient is eager torch's."""
    assert capture(make_recipe(loss)).is_rehearsed


def pack(model: nn.Module, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    """Return a loss by way of a format of torch's own, which it can't trace."""
    packed: torch.Tensor = model(x).to_mkldnn()
    return (packed.to_dense() - y).square().mean()


def test_what_torch_cannot_trace_is_one_line() -> None:
    """What torch raises by itself, with no line of the user's to blame, is one line, no address."""
    with pytest.raises(CaptureError) as caught:
        capture(make_recipe(pack))
    said = str(caught.value)
    assert "torch can't trace it (NotImplementedError: " in said
    assert "in model test_capture_inputs.py:" in said
    assert "\n" not in said
    assert " at 0x" not in said


def test_addresses_are_not_told() -> None:
    """An object that torch names by its address is named by its class."""
    error = ValueError("no rule for cond and <a.b.Tracker object at 0x7f21969f7750>\nmore")
    assert show_error(error) == "ValueError: no rule for cond and a Tracker"
    assert show_error(KeyError(len)) == "KeyError: <built-in function len>"
    assert show(len.__call__) == "a method-wrapper"


def fail(model: nn.Module, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    """Raise what has nothing to do with torch."""
    return compute_loss(model, x, y) / {}["scale"]


def test_what_the_user_raises_is_the_users() -> None:
    """An exception of the user's own code is left as it is, with the user's line."""
    with pytest.raises(KeyError, match="scale"):
        capture(make_recipe(fail))


def test_a_loss_that_is_shown_is_captured(capsys: pytest.CaptureFixture[str]) -> None:
    """A step may print its loss, of which nobody knows the number while it is traced."""

    def loss(model: nn.Module, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        value = compute_loss(model, x, y)
        print(f"{value:.4f} {value.item():.4f}")  # noqa: T201 - what is tried
        return value

    capture(make_recipe(loss))
    assert "(traced) (traced)" in capsys.readouterr().out
