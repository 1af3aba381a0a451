"""The rehearsal: a program that does something else than eager torch is refused."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from moot.offchain.arithmetic.ordered import ORDERED
from moot.offchain.errors import CaptureError
from moot.offchain.execution.executor import Executor
from moot.offchain.frontend.capture import capture
from moot.offchain.frontend.capture.batches import bind_batch
from moot.offchain.frontend.capture.draft import make_draft, make_start
from moot.offchain.frontend.capture.rehearsal import rehearse
from moot.offchain.frontend.examples import build
from moot.offchain.frontend.optimizers import SGD, AdamW
from moot.offchain.frontend.recipe import InferenceRecipe, TrainingRecipe, get_batch
from moot.offchain.frontend.subject import Subject


def make_batch(step: int) -> tuple[Tensor, ...]:
    """Return four points."""
    return (torch.randn(4, 3, generator=torch.Generator().manual_seed(step)),)


def make_recipe(model: nn.Module, optimizer: Any = None) -> TrainingRecipe:
    """Return a recipe whose loss is the mean square of what a model returns."""
    return TrainingRecipe(
        model, lambda m, x: m(x).square().mean(), optimizer or SGD(0.1), make_batch
    )


class Counting(nn.Module):
    """Divides by the number of its calls, which is in no buffer."""

    def __init__(self) -> None:
        super().__init__()
        self.linear, self.calls = nn.Linear(3, 3), 0

    def forward(self, x: Tensor) -> Tensor:
        """Return three numbers for each row."""
        self.calls += 1
        result: Tensor = self.linear(x) / self.calls
        return result


def test_a_call_counter_is_refused() -> None:
    """What depends on a plain attribute that changes is refused by its name, trusted or not."""
    for trust in (False, True):
        with pytest.raises(CaptureError, match=r"^model\.calls: a step changes it from 0 to \d"):
            capture(make_recipe(Counting()), trust=trust)


def test_trust_skips_the_comparison() -> None:
    """A trusted program is the same one, and says that it was not compared."""
    recipe = make_recipe(nn.Linear(3, 3))
    trusted, compared = capture(recipe, trust=True), capture(recipe)
    assert trusted.program == compared.program
    assert not trusted.is_rehearsed
    assert compared.is_rehearsed


@pytest.mark.parametrize("name", ["mlp", pytest.param("cnn", marks=pytest.mark.slow)])
def test_a_lost_term_is_found(name: str) -> None:
    """A program that lacks any one of its sums of two gradients or activations is refused."""
    recipe = build(name)
    draft = make_draft(make_start(Subject.of(recipe), get_batch(recipe, 0)), ORDERED)
    program = draft.program
    lost = 0
    for index, node in enumerate(program.nodes):
        if node.function.name != "ADD" or node.kind.name != "MAP" or node.elements < 10:
            continue
        nodes = list(program.nodes)
        nodes[index] = replace(node, operands=(node.operands[0], node.operands[0]))
        changed = replace(draft, program=replace(program, nodes=tuple(nodes)))
        with pytest.raises(CaptureError):
            rehearse(Subject.of(recipe), changed, bind_batch(Subject.of(recipe), program.batch))
        lost += 1
        if lost == 3:
            break
    assert lost


class Noisy(nn.Module):
    """Draws in every way that a program can express."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(3, 3)

    def forward(self, x: Tensor) -> Tensor:
        """Return three numbers for each row."""
        y = nn.functional.dropout(self.linear(x), 0.5)
        y = y + torch.randn_like(y) + torch.rand(4, 3) + torch.empty(3).uniform_(-1, 1)
        y = nn.functional.alpha_dropout(y, 0.2, training=True)
        torch.rand(7)
        y = y * torch.bernoulli(torch.full_like(y, 0.5)) + torch.randint(0, 9, (4, 3))
        return y * torch.empty_like(y).bernoulli_(0.3) + torch.empty(4, 1).normal_(2, 3)


class EverySecond(torch.optim.Adam):
    """Adam that keeps the weights of every second step, by a count of floats."""

    @torch.no_grad()
    def step(self, closure: Any = None) -> None:  # type: ignore[override]  # it returns no loss
        """Make a step."""
        super().step(closure)
        for parameter in self.param_groups[0]["params"]:
            state = self.state[parameter]
            if "count" not in state:
                state["count"], state["kept"] = torch.zeros(()), torch.zeros_like(parameter)
            state["count"] += 1
            turn = state["count"] % 2 == 0
            state["kept"].copy_(torch.where(turn, parameter, state["kept"]))


@pytest.mark.parametrize("seed", [106, 111, 115, 125])
def test_a_sum_that_is_exact_by_chance_has_errors(seed: int) -> None:
    """Long numbers whose sum is exact in torch's order may be rounded in another."""
    torch.manual_seed(seed)
    recipe = InferenceRecipe(
        torch.nn.Linear(4, 1),
        forward=lambda model, x: model(x),
        batch=lambda step: (torch.full((2, 4), step + 1.0),),
    )
    assert capture(recipe).is_rehearsed


@pytest.mark.slow
def test_whole_numbers_have_no_rounding_errors() -> None:
    """A decision on a count of steps is the same in runs with errors, which then explain a step."""
    model = nn.Sequential(nn.Linear(3, 8), nn.GELU(), nn.Linear(8, 3))
    optimizer = EverySecond(model.parameters(), lr=0.01)
    assert capture(make_recipe(model, optimizer)).is_rehearsed


def test_random_numbers_are_compared_as_the_program_draws_them() -> None:
    """Eager torch is given the program's draws, in training and in inference, at every step."""
    assert capture(make_recipe(Noisy(), AdamW())).is_rehearsed
    recipe = InferenceRecipe(Noisy().train(), lambda m, x: m(x), make_batch, seed=3)
    assert capture(recipe).is_rehearsed


def test_batches_that_cannot_be_asked_for_again_are_refused() -> None:
    """A batch function that gives other data when it is asked twice is refused, trusted or not."""
    recipe = replace(make_recipe(nn.Linear(3, 3)), batch=lambda _: (torch.randn(4, 3),))
    for trust in (False, True):
        with pytest.raises(CaptureError, match=r"^batch x: step 0, asked for twice, gives two"):
            capture(recipe, trust=trust)


def test_a_tensor_that_a_batch_holds_twice_is_two_inputs() -> None:
    """Where the first batch gives one tensor twice, later batches may give two all the same."""

    def batch(step: int) -> tuple[Tensor, ...]:
        (x,) = make_batch(0)
        return x, x + step if step else x

    recipe = InferenceRecipe(nn.Module(), lambda _, x, y: y - x, batch)
    for trust in (False, True):
        captured = capture(recipe, trust=trust)
        after = Executor(captured.program).run(captured.initial_state, captured.batch(3), 3)
        assert np.allclose(after[-1], 3)


class Shares(nn.Module):
    """Weights and a buffer that have to be shares, and weights that add up to 1."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(3, 3)
        self.share = nn.Parameter(torch.tensor([0.97, 0.99, 0.5]))
        self.simplex = nn.Parameter(torch.tensor([0.25, 0.75]))
        self.register_buffer("keep", torch.ones(3))

    def forward(self, x: Tensor) -> Tensor:
        """Return three numbers for each row, and the losses of the shares."""
        x = nn.functional.dropout(x, 0.2)
        if (self.keep > 1).any():  # type: ignore[operator]  # a buffer is a tensor
            raise ValueError("a share above 1")
        apart = nn.functional.binary_cross_entropy(self.share.expand(4, 3), (x > 0).float())
        chosen = torch.distributions.Categorical(probs=self.simplex).log_prob(torch.tensor(1))
        result: Tensor = self.linear(x) * self.keep + 1e-3 * (apart + chosen.detach())
        return result


def test_moved_weights_stay_in_their_range() -> None:
    """A model that raises on weights out of a range is rehearsed on weights within it."""
    capture(make_recipe(Shares(), SGD(1e-3)))


def test_indices_stay_inside_where_errors_move_them() -> None:
    """Runs with errors compute where an error carries an index out of a tensor."""

    def loss(model: nn.Module, x: Tensor) -> Tensor:
        row = torch.cat([model(x), model(x)[:, :1]], 1)
        place = torch.sigmoid(30 * model(x)[:, :1]) * 3
        return row.gather(1, place.ceil().long()).mean() + row[:, place[0, 0].ceil().long()].mean()

    torch.manual_seed(0)
    model = nn.Linear(3, 3)
    nn.init.constant_(model.bias, 1.0)
    capture(TrainingRecipe(model, loss, torch.optim.SGD(model.parameters(), 0.1), make_batch))
