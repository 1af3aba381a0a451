"""Branches on data are captured where one way is right for all data, and refused elsewhere.

PYTEST_DONT_REWRITE: an assertion of a model here is to be the one that Python makes.
"""

import logging
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

from moot.offchain.errors import CaptureError
from moot.offchain.execution.executor import Executor
from moot.offchain.frontend.capture import capture
from moot.offchain.frontend.optimizers import SGD
from moot.offchain.frontend.recipe import TrainingRecipe
from tests.program_helpers import capture_function, check_gradients, run_function

X = torch.tensor([0.5, -0.25, 0.75])
LIMIT = 2.0


def by_raise(x: torch.Tensor) -> torch.Tensor:
    """Raise where an element is too large."""
    if x.max() >= LIMIT:
        raise ValueError(LIMIT)
    return x + 1


def by_else(x: torch.Tensor) -> torch.Tensor:
    """Raise in the other way."""
    if (x < LIMIT).all():
        y = x + 1
    else:
        message = "too large"
        raise ValueError(message)
    return y


def by_assert(x: torch.Tensor) -> torch.Tensor:
    """Assert it, negated."""
    assert not x.max() >= LIMIT
    return x + 1


def by_and(x: torch.Tensor) -> torch.Tensor:
    """Raise by the last of two conditions, the first of which is no tensor's."""
    if LIMIT > 0 and x.max() >= LIMIT:
        raise ValueError(LIMIT)
    return x + 1


def by_or(x: torch.Tensor) -> torch.Tensor:
    """Raise by either of two conditions."""
    if x.max() >= LIMIT or not (x > -LIMIT).all():
        raise ValueError(LIMIT)
    return x + 1


CHECKS: dict[str, Callable[[torch.Tensor], Any]] = {
    "raise": by_raise,
    "else": by_else,
    "assert": by_assert,
    "and": by_and,
    "or": by_or,
}


@pytest.mark.parametrize("name", CHECKS)
def test_a_check_gives_nan_where_torch_raises(name: str) -> None:
    """A program computes what the check lets through, and NaN of what it does not."""
    captured = capture_function(CHECKS[name], X)
    executor = Executor(captured.program)
    for batch in (X, X + 2):
        found = executor.run(captured.initial_state, [batch.numpy()], 0)[-1]
        try:
            expected = CHECKS[name](batch).numpy()
        except (ValueError, AssertionError):
            expected = np.full(3, np.nan)
        np.testing.assert_array_equal(found, expected)
    assert np.isnan(found).all()


def test_a_failed_check_spoils_the_gradients() -> None:
    """A batch that the model does not allow leaves NaN in the loss and in all that learns."""
    model = torch.nn.Linear(3, 1)
    recipe = TrainingRecipe(
        model, lambda m, x: m(by_raise(x)).sum(), SGD(0.1), lambda step: (X + step // 100,)
    )
    captured = capture(recipe)
    executor = Executor(captured.program)
    good = executor.run(captured.initial_state, captured.batch(0), 0)
    assert all(np.isfinite(array).all() for array in good)
    assert all(np.isnan(array).all() for array in executor.run(good, captured.batch(200), 1))


def by_constraint(x: torch.Tensor) -> torch.Tensor:
    """Return a logarithm of a normal density, whose covariance torch asks two things."""
    normal = torch.distributions.MultivariateNormal(torch.zeros(2), x.view(2, 2))
    return normal.log_prob(x[:2])[None]


def test_a_constraint_is_a_check_to_its_end() -> None:
    """A covariance that is not symmetric, or not positive, gives NaN where torch raises."""
    good = torch.tensor([2, 0.5, 0.5, 1])
    executor = Executor((captured := capture_function(by_constraint, good)).program)
    for batch in (good, torch.tensor([2, 0.5, 0.25, 1]), torch.tensor([1.0, 3, 3, 1])):
        found = executor.run(captured.initial_state, [batch.numpy()], 0)[-1]
        if batch is good:
            np.testing.assert_allclose(found, by_constraint(batch).numpy(), rtol=1e-6)
        else:
            assert np.isnan(found).all()


def test_a_check_stays_where_something_was_compiled(monkeypatch: pytest.MonkeyPatch) -> None:
    """Torch turns the checks of distributions off in a process that has compiled a function."""
    monkeypatch.setattr(torch.distributions.Distribution, "_validate_args", True)
    compiled = torch.compile(torch.neg, backend="eager")
    assert compiled(X).equal(-X)
    torch.distributions.Distribution.set_default_validate_args(value=False)  # it does so once
    test_a_constraint_is_a_check_to_its_end()


def clamp(hidden: torch.Tensor) -> torch.Tensor:
    """Clamp infinities, as libraries do."""
    if not torch.isfinite(hidden).all():
        clamp_value = torch.finfo(hidden.dtype).max - 1000
        hidden = torch.clamp(hidden, min=-clamp_value, max=clamp_value)
    return hidden


def test_the_clamp_of_infinities() -> None:
    """A clamp to the finite range changes infinities alone, and gradients pass."""
    for x in (X, torch.tensor([torch.inf, -torch.inf, 1.0]), torch.tensor([torch.nan, 1.0, 2.0])):
        (found,) = run_function(clamp, x)
        np.testing.assert_array_equal(found, clamp(x).numpy())
    check_gradients(lambda x: clamp(x * 3).square().sum(), X)


def other_value(x: torch.Tensor) -> torch.Tensor:
    """Return another value by data."""
    if x.max() >= LIMIT:
        x = x + 1
    return x


def raise_at_times(x: torch.Tensor) -> torch.Tensor:
    """Raise in one way, but not always."""
    if x.max() >= LIMIT:
        if len(x) == 3:
            return x
        raise ValueError(LIMIT)
    return x + 1


def both_must_hold(x: torch.Tensor) -> torch.Tensor:
    """Raise by two conditions together: either alone says nothing."""
    if x.max() >= LIMIT and x.min() >= LIMIT:
        raise ValueError(LIMIT)
    return x + 1


def other_clamp(hidden: torch.Tensor) -> torch.Tensor:
    """Clamp finite numbers too, when there are infinities."""
    if not torch.isfinite(hidden).all():
        clamp_value = torch.finfo(hidden.dtype).max / 1000
        hidden = torch.clamp(hidden, min=-clamp_value, max=clamp_value)
    return hidden


def repeat(x: torch.Tensor) -> torch.Tensor:
    """Repeat as often as data says."""
    while x.max() < LIMIT:
        x = x * 2
    return x


def catch(x: torch.Tensor) -> torch.Tensor:
    """Go on by another way after a check has failed."""
    try:
        return by_raise(x)
    except ValueError:
        return x * 2


def keep_truth(x: torch.Tensor) -> torch.Tensor:
    """Keep the truth of a tensor, and branch later."""
    is_large = bool(x.max() >= LIMIT)
    if is_large:
        raise ValueError(LIMIT)
    return x + 1


def drop(x: torch.Tensor) -> torch.Tensor:
    """Skip by chance, as a setting says."""
    if torch.rand([]) < drop.layerdrop:  # type: ignore[attr-defined]  # set below
        return x
    return x + 1


drop.layerdrop = 0.1  # type: ignore[attr-defined]  # as the settings of a model are attributes

BRANCHES = [
    other_value,
    raise_at_times,
    both_must_hold,
    other_clamp,
    repeat,
    catch,
    keep_truth,
    drop,
]


@pytest.mark.parametrize("function", BRANCHES)
def test_other_branches_are_refused(function: Callable[[torch.Tensor], Any]) -> None:
    """What has to be a branch is refused with its line, and with the setting if one helps."""
    with pytest.raises(CaptureError) as caught:
        capture_function(function, X)
    assert (caught.value.source_line or "").startswith("test_program_guards.py:")
    assert "depend on data" in caught.value.message
    assert ("set layerdrop to 0" in caught.value.message) == (function is drop)


def test_a_check_of_integers_is_refused() -> None:
    """A result that can't be NaN can't say that a check failed."""
    with pytest.raises(CaptureError, match="can't be NaN"):
        capture_function(lambda x: by_raise(x).long(), X)


logger = logging.getLogger(__name__)


def by_print(x: torch.Tensor) -> torch.Tensor:
    """Print something of large numbers."""
    if LIMIT > 0 and x.max() >= LIMIT:
        print(f"large: {x.max().item():.2f}", len(x))  # noqa: T201 - as users do
    return x + 1


def by_log(x: torch.Tensor) -> torch.Tensor:
    """Log and warn of numbers that are not finite."""
    if not torch.isfinite(x).all():
        logger.warning("not finite: %s", x)
        warnings.warn("not finite", stacklevel=2)
    return x + 1


def for_nobody(x: torch.Tensor) -> torch.Tensor:
    """Look at data for a setting that nobody has set."""
    is_large, is_small = bool(x.max() >= LIMIT), bool(x.min() < -LIMIT)
    if LIMIT < 0 and (is_large or is_small):
        x = x * 2
    return x + 1


@pytest.mark.parametrize("function", [by_print, by_log, for_nobody])
def test_a_branch_that_makes_no_difference_is_none(
    function: Callable[[torch.Tensor], torch.Tensor],
) -> None:
    """Messages, and truths on which nothing depends, leave one program, whatever the data is."""
    captured = capture_function(function, X)
    for batch in (X, X + 2, X * torch.inf):
        found = Executor(captured.program).run(captured.initial_state, [batch.numpy()], 0)[-1]
        np.testing.assert_array_equal(found, (batch + 1).numpy())


def count_and_print(x: torch.Tensor) -> torch.Tensor:
    """Change what is returned, beside a message."""
    y = [x]
    if x.max() >= LIMIT:
        print(y.pop())  # noqa: T201 - as users do
    return y[0] if y else x + 1


def write_and_print(x: torch.Tensor) -> torch.Tensor:
    """Change a tensor within a message."""
    y = x + 1
    if x.max() >= LIMIT:
        print(y.mul_(2).max())  # noqa: T201 - as users do
    return y


def by_two_truths(x: torch.Tensor) -> torch.Tensor:
    """Return another value if two truths hold, either of which alone says nothing."""
    is_large, is_small = bool(x.max() >= LIMIT), bool(x.min() < -LIMIT)
    return x * 2 if is_large and is_small else x + 1


@pytest.mark.parametrize("function", [count_and_print, write_and_print, by_two_truths])
def test_a_branch_that_makes_a_difference_is_refused(
    function: Callable[[torch.Tensor], torch.Tensor],
) -> None:
    """A message with an effect, and truths that only together have one, are branches."""
    with pytest.raises(CaptureError, match="the program would depend on data"):
        capture_function(function, X)


def of_ones(x: torch.Tensor) -> torch.Tensor:
    """Ask a mask of ones whether it hides anything, as libraries do."""
    mask = torch.ones_like(x, dtype=torch.long)
    if (mask == 1).all() and not bool(torch.full((2,), False).any()):
        return x + 1
    return x * mask


def of_what_is_written(x: torch.Tensor) -> torch.Tensor:
    """Write numbers into a table, and branch on it."""
    table = torch.zeros(3)
    table[1] = 2
    return x * 2 if table.sum() > 1 else x


def of_lengths(x: torch.Tensor) -> torch.Tensor:
    """Count unfinished rows until a length is reached."""
    unfinished, steps = torch.ones(2, dtype=torch.long), 0
    while unfinished.max() != 0:
        steps += 1
        unfinished = unfinished & ~torch.full((2,), steps >= len(x))
        x = x + 1
    return x


@pytest.mark.parametrize("function", [of_ones, of_what_is_written, of_lengths])
def test_branches_on_constants_are_taken(
    function: Callable[[torch.Tensor], torch.Tensor],
) -> None:
    """What a step makes of numbers alone is known, and no data."""
    (found,) = run_function(function, X)
    np.testing.assert_array_equal(found, function(X).numpy())


def put(x: torch.Tensor, write: Callable[[torch.Tensor, torch.Tensor], Any]) -> torch.Tensor:
    """Branch on a tensor of numbers after data was written to it."""
    table = torch.tensor([1.0, 2.0])
    first = table[:1]
    write(table, x[:2])
    return x * 2 if first[0] > 0.25 else x * 3


WRITES: dict[str, Callable[[torch.Tensor, torch.Tensor], Any]] = {
    "a view": lambda table, x: table[:1].copy_(x[:1]),
    "the whole": lambda table, x: table.mul_(x),
    "an element": lambda table, x: table.__setitem__(0, x[0]),
    "out": lambda table, x: torch.neg(x, out=table),
    "data": lambda table, x: table.data.copy_(x),
    "a list": lambda table, x: torch._foreach_add_([table], [x]),
    "chance": lambda table, _: table.uniform_(),
}


@pytest.mark.parametrize("name", WRITES)
def test_a_constant_that_data_is_written_to_is_none(name: str) -> None:
    """Whatever a tensor of numbers held, by whichever view it is changed, it is data then."""
    with pytest.raises(CaptureError, match="the program would depend on data"):
        capture_function(lambda x: put(x, WRITES[name]), X)


def test_a_gradient_of_nothing_is_zero() -> None:
    """A gradient that torch knows to be 0 has no memory there, and can be computed with."""
    check_gradients(lambda x: (x.sgn() * x).sum(), torch.linspace(-1, 1, 64))
    model = torch.nn.Linear(64, 1)
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    batch = (torch.ones(2, 64),)
    recipe = TrainingRecipe(
        model, lambda m, x: (m.weight.sgn() * x).sum() + m.bias.sum(), optimizer, lambda _: batch
    )
    assert capture(recipe).is_rehearsed
