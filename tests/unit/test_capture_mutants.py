"""Mutants of optimizers and of the questions to batch functions: each is seen by what is named.

A mutant is a function with one expression changed. One of an optimizer has to turn the rehearsal
red, which steps with torch's own object; what first shows after its three steps turns the
comparison with torch's optimizers red. One of the questions to batches has to fail their test.
"""

import colorsys
import inspect
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from textwrap import dedent
from typing import Any, NamedTuple

import pytest
import torch
from torch import nn, optim

from moot.offchain.errors import CaptureError
from moot.offchain.frontend import optimizers as ours
from moot.offchain.frontend.capture import batches, capture, elsewhere, keeping
from moot.offchain.frontend.load import load_recipe
from moot.offchain.frontend.optimizers import base, muon, translation
from moot.offchain.frontend.optimizers.adam import Moments
from moot.offchain.frontend.recipe import TrainingRecipe
from tests.quick import every
from tests.unit import test_capture_inputs as inputs
from tests.unit import test_capture_rehearsal as again
from tests.unit import test_program_optimizers as updates


class Change(NamedTuple):
    """A change of one expression of a function.

    Attributes:
        function: the function.
        old: what stands in it once.
        new: what stands there instead.
    """

    function: Callable[..., Any]
    old: str
    new: str

    @property
    def name(self) -> str:
        """The function, and what is changed to what."""
        return f"{self.function.__qualname__}: {self.old.strip()} -> {self.new.strip()}"


@contextmanager
def applied(change: Change) -> Iterator[None]:
    """Give a function the changed code, whoever has imported it."""
    source = dedent(inspect.getsource(change.function))
    assert source.count(change.old) == 1, change.name
    path = inspect.getfile(change.function)
    code = compile(source.replace(change.old, change.new), path, "exec")
    made: dict[str, Any] = {}
    exec(code, change.function.__globals__, made)  # noqa: S102 - our own source
    changed = inspect.unwrap(made[change.function.__name__])
    before: Any = change.function.__code__
    change.function.__code__ = changed.__code__
    try:
        yield
    finally:
        change.function.__code__ = before


Parameters = Iterable[nn.Parameter]
Make = Callable[[Parameters], optim.Optimizer]

MAKES: dict[str, Make] = {
    "plain": lambda p: optim.SGD(p, 0.1),
    "momentum": lambda p: optim.SGD(p, 0.1, 0.9),
    "dampened": lambda p: optim.SGD(p, 0.1, 0.9, dampening=0.3),
    "nesterov": lambda p: optim.SGD(p, 0.1, 0.9, weight_decay=0.1, nesterov=True),
    "climbing": lambda p: optim.SGD(p, 0.1, maximize=True),
    "adam": lambda p: optim.Adam(p, 0.01, (0.8, 0.9), eps=0.01, amsgrad=True),
    "adamw": lambda p: optim.AdamW(p, 0.01, (0.8, 0.9), weight_decay=0.1),
    "nadam": lambda p: optim.NAdam(p, 0.1, momentum_decay=0.5),
    "radam": lambda p: optim.RAdam(p, 0.01),
    "adamax": lambda p: optim.Adamax(p, 0.01, eps=0.01),
    "rmsprop": lambda p: optim.RMSprop(p, 0.01, eps=0.01, momentum=0.9, centered=True),
    "adagrad": lambda p: optim.Adagrad(p, 0.1, 0.1, eps=0.01),
    "adadelta": optim.Adadelta,
    "adafactor": lambda p: optim.Adafactor(p, 0.9, eps=(None, 0.5), d=1.0),
    "rprop": lambda p: optim.Rprop(p, 0.01, step_sizes=(0.009, 0.011)),
    "asgd": lambda p: optim.ASGD(p, 0.1, lambd=0.1, t0=1),
    "muon": lambda p: optim.Muon([x for x in p if x.ndim == 2], 0.1),
}
"""Optimizers of torch, with numbers that show."""

OPTIMIZERS = [
    ("plain", Change(ours.SGD.update, "parameter - gradient", "parameter + gradient")),
    ("momentum", Change(ours.SGD.update, '["momentum"] + added', '["momentum"] - added')),
    ("nesterov", Change(ours.SGD.update, "gradient + momentum", "gradient - momentum")),
    ("nesterov", Change(base.regularize, "gradient + parameter", "gradient - parameter")),
    ("dampened", Change(ours.SGD.advance, "= 1 - counters", "= 1 + counters")),
    ("dampened", Change(ours.SGD.advance, "torch.ones(())", "torch.zeros(())")),
    ("climbing", Change(translation.Ascent.update, "-gradient", "gradient")),
    ("adam", Change(Moments.move_means, "gradient * (1 - beta)", "gradient * (1 + beta)")),
    ("adam", Change(Moments.move_means, "* self.beta2 +", "* self.beta1 +")),
    ("adam", Change(Moments.move_means, "(1 - self.beta2)", "(2 - self.beta2)")),
    ("adam", Change(Moments.advance, "(1 - first)", "(1 + first)")),
    ("adam", Change(Moments.advance, "(1 - second)", "(1 + second)")),
    ("adam", Change(Moments.advance, "* self.beta2", "* self.beta1")),
    ("adam", Change(Moments.raise_beta, '_power"] * beta', '_power"] * beta * beta')),
    ("adam", Change(ours.Adam._step, "+ self.epsilon", "- self.epsilon")),
    ("adam", Change(ours.Adam._step, "torch.maximum", "torch.minimum")),
    ("adamw", Change(base.decay, "1 - numbers", "1 + numbers")),
    ("nadam", Change(ours.NAdam._find_momentum, "* 0.5", "* 0.4")),
    ("nadam", Change(ours.NAdam.advance, "(1 - now)", "(1 + now)")),
    ("nadam", Change(ours.NAdam.advance, "product * following)", "product + following)")),
    ("nadam", Change(ours.NAdam.advance, "(0, 1)", "(0, 2)")),
    ("nadam", Change(ours.NAdam.update, "step + updated", "step - updated")),
    ("radam", Change(ours.RAdam.update, "/ root, 1)", "/ root, 2)")),
    ("adamax", Change(ours.Adamax.advance, "(1 - first)", "(1 + first)")),
    ("adamax", Change(ours.Adamax.update, "torch.maximum", "torch.minimum")),
    ("adamax", Change(ours.Adamax.update, "+ self.epsilon", "- self.epsilon")),
    ("rmsprop", Change(ours.RMSprop.update, "1 - self.smoothing", "2 - self.smoothing")),
    ("rmsprop", Change(ours.RMSprop.update, "variance - updated", "variance + updated")),
    ("rmsprop", Change(ours.RMSprop.update, "+ self.epsilon", "- self.epsilon")),
    ("rmsprop", Change(ours.RMSprop.update, "self.momentum + step", "self.momentum - step")),
    ("adagrad", Change(ours.Adagrad.advance, "rate_decay + 1", "rate_decay + 2")),
    ("adagrad", Change(ours.Adagrad.update, '["sum"] + gradient', '["sum"] - gradient')),
    ("adadelta", Change(ours.Adadelta.update, "(square + self.", "(square - self.")),
    ("adadelta", Change(ours.Adadelta.update, "step * step * rest", "step * rest")),
    ("adafactor", Change(ours.Adafactor.advance, "pow(-self.decay)", "pow(self.decay)")),
    ("adafactor", Change(ours.Adafactor.advance, "torch.minimum", "torch.maximum")),
    ("adafactor", Change(ours.Adafactor.update, '["columns"] / mean', '["columns"] * mean')),
    ("adafactor", Change(ours.Adafactor.update, "self.epsilon[1]", "self.epsilon[0]")),
    ("adafactor", Change(ours.Adafactor.update, "/ self.clip", "* 2 / self.clip")),
    ("rprop", Change(ours.Rprop.update, "self.growing, 1.0", "self.growing, 1.5")),
    ("rprop", Change(ours.Rprop.update, "agreement > 0", "agreement < 0")),
    ("rprop", Change(ours.Rprop.update, "0.0, gradient)", "1.0, gradient)")),
    ("rprop", Change(ours.Rprop.update, ".clamp(self.least, self.largest)", "")),
    ("asgd", Change(ours.ASGD.update, "(1 - rate", "(1 + rate")),
    ("asgd", Change(ours.ASGD.advance, "self.learning_rate) + 1", "self.learning_rate) + 2")),
    ("asgd", Change(ours.ASGD.advance, "clamp(min=1)", "clamp(min=2)")),
    ("muon", Change(muon.Muon.update, "(1 - self.momentum)", "(2 - self.momentum)")),
    ("muon", Change(muon.Muon.update, "gradient + (mean", "gradient - (mean")),
    # (rounding to bfloat16, five times over, explains a factor of 2)
    ("muon", Change(muon.Muon.update, "rows / columns", "16 * rows / columns")),
    ("muon", Change(muon.Muon._orthogonalize, "b + gram @", "b - gram @")),
]
"""The optimizer of a recipe, and the change that its rehearsal sees."""


def make_recipe(make: Make) -> TrainingRecipe:
    """Return a recipe that trains a layer."""
    torch.manual_seed(0)
    model = nn.Linear(4, 2)
    return TrainingRecipe(model, inputs.compute_loss, make(model.parameters()), inputs.make_batch)


@pytest.mark.parametrize("name", every(24, MAKES))
def test_the_optimizers_are_captured(name: str) -> None:
    """Without a change each of the recipes is captured."""
    assert capture(make_recipe(MAKES[name])).is_rehearsed


CHANGES = {change.name: (MAKES[make], change) for make, change in OPTIMIZERS}


@pytest.mark.parametrize("name", every(48, CHANGES))
def test_a_wrong_update_turns_the_rehearsal_red(name: str) -> None:
    """One constant or sign of an optimizer that is another one is refused in the first steps."""
    make, change = CHANGES[name]
    with applied(change), pytest.raises(CaptureError, match="which rounding does not explain"):
        capture(make_recipe(make))


LATE = {
    "radam": [
        Change(ours.RAdam._find_degrees, "2 / rate) + count", "2 / rate) - count"),
        Change(ours.RAdam.advance, "(degrees - 4)", "(degrees - 3)"),
        Change(ours.RAdam.advance, "* degrees)", "* degrees * 2)"),
        Change(ours.RAdam.update, 'second_moment"].sqrt()', 'second_moment"]'),
    ],
    "radam beta2": [Change(ours.RAdam._find_degrees, "- count * 2 / x", "+ count * 2 / x")],
    "lion": [
        Change(ours.Lion.update, "(1 - self.beta1)", "(1 + self.beta1)"),
        Change(ours.Lion.update, "before * self.beta2", "before * self.beta1"),
        Change(ours.Lion.update, "decayed - direction", "decayed + direction"),
    ],
}
"""Which pair of optimizers sees a change that the first steps, or torch's objects, do not show."""


@pytest.mark.parametrize("pair", LATE)
def test_what_shows_later_is_seen_beside_torch(pair: str) -> None:
    """A change that shows after the rehearsal's steps fails the comparison of many updates."""
    updates.test_updates_follow_torch(pair, 2)
    for change in LATE[pair]:
        with applied(change), pytest.raises(AssertionError):
            updates.test_updates_follow_torch(pair, 2)


def _refuse(name: str) -> Callable[[], None]:
    return lambda: inputs.test_batches_of_another_order_or_form_are_refused(name, trust=True)


def _refuse_schedule(first: int, found: int) -> Callable[[], None]:
    return lambda: inputs.test_a_schedule_that_batches_set_is_refused(first, found)


STEPS = "[*FAR, *ends, *drawn, *range(NEAR)]"
IN_BETWEEN = "_forget(roots, past)\n        for"

QUESTIONS: dict[str, tuple[Change, Callable[[], None]]] = {
    "nothing is asked for twice": (
        Change(batches.check_batches, "check_repeatable(batch, slots)", "pass"),
        again.test_batches_that_cannot_be_asked_for_again_are_refused,
    ),
    "what is given twice is not compared": (
        Change(batches.check_repeatable, "(first, batch(step), ", "(first, first, "),
        again.test_batches_that_cannot_be_asked_for_again_are_refused,
    ),
    "nothing is asked for out of order": (
        Change(batches.check_batches, "found) != in_order[step]", "found) is None"),
        _refuse("a stream"),
    ),
    "steps are asked for in one order": (
        Change(
            batches.check_batches,
            "np.random.default_rng(recipe.seed).permutation(steps).tolist()",
            "sorted(steps)",
        ),
        _refuse("a stream"),
    ),
    "what was kept stays in between": (
        Change(batches.check_batches, IN_BETWEEN, "for"),
        _refuse("a stream"),
    ),
    "what was memoized stays": (
        Change(batches._forget, "found.cache_clear()", "pass"),
        _refuse("a memoized stream"),
    ),
    "what was kept stays in the end": (
        Change(batches.check_batches, "finally:\n        past.restore()", "finally:\n        pass"),
        inputs.test_what_batches_keep_is_put_back,
    ),
    "no object is put back": (
        Change(keeping.Memory.restore, "write_content(found, content)", "pass"),
        inputs.test_what_batches_keep_is_put_back,
    ),
    "no near step is asked for": (
        Change(batches._choose_steps, STEPS, "[*FAR, *ends, *drawn]"),
        _refuse("another number of tensors"),
    ),
    "no far step is asked for": (
        Change(batches._choose_steps, STEPS, "[*ends, *drawn, *range(NEAR)]"),
        _refuse_schedule(30, 64),
    ),
    "no drawn step is asked for": (
        Change(batches._choose_steps, STEPS, "[*FAR, *ends, *range(NEAR)]"),
        _refuse("a wider type in between"),
    ),
    "no end of data is asked for": (
        Change(batches._choose_steps, STEPS, "[*FAR, *drawn, *range(NEAR)]"),
        _refuse("the last batch of a loader"),
    ),
    "rows of data have no end": (
        Change(batches._find_ends, "*(size // part for part in parts if part)", ""),
        _refuse("the last slice"),
    ),
    "batches in a list have no end": (
        Change(batches._find_ends, "size - 1, ", ""),
        _refuse("the last batch of a loader"),
    ),
    "what a step reads may change": (
        Change(batches.check_batches, "_refuse_changes(memory, step)", "pass"),
        _refuse_schedule(3, 7),
    ),
    "iterators are read": (
        Change(batches.refuse_iterators, "if isinstance(found, Iterator):", "if False:"),
        inputs.test_batches_with_a_memory_are_refused,
    ),
    "an end of data is any batch": (
        Change(batches.require_same, "_digest(one) != _digest(other)", "False"),
        _refuse("data that end once"),
    ),
}
"""What is left out, the change, and the test that sees it."""


@pytest.mark.parametrize("name", every(6, QUESTIONS))
def test_a_question_that_is_left_out_is_missed(name: str) -> None:
    """The test that is named fails where batches are not asked for in one of these ways."""
    change, test = QUESTIONS[name]
    with applied(change), pytest.raises((pytest.fail.Exception, AssertionError)):
        test()


FILE = """
import colorsys, os, sys
import torch
from moot.offchain.frontend.recipe import TrainingRecipe
{top}

def make(seed):
    model = torch.nn.Linear(4, 2)
    def batch(step):
        number = {number}
        return (torch.full((2, 4), float(number)),)
    loss = lambda model, x: model(x).square().mean()
    return TrainingRecipe(model, loss, torch.optim.SGD(model.parameters(), 0.1), batch)
"""

DIFFERENT = "asked for in a fresh process, gives two different tensors"

ELSEWHERE: dict[str, tuple[dict[str, str], Change, str]] = {
    "what a fresh process gives is not compared": (
        {"number": "os.getpid()"},
        Change(elsewhere.check_elsewhere, "(ask(batch, step), there", "(there, there"),
        DIFFERENT,
    ),
    "a fresh process is asked for near steps first": (
        {"number": "step and vars(colorsys).setdefault('first', step // 8)"},
        Change(elsewhere.check_elsewhere, "[*np", "[*_NEAR, *np"),
        DIFFERENT,
    ),
    "a fresh process may fail": (
        {"top": "if 'pytest' not in sys.modules: raise OSError('no data')"},
        Change(elsewhere.check_elsewhere, "if done.returncode:", "if False:"),
        "fails in a fresh process: OSError: no data",
    ),
}
"""What is left out: a file that shows it, the change, and the line that refuses the file."""


def find_refusal(path: Path, parts: Mapping[str, str]) -> str:
    """Return the line by which a file is refused for what it gives a fresh process, if it is."""
    path.write_text(FILE.format(**{"top": "", "number": "0", **parts}))
    captured = capture(load_recipe(f"{path}:make"), trust=True)
    try:
        elsewhere.check_elsewhere(f"{path}:make", 0, captured.batch, captured.program.batch)
    except CaptureError as error:
        return str(error)
    except FileNotFoundError as error:
        return f"no line, but {error}"
    return "no line"


@pytest.mark.slow
@pytest.mark.parametrize("name", ELSEWHERE)
def test_a_fresh_process_that_is_asked_less_is_missed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    """A file whose batches are others in a fresh process is refused, and not without a question."""
    monkeypatch.setattr(colorsys, "first", 0, raising=False)
    parts, change, line = ELSEWHERE[name]
    assert line in find_refusal(tmp_path / "model.py", parts)
    with applied(change):
        assert find_refusal(tmp_path / "model.py", parts).startswith("no line")
