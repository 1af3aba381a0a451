"""What every step moves in Python's memory, and what a step reads of the recipe's own optimizer."""

import collections
import contextvars
import itertools
import os
import threading
import weakref
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.nn.functional import mse_loss
from torch.optim.lr_scheduler import LambdaLR, LRScheduler, StepLR

from moot.offchain.errors import MootError
from moot.offchain.execution.executor import Executor
from moot.offchain.frontend.capture import capture
from moot.offchain.frontend.recipe import TrainingRecipe
from tests.quick import every

LATE = 1000
"""A step in which a thing happens that happens in no step before."""

Factor = Callable[[nn.Module], float]
"""Gives the factor of a loss, which is another one from some step on."""


def make_batch(step: int) -> tuple[Tensor, Tensor]:
    """Return a batch."""
    x = torch.randn(4, 3, generator=torch.Generator().manual_seed(step))
    return x, x[:, :2].sin()


def make_recipe(factor: Factor, **options: Any) -> TrainingRecipe:
    """Return a recipe whose loss has a factor."""
    torch.manual_seed(0)
    model = nn.Linear(3, 2)

    def loss(model: nn.Module, x: Tensor, y: Tensor) -> Tensor:
        return mse_loss(model(x), y) * factor(model)

    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    return TrainingRecipe(model, loss, optimizer, make_batch, **options)


class Box:
    """An object with a count."""

    def __init__(self) -> None:
        self.count = 0


class Slotted:
    """An object with a count in a slot."""

    __slots__ = ("count",)

    def __init__(self) -> None:
        self.count = 0


class Counting:
    """A descriptor that counts how often it is read."""

    def __init__(self) -> None:
        self.count = 0

    def __get__(self, owner: object, kind: type) -> int:
        self.count += 1
        return self.count


class Counted:
    """A class that counts itself."""

    count = 0
    read = Counting()


BOX = Box()
NUMBERS = np.zeros(2)


def count_in_box() -> int:
    """Return how often a global object was counted."""
    BOX.count += 1
    return BOX.count


def _decide(count: float) -> float:
    return 2.0 if count > LATE else 1.0


def _in_object(box: Any) -> Factor:
    def factor(_: nn.Module) -> float:
        box.count += 1
        return _decide(box.count)

    return factor


def _in_class() -> Factor:
    def factor(_: nn.Module) -> float:
        Counted.count += 1
        return _decide(Counted.count)

    return factor


def _in_array() -> Factor:
    def factor(_: nn.Module) -> float:
        NUMBERS[0] += 1
        return _decide(NUMBERS[0])

    return factor


def _in_context() -> Factor:
    count = contextvars.ContextVar("count", default=0)

    def factor(_: nn.Module) -> float:
        count.set(count.get() + 1)
        return _decide(count.get())

    return factor


def _in_environment() -> Factor:
    os.environ["MOOT_TEST_COUNT"] = "0"

    def factor(_: nn.Module) -> float:
        count = int(os.environ["MOOT_TEST_COUNT"]) + 1
        os.environ["MOOT_TEST_COUNT"] = str(count)
        return _decide(count)

    return factor


def _in_thread() -> Factor:
    local = threading.local()
    local.count = 0
    return _in_object(local)


def _behind_reference() -> Factor:
    box = Box()
    reference = weakref.ref(box)

    def factor(_: nn.Module, kept: Any = box) -> float:
        reference().count += 1
        return _decide(kept.count)

    return factor


def _by_model() -> Factor:
    counts: Any = weakref.WeakKeyDictionary()

    def factor(model: nn.Module) -> float:
        counts[model] = counts.get(model, 0) + 1
        return _decide(counts[model])

    return factor


def _of_function() -> Factor:
    def factor(_: nn.Module) -> float:
        factor.count += 1  # type: ignore[attr-defined]  # set below
        return _decide(factor.count)  # type: ignore[attr-defined]  # likewise

    factor.count = 0  # type: ignore[attr-defined]  # the attribute is what is tried
    return factor


def _of_new_objects() -> Factor:
    boxes = [Box()]

    def factor(_: nn.Module) -> float:
        following = Box()
        following.count = boxes[0].count + 1
        boxes[0] = following
        return _decide(boxes[0].count)

    return factor


def _in_list(kept: Any) -> Factor:
    def factor(_: nn.Module) -> float:
        kept.append(1)
        return _decide(len(kept))

    return factor


def _in_set() -> Factor:
    kept: set[int] = set()

    def factor(_: nn.Module) -> float:
        kept.add(len(kept))
        return _decide(len(kept))

    return factor


def _of_iterator(found: Iterator[float]) -> Factor:
    return lambda _: next(found)


def _generate() -> Iterator[float]:
    yield from [1.0] * LATE
    yield from itertools.repeat(2.0)


def _counting(use: Callable[[int], float]) -> Factor:
    counts = [0]

    def factor(_: nn.Module) -> float:
        counts[0] += 1
        return use(counts[0])

    return factor


def _freezing() -> Factor:
    counts = [0]

    def factor(model: nn.Module) -> float:
        counts[0] += 1
        if counts[0] == LATE:
            model.bias.requires_grad_(requires_grad=False)
        return 1.0

    return factor


HIDDEN: dict[str, tuple[Callable[[], Factor], str]] = {
    "an object": (lambda: _in_object(Box()), r"box\.count: a step changes it from 1 to 2, and dec"),
    "slots": (lambda: _in_object(Slotted()), r"box\.count: a step changes it from 1 to 2, and dec"),
    "a global object": (lambda: lambda _: _decide(count_in_box()), r"BOX\.count: a step changes"),
    "a class": (_in_class, r"Counted\.count: a step changes it from 1 to 2, and decides by it"),
    "a descriptor": (lambda: lambda _: _decide(Counted().read), r"read\.count: a step changes it"),
    "an array": (_in_array, r"NUMBERS: every step changes it"),
    "a context": (_in_context, r"the context's count: every step changes it, as from 2 to 3"),
    "the environment": (_in_environment, r"the environment's MOOT_TEST_COUNT: every step changes"),
    "a thread": (_in_thread, r"box\.count: a step changes it from 1 to 2, and decides by it"),
    "a weak reference": (_behind_reference, r"count: a step changes it from 1 to 2, and decides"),
    "a weak mapping": (_by_model, r"counts\[Linear.*\]: a step changes it from 1 to 2, and dec"),
    "a function": (_of_function, r"factor\.count: a step changes it from 1 to 2, and decides"),
    "new objects": (_of_new_objects, r"boxes\[0\]\.count: a step changes it from 1 to 2, and dec"),
    "a list": (lambda: _in_list([]), r"kept: every step changes it, as from \[1\] to \[1, 1\]"),
    "a queue": (lambda: _in_list(collections.deque(maxlen=9_999)), r"kept: every step changes it"),
    "a set": (_in_set, r"kept: every step changes it, as from \{0\} to \{0, 1\}"),
    "a generator": (lambda: _of_iterator(_generate()), r"found: the step reads an iterator \(gen"),
    "an index": (lambda: _counting(([1.0] * LATE).__getitem__), r"the step uses it as an index"),
    "an int": (lambda: _counting(lambda n: 1.0 + int(n / LATE)), r"the step uses it as an int"),
    "a key": (lambda: _counting(lambda n: {LATE: 2.0}.get(n, 1.0)), r"the step uses it as a key"),
    "a factor": (lambda: _counting(lambda n: 1.0 + n // LATE), r"the step computes with it"),
    "one step": (lambda: _counting(lambda n: 2.0 if n == LATE else 1.0), r"and decides by it"),
    "a gradient": (_freezing, r"counts\[0\]: a step changes it from 1 to 2, and decides by it"),
}


@pytest.mark.parametrize("name", every(16, HIDDEN))
def test_what_comes_of_a_count_later_is_refused(name: str) -> None:
    """A count that shows in no step of the rehearsal is found wherever Python keeps it."""
    make, message = HIDDEN[name]
    with pytest.raises(MootError, match=message) as caught:
        capture(make_recipe(make()))
    assert "\n" not in str(caught.value)


def _logging() -> Factor:
    history: list[float] = []
    last: dict[str, Any] = {}
    counts = [0]

    def factor(model: nn.Module) -> float:
        counts[0] += 1
        history.append(1.0)
        last["norm"] = model.weight.detach().norm()
        if counts[0] % 10 == 0:
            print(f"step {counts[0]}: {last['norm']:.3f}")  # noqa: T201 - what a user would do
        return 1.0

    return factor


def _caching() -> Factor:
    kept: dict[str, Tensor] = {}
    counts = [0]

    def factor(model: nn.Module) -> float:
        counts[0] += 1
        if "ones" not in kept:
            kept["ones"] = torch.ones(3).cumsum(0)
        return float(model(kept["ones"][None]).shape[0])

    return factor


@pytest.mark.parametrize("make", [_logging, _caching])
def test_what_is_only_shown_is_captured(make: Callable[[], Factor]) -> None:
    """Counts, times and losses may be logged: no way of the step depends on them."""
    captured = capture(make_recipe(make()))
    state = Executor(captured.program).run(captured.initial_state, captured.batch(0), 0)
    assert len(state) == len(captured.program.state)


def test_hooks_of_tensors_may_count_nothing_either() -> None:
    """The closure of a hook on a gradient is looked at like any other."""
    recipe, counts = make_recipe(lambda _: 1.0), [0]

    def hook(gradient: Tensor) -> Tensor:
        counts[0] += 1
        return gradient * _decide(counts[0])

    recipe.model.weight.register_hook(hook)
    with pytest.raises(MootError, match=r"model\.weight hook\.counts\[0\]: a step changes it"):
        capture(recipe)


def test_rates_are_no_input_of_a_loss() -> None:
    """A loss that reads the rate of a schedule is refused; one that shows it is captured."""
    recipe = make_recipe(lambda _: 1.0)
    optimizer: Any = recipe.optimizer

    def loss(model: nn.Module, x: Tensor, y: Tensor) -> Tensor:
        return mse_loss(model(x), y) + optimizer.param_groups[0]["lr"] * model.weight.sum()

    def show(model: nn.Module, x: Tensor, y: Tensor) -> Tensor:
        print(f"rate {optimizer.param_groups[0]['lr']:.3g}")  # noqa: T201 - what a user would do
        return mse_loss(model(x), y)

    scheduler = StepLR(optimizer, 50)
    with pytest.raises(MootError, match=r"\['lr'\]: a schedule changes it, and the step computes"):
        capture(TrainingRecipe(recipe.model, loss, optimizer, make_batch, scheduler=scheduler))
    capture(TrainingRecipe(recipe.model, show, optimizer, make_batch, scheduler=scheduler))


def test_moments_are_no_input_of_a_loss() -> None:
    """A loss that reads what the optimizer keeps is refused."""
    torch.manual_seed(0)
    model = nn.Linear(3, 2)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.1)

    def loss(model: nn.Module, x: Tensor, y: Tensor) -> Tensor:
        kept = optimizer.state.get(model.weight)
        return mse_loss(model(x), y) * (2 if kept and kept["step"] > LATE else 1)

    with pytest.raises(MootError, match=r"optimizer\.state: the step reads what the optimizer"):
        capture(TrainingRecipe(model, loss, optimizer, make_batch))


class Switching(LRScheduler):
    """A scheduler that changes a switch of an optimizer at some time."""

    def get_lr(self) -> list[float]:
        """Return the rates as they are."""
        for options in self.optimizer.param_groups:
            options["maximize"] = self.last_epoch > LATE
        return [options["lr"] for options in self.optimizer.param_groups]


class Reaching(LRScheduler):
    """A scheduler that has the model."""

    def __init__(self, optimizer: torch.optim.Optimizer, model: nn.Module) -> None:
        self.model = model
        super().__init__(optimizer)

    def get_lr(self) -> list[float]:
        """Return the rates, and freeze the model at some time."""
        self.model.requires_grad_(requires_grad=self.last_epoch < LATE)
        return [options["lr"] for options in self.optimizer.param_groups]


def _decaying(optimizer: torch.optim.Optimizer) -> LambdaLR:
    rates = [1.0]

    def decay(_: int) -> float:
        rates[0] *= 0.9
        return rates[0]

    return LambdaLR(optimizer, decay)


@pytest.mark.parametrize(
    ("make", "message"),
    every(
        6,
        [
            (
                lambda it, _: Switching(it),
                r"changes the option maximize from False to True, which has",
            ),
            (Reaching, r"^Reaching: its attribute model is a Linear, and a program has nothing of"),
            (
                lambda it, _: _decaying(it),
                r"rates\[0\]: stepping a copy of the scheduler changes it",
            ),
        ],
    ),
    ids=["a switch", "the model", "a count of its own"],
)
def test_schedulers_change_rates_alone(make: Any, message: str) -> None:
    """A scheduler that does more than its copy can show is refused by what it does."""
    recipe = make_recipe(lambda _: 1.0)
    scheduler = make(recipe.optimizer, recipe.model)
    with pytest.raises(MootError, match=message):
        capture(
            TrainingRecipe(
                recipe.model, recipe.loss, recipe.optimizer, make_batch, scheduler=scheduler
            )
        )


@pytest.mark.slow
def test_a_rate_that_is_a_tensor_has_a_timetable() -> None:
    """A scheduler that fills a tensor changes the rate of the program where torch's changes."""
    torch.manual_seed(0)
    model = nn.Linear(3, 2)
    optimizer = torch.optim.Adam(model.parameters(), lr=torch.tensor(0.1))
    scheduler = StepLR(optimizer, 4, 0.25)
    recipe = TrainingRecipe(model, lambda m, x, y: mse_loss(m(x), y), optimizer, make_batch)
    captured = capture(
        TrainingRecipe(model, recipe.loss, optimizer, make_batch, scheduler=scheduler)
    )
    executor, state = Executor(captured.program), captured.initial_state
    for step in range(8):
        state = executor.run(state, captured.batch(step), step)
        optimizer.zero_grad()
        recipe.loss(model, *make_batch(step)).backward()
        optimizer.step()
        scheduler.step()
    names = [slot.name for slot in captured.program.state]
    found = torch.from_numpy(np.array(state[names.index("parameter.weight")]))
    torch.testing.assert_close(found, model.weight.detach(), rtol=1e-4, atol=1e-5)


def test_a_beta_that_float32_does_not_hold_is_refused() -> None:
    """1 - beta is what corrects the bias; where float32 has another, the line says so."""
    model = nn.Linear(3, 2)
    optimizer = torch.optim.Adam(model.parameters(), betas=(0.9, 0.9999999))
    recipe = TrainingRecipe(model, lambda m, x, y: mse_loss(m(x), y), optimizer, make_batch)
    with pytest.raises(MootError, match=r"^beta2 is 0\.9999999, and 1 - beta2 is 1\.192e-07 in"):
        capture(recipe)


def _from_data_set() -> tuple[Callable[[int], Any], str]:
    data = torch.randn(8, 3)
    return lambda _: (data[:4], data[4:, :2]), "what the batch function keeps"


def _from_array() -> tuple[Callable[[int], Any], str]:
    data = np.ones((8, 3), np.float32)
    return lambda _: (torch.from_numpy(data[:4]), torch.zeros(4, 2)), "what the batch function keep"


def _from_each_other() -> tuple[Callable[[int], Any], str]:
    def batch(step: int) -> tuple[Tensor, Tensor]:
        x, _ = make_batch(step)
        return x, x[:, 1:]

    return batch, "batch y"


@pytest.mark.parametrize("make", every(6, [_from_data_set, _from_array, _from_each_other]))
def test_batches_that_a_step_writes_to_lie_in_memory_of_their_own(
    make: Callable[[], tuple[Callable[[int], Any], str]],
) -> None:
    """What a step writes to its batch, torch reads elsewhere, too, and a program does not."""
    batch, whose = make()

    def loss(model: nn.Module, x: Tensor, y: Tensor) -> Tensor:
        return mse_loss(model(x[1:].mul_(2)), y[1:])

    def read(model: nn.Module, x: Tensor, y: Tensor) -> Tensor:
        return mse_loss(model(x[1:] * 2), y[1:])

    model = nn.Linear(3, 2)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    with pytest.raises(MootError, match=rf"^batch x: the step changes it in place, in .*{whose}"):
        capture(TrainingRecipe(model, loss, optimizer, batch))
    capture(TrainingRecipe(model, read, optimizer, batch))
    capture(TrainingRecipe(model, loss, optimizer, make_batch))
