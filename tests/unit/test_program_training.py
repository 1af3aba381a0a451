"""The parts that a training step may have, each against stock torch and the definition."""

from collections.abc import Callable
from dataclasses import replace
from importlib import import_module
from math import cos, pi
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from moot.offchain.commitments.tensors import Array
from moot.offchain.errors import CaptureError, UsageError
from moot.offchain.execution.executor import Executor
from moot.offchain.frontend.capture import capture
from moot.offchain.frontend.clipping import Clip, ClipNorm, ClipValue
from moot.offchain.frontend.optimizers import SGD, Adafactor, AdamW, Group, Lion, everything
from moot.offchain.frontend.recipe import TrainingRecipe
from moot.offchain.frontend.schedules import CosineDecay, LinearDecay, Schedule, StepDecay, Warmup
from moot.offchain.programs.graph import Program
from tests.program_helpers import assert_close
from tests.quick import every, only
from tests.training_helpers import (
    Reference,
    assert_trains_as,
    by_name,
    make_batch,
    make_model,
    square_loss,
)

RATE = 0.05


def make_recipe(**options: Any) -> TrainingRecipe:
    """Return the recipe of a perceptron, by plain gradient descent unless something is said."""
    settings = {"optimizer": SGD(RATE)} | options
    return TrainingRecipe(make_model(), square_loss, batch=make_batch, **settings)


def make_reference(
    recipe: TrainingRecipe,
    optimizer: torch.optim.Optimizer,
    clip: Callable[[Any], Any] = lambda _: None,
    schedule: torch.optim.lr_scheduler.LRScheduler | None = None,
) -> Reference:
    """Return the training loop that a user of torch writes."""

    def step(model: nn.Module, number: int) -> float:
        optimizer.zero_grad()
        total = 0.0
        for micro in range(recipe.accumulate):
            loss = recipe.loss(model, *recipe.batch(number * recipe.accumulate + micro))
            (loss / recipe.accumulate).backward()  # type: ignore[no-untyped-call]  # torch's is untyped
            total += loss.item() / recipe.accumulate
        clip(model.parameters())
        optimizer.step()
        if schedule:
            schedule.step()
        return total

    return step


CLIPS: dict[str, tuple[Clip, Callable[[Any], Any]]] = {
    "norm": (ClipNorm(1.0), lambda p: nn.utils.clip_grad_norm_(p, 1.0)),
    "loose norm": (ClipNorm(1e6), lambda p: nn.utils.clip_grad_norm_(p, 1e6)),
    "value": (ClipValue(0.5), lambda p: nn.utils.clip_grad_value_(p, 0.5)),
}


@pytest.mark.parametrize("accumulate", only({3}, [1, 3]))
@pytest.mark.parametrize("name", every(4, CLIPS))
def test_clipping_is_torch_s(name: str, accumulate: int) -> None:
    """Gradients are clipped as torch's utilities do, after all batches of a step are summed."""
    clip, stock = CLIPS[name]
    recipe = make_recipe(clip=clip, accumulate=accumulate)
    optimizer = torch.optim.SGD(recipe.model.parameters(), RATE)
    assert_trains_as(recipe, make_reference(recipe, optimizer, stock))


@pytest.mark.parametrize("name", ["norm", "value"])
def test_a_missing_clip_is_noticed(name: str) -> None:
    """The comparison is sharp: training that does not clip differs from training that does."""
    recipe = make_recipe()
    optimizer = torch.optim.SGD(recipe.model.parameters(), RATE)
    with pytest.raises(AssertionError, match="Not equal to tolerance"):
        assert_trains_as(recipe, make_reference(recipe, optimizer, CLIPS[name][1]))


def test_a_loose_clip_changes_no_bit() -> None:
    """A norm below the largest one scales the gradients by exactly one."""
    states = []
    for clip in (None, ClipNorm(1e30)):
        captured = capture(make_recipe(clip=clip), trust=True)
        state = Executor(captured.program).run(captured.initial_state, captured.batch(0), 0)
        states.append([array.tobytes() for array in state])
    assert states[0] == states[1]


def test_a_norm_that_is_no_number_spoils_every_parameter() -> None:
    """As in torch, one gradient that is NaN makes all parameters NaN, and none is left behind."""

    def loss(model: nn.Module, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return square_loss(model, x, y) * float("nan")

    captured = capture(replace(make_recipe(clip=ClipNorm(1.0)), loss=loss), trust=True)
    state = Executor(captured.program).run(captured.initial_state, captured.batch(0), 0)
    for name, array in by_name(captured, state).items():
        if name.startswith("parameter."):
            assert np.isnan(array).all()


@pytest.mark.parametrize("accumulate", only({3}, [2, 3, 4]))
def test_accumulation_is_torch_s(accumulate: int) -> None:
    """A step of several batches updates by their mean gradient, and yields their mean loss."""
    recipe = make_recipe(accumulate=accumulate, optimizer=SGD(RATE, momentum=0.9))
    optimizer = torch.optim.SGD(recipe.model.parameters(), RATE, momentum=0.9)
    assert_trains_as(recipe, make_reference(recipe, optimizer))
    names = [slot.name for slot in capture(recipe, trust=True).program.batch]
    assert names == [f"{name}.{k}" for k in range(accumulate) for name in ("x", "y")]


def test_accumulated_batches_see_each_other_s_buffers_and_have_dropout_of_their_own() -> None:
    """Running statistics move once for each batch, in order, and no two batches share a mask."""
    model = nn.Sequential(nn.BatchNorm1d(3), nn.Dropout(0.5), nn.Linear(3, 2))
    recipe = replace(make_recipe(accumulate=3), model=model)
    captured = capture(recipe)
    streams = [node.stream for node in captured.program.nodes if node.kind.name == "RANDOM"]
    assert streams == [0, 1, 2]
    state = Executor(captured.program).run(captured.initial_state, captured.batch(1), 1)
    for number in range(3, 6):
        model[0](recipe.batch(number)[0])
    named = by_name(captured, state)
    assert named["buffer.0.num_batches_tracked"] == 3
    mean = model[0].running_mean
    assert isinstance(mean, torch.Tensor)
    assert_close(named["buffer.0.running_mean"], mean, 1e-5, 1e-6)


def find_peak(program: Program) -> int:
    """Return the most elements of operators' outputs that are alive at once, in their order."""
    last = {r: index for index, node in enumerate(program.nodes) for r in node.inputs}
    alive = peak = 0
    for index, node in enumerate(program.nodes[: program.first_sink]):
        alive += node.elements
        peak = max(peak, alive)
        alive -= sum(program.nodes[r].elements for r in set(node.inputs) if last[r] == index)
    return peak


def test_accumulation_takes_the_memory_of_one_batch_and_one_sum() -> None:
    """However many batches a step takes, its peak grows by the gradients' sum and the inputs."""
    model = nn.Sequential(nn.Linear(2, 64), nn.Tanh(), nn.Linear(64, 64), nn.Tanh())

    def batch(_: int) -> tuple[torch.Tensor]:
        return (torch.ones(300, 2),)

    def loss(model: nn.Module, x: torch.Tensor) -> torch.Tensor:
        return torch.as_tensor(model(x).square().mean())

    recipes = [
        TrainingRecipe(model, loss, SGD(RATE), batch, accumulate=count) for count in (1, 2, 6)
    ]
    one, two, six = (find_peak(capture(recipe, trust=True).program) for recipe in recipes)
    parameters = sum(p.numel() for p in model.parameters())
    assert two <= one + 1.1 * parameters + 2 * 300 * 2
    assert six <= two + 4 * 300 * 2 + 100


def get_scheduler(name: str, optimizer: torch.optim.Optimizer) -> Any:
    """Return a scheduler of the transformers library, or of torch."""
    optimization: Any = import_module("transformers.optimization")  # heavy, and without types
    makers: dict[str, Callable[[], Any]] = {
        "constant": lambda: optimization.get_constant_schedule_with_warmup(optimizer, 3),
        "linear": lambda: optimization.get_linear_schedule_with_warmup(optimizer, 2, 7),
        "linear cold": lambda: optimization.get_linear_schedule_with_warmup(optimizer, 0, 5),
        "cosine": lambda: optimization.get_cosine_schedule_with_warmup(optimizer, 3, 8),
        "step": lambda: torch.optim.lr_scheduler.StepLR(optimizer, 3, 0.3),
    }
    return makers[name]()


SCHEDULES: dict[str, Schedule] = {
    "constant": Warmup(RATE, 3),
    "linear": LinearDecay(RATE, 7, warmup=2),
    "linear cold": LinearDecay(RATE, 5),
    "cosine": CosineDecay(RATE, 8, warmup=3),
    "step": StepDecay(RATE, 3, 0.3),
}


@pytest.mark.parametrize("name", every(8, SCHEDULES))
def test_schedules(name: str) -> None:
    """Rates are those of the schedulers that people use, with the counter in the state."""
    recipe = make_recipe(optimizer=AdamW(SCHEDULES[name]))
    optimizer = torch.optim.AdamW(recipe.model.parameters(), RATE)
    scheduler = get_scheduler(name, optimizer)
    assert_trains_as(recipe, make_reference(recipe, optimizer, schedule=scheduler), steps=9)
    slots = [slot.name for slot in capture(recipe, trust=True).program.state]
    assert slots.count("optimizer.updates") == 1


@pytest.mark.parametrize("name", SCHEDULES)
def test_rates_over_a_long_run(name: str) -> None:
    """After any number of updates a rate is the scheduler's; past the end it stays at the end."""
    optimizer = torch.optim.SGD([torch.zeros(1)], RATE)
    scheduler = get_scheduler(name, optimizer)
    schedule = SCHEDULES[name]
    for updates in range(9):
        rate = schedule(torch.tensor(updates))
        assert rate.dtype == torch.float32
        assert rate.shape == ()
        torch.testing.assert_close(rate.item(), scheduler.get_last_lr()[0], rtol=1e-6, atol=1e-9)
        optimizer.step()
        scheduler.step()
    if name in ("linear", "linear cold", "cosine"):
        assert schedule(torch.tensor(10**9)) < 1e-8


@pytest.mark.parametrize(
    "optimizer",
    [
        pytest.param(SGD(LinearDecay(RATE, 9), 0.9, 0.1), id="SGD"),
        pytest.param(Lion(Warmup(0.01, 2)), id="Lion", marks=pytest.mark.slow),
        pytest.param(Adafactor(StepDecay(RATE, 2)), id="Adafactor", marks=pytest.mark.slow),
    ],
)
def test_every_optimizer_follows_a_schedule(optimizer: Any) -> None:
    """A step with a schedule is the step with the rate that the schedule has at that number."""
    captured = capture(make_recipe(optimizer=optimizer), trust=True)
    executor = Executor(captured.program)
    state = captured.initial_state
    for step in range(4):
        rate = optimizer.learning_rate(torch.tensor(step)).item()
        fixed = capture(make_recipe(optimizer=replace(optimizer, learning_rate=rate)), trust=True)
        named = by_name(captured, state)
        before: list[Array] = [named[slot.name] for slot in fixed.program.state]
        expected = by_name(fixed, Executor(fixed.program).run(before, captured.batch(step), step))
        state = executor.run(state, captured.batch(step), step)
        found = by_name(captured, state)
        for name, array in expected.items():
            assert_close(found[name], array, 1e-6, 1e-7)
        assert found["optimizer.updates"] == step + 1


def is_vector(name: str) -> bool:
    """Match biases and norms of the perceptron."""
    return name.endswith("bias") or name.startswith("norm")


def test_groups_are_torch_s() -> None:
    """Groups have optimizers of their own: other rates, schedules and weight decays."""
    groups = (
        Group(is_vector, AdamW(0.02, weight_decay=0.0)),
        Group(lambda name: name.startswith("first"), AdamW(LinearDecay(RATE, 10), beta1=0.8)),
        Group(everything, AdamW(RATE, weight_decay=0.3)),
    )
    recipe = make_recipe(optimizer=groups)
    named = dict(recipe.model.named_parameters())
    vectors = [p for name, p in named.items() if is_vector(name)]
    settings: list[dict[str, Any]] = [
        {"params": vectors, "lr": 0.02, "weight_decay": 0.0},
        {"params": [named["first.weight"]], "betas": (0.8, 0.999)},
        {"params": [named["last.weight"]], "weight_decay": 0.3},
    ]
    optimizer = torch.optim.AdamW(settings, RATE)
    falling = [lambda _: 1.0, lambda step: 1 - step / 10, lambda _: 1.0]
    schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, falling)
    assert_trains_as(recipe, make_reference(recipe, optimizer, schedule=schedule))
    counters = [s.name for s in capture(recipe, trust=True).program.state if s.name[-1].isdigit()]
    powers = ("optimizer.beta1_power", "optimizer.beta2_power")
    assert counters == [
        *(f"{name}.0" for name in powers),
        *(f"{name}.1" for name in powers),
        "optimizer.updates.1",
        *(f"{name}.2" for name in powers),
    ]


@pytest.mark.slow
def test_groups_of_different_optimizers() -> None:
    """A group's update is what its optimizer alone would do, whatever the other groups use."""
    groups = [Group(is_vector, Lion(0.01)), Group(everything, Adafactor(0.01))]
    mixed, lion, adafactor = (
        capture(make_recipe(optimizer=optimizer))
        for optimizer in (groups, Lion(0.01), Adafactor(0.01))
    )
    results = [
        by_name(c, Executor(c.program).run(c.initial_state, c.batch(0), 0))
        for c in (mixed, lion, adafactor)
    ]
    for name, array in results[0].items():
        if name.startswith("parameter."):
            alone = results[1] if is_vector(name.removeprefix("parameter.")) else results[2]
            assert array.tobytes() == alone[name].tobytes()


def test_a_parameter_without_a_group_is_refused() -> None:
    """Groups that leave a parameter out are refused by its name, unless it is frozen."""
    recipe = make_recipe(optimizer=[Group(is_vector, SGD(RATE))])
    with pytest.raises(UsageError, match=r"no group matches the parameter first\.weight; end"):
        capture(recipe)
    for name, parameter in recipe.model.named_parameters():
        parameter.requires_grad_(is_vector(name))
    capture(recipe)


def test_frozen_parameters_cost_nothing() -> None:
    """A frozen parameter has no gradient and no moments, and its sink gives back what came."""
    recipe = make_recipe(optimizer=AdamW(RATE))
    for parameter in recipe.model.get_submodule("first").parameters():
        parameter.requires_grad_(False)
    optimizer = torch.optim.AdamW(recipe.model.parameters(), RATE)
    captured = capture(recipe)
    state = Executor(captured.program).run(captured.initial_state, captured.batch(0), 0)
    before, after = by_name(captured, captured.initial_state), by_name(captured, state)
    for name in ("parameter.first.weight", "parameter.first.bias"):
        assert np.shares_memory(before[name], after[name])
        sink = captured.program.nodes[captured.program.names.index(f"next:{name}")]
        assert sink.operands[0].reference == captured.program.names.index(f"state:{name}")
    assert not [name for name in after if name.startswith("optimizer.first")]
    assert_trains_as(recipe, make_reference(recipe, optimizer))


class Tied(nn.Module):
    """A language model whose output layer is its embedding."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(5, 3)
        self.last = nn.Linear(3, 5, bias=False)
        self.last.weight = self.embedding.weight

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        """Return the logits of each token."""
        result: torch.Tensor = self.last(self.embedding(tokens))
        return result


def test_tied_weights_are_torch_s() -> None:
    """A weight that is used twice is one tensor of the state, with the sum of both gradients."""
    torch.manual_seed(0)

    def loss(model: nn.Module, tokens: torch.Tensor) -> torch.Tensor:
        return nn.functional.cross_entropy(model(tokens[:-1]), tokens[1:])

    recipe = TrainingRecipe(
        Tied(), loss, AdamW(RATE), lambda s: (torch.arange(6) * (s + 2) % 5,), clip=ClipNorm(0.1)
    )
    optimizer = torch.optim.AdamW(recipe.model.parameters(), RATE)
    clip = CLIPS["norm"][1]
    with pytest.raises(AssertionError, match="Not equal to tolerance"):
        assert_trains_as(recipe, make_reference(recipe, optimizer, clip))
    recipe = replace(recipe, model=Tied())
    optimizer = torch.optim.AdamW(recipe.model.parameters(), RATE)
    stock = make_reference(recipe, optimizer, lambda p: nn.utils.clip_grad_norm_(p, 0.1))
    assert_trains_as(recipe, stock)
    names = [slot.name for slot in capture(recipe, trust=True).program.state]
    assert [name for name in names if name.startswith("parameter.")] == [
        "parameter.embedding.weight"
    ]


def test_a_long_run_of_everything_is_torch_s() -> None:
    """Groups, schedules, clipping and accumulation together stay with torch for 120 steps."""
    groups = (
        Group(is_vector, AdamW(CosineDecay(0.02, 120, warmup=10), weight_decay=0.0)),
        Group(everything, AdamW(LinearDecay(RATE, 150), weight_decay=0.1)),
    )
    recipe = make_recipe(optimizer=groups, clip=ClipNorm(2.0), accumulate=2)
    named = dict(recipe.model.named_parameters())
    optimizer = torch.optim.AdamW(
        [
            {
                "params": [p for n, p in named.items() if is_vector(n)],
                "lr": 0.02,
                "weight_decay": 0.0,
            },
            {"params": [p for n, p in named.items() if not is_vector(n)], "weight_decay": 0.1},
        ],
        RATE,
    )
    factors = [
        lambda n: n / 10 if n < 10 else (1 + cos(pi * (n - 10) / 110)) / 2,
        lambda n: 1 - n / 150,
    ]
    schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, factors)
    stock = make_reference(recipe, optimizer, lambda p: nn.utils.clip_grad_norm_(p, 2.0), schedule)
    assert_trains_as(recipe, stock, steps=120, tolerance=2e-3)


class Peeking(SGD):
    """An optimizer that looks at a gradient's elements."""

    def update(self, parameter: Any, gradient: Any, moments: Any, numbers: Any) -> Any:
        """Return what cannot be captured."""
        return super().update(parameter, gradient * gradient.max().item(), moments, numbers)


def test_a_user_s_optimizer_is_captured_or_refused_with_its_line() -> None:
    """An optimizer that makes its update depend on elements is refused where it does so."""
    with pytest.raises(CaptureError, match="depend on data") as caught:
        capture(make_recipe(optimizer=Peeking(RATE)))
    assert "gradient.max().item()" in caught.value.message
    assert (caught.value.source_line or "").startswith("test_program_training.py:")


def test_moments_of_transposed_weights_are_in_order() -> None:
    """The initial state is in row-major order, however a model's tensors lie in memory."""
    model = make_model()
    model.last.weight.data = model.last.weight.data.T.contiguous().T
    captured = capture(replace(make_recipe(optimizer=AdamW(RATE)), model=model), trust=True)
    assert all(array.flags.c_contiguous for array in captured.initial_state)


NONSENSE: dict[str, tuple[Callable[[], object], str]] = {
    "clip": (lambda: ClipNorm(-1.0), "the largest norm is -1.0"),
    "clip epsilon": (lambda: ClipNorm(1.0, -1e-6), "epsilon"),
    "clip value": (lambda: ClipValue(float("nan")), "the largest value is nan"),
    "accumulate": (lambda: make_recipe(accumulate=0), "choose an integer of at least 1"),
    "half a batch": (lambda: make_recipe(accumulate=1.5), "choose an integer"),
    "peak": (lambda: Warmup(-1.0, 5), "learning rate is -1.0"),
    "warmup": (lambda: Warmup(1.0, -5), "warm-up is -5"),
    "total": (lambda: CosineDecay(1.0, 5, warmup=5), "it includes the warm-up.* at least 6"),
    "no total": (lambda: LinearDecay(1.0, 0), "at least 1"),
    "every": (lambda: StepDecay(1.0, 0), "between decays is 0"),
    "factor": (lambda: StepDecay(1.0, 1, -0.1), "factor"),
}


@pytest.mark.parametrize("name", NONSENSE)
def test_nonsense_is_refused(name: str) -> None:
    """Settings that make no sense are refused, with what to choose instead."""
    make, message = NONSENSE[name]
    with pytest.raises(UsageError, match=message):
        make()
