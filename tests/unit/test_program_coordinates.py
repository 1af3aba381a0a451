"""Places that a mask selects are read and written by the mask; what needs their number is refused.

Branches that leave out what nothing selects are traced by their conditions.
"""

from collections.abc import Callable

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.optim import SGD, AdamW, RMSprop
from torch.optim.lr_scheduler import LinearLR, LRScheduler

from moot.offchain.commitments.tensors import Array
from moot.offchain.errors import CaptureError
from moot.offchain.execution.executor import Executor
from moot.offchain.frontend.capture import capture
from moot.offchain.frontend.recipe import TrainingRecipe
from tests.program_helpers import assert_close, check_gradients, run_gradients
from tests.quick import every, only

X = torch.linspace(-1, 1.2, 20).reshape(4, 5)
W = torch.tensor([[0.5, -0.25], [1.5, 0.75], [-1.0, 0.3], [0.2, 2.0]])
CHOSEN = torch.tensor([[0, 2], [2, 1], [0, 1], [1, 2]])
TAKEN = torch.tensor([True, False, True, True])

Function = Callable[[Tensor, Tensor], Tensor]


def add_rows(x: Tensor, w: Tensor) -> Tensor:
    """Add to rows that are read, by both of the slots."""
    y = torch.zeros_like(x)
    for k in range(4):
        rows, slots = torch.where(k == CHOSEN)
        y[rows] += w[rows, slots, None] * (x[rows] * (k + 1)).sin()
    return y.square().sum()


def add_by_index(x: Tensor, w: Tensor) -> Tensor:
    """Add by index_add_, index_add with a factor, index_put_ and scatter_add."""
    y = x * 0
    rows, slots = (CHOSEN == 2).nonzero().t()
    z = x[rows] * w[rows, slots][:, None]
    y.index_add_(0, rows, z)
    y = y.index_add(0, rows, z.cos(), alpha=2)
    y.index_put_((rows,), z.exp(), accumulate=True)
    places = rows.unsqueeze(1).expand_as(z)
    y = y.scatter_add(0, places, x.gather(0, places))
    return (y * x).sum() + w.index_put((rows, slots), z.sum(-1), accumulate=True).square().sum()


def write_rows(x: Tensor, w: Tensor) -> Tensor:
    """Write to rows of one mask, of two axes, and of an axis alone, numbers as well."""
    y, v = x * 1, w * 1
    (rows,) = TAKEN.nonzero(as_tuple=True)
    y[rows] = x[rows].square()
    y.index_copy_(0, rows, y.index_select(0, rows) * 3)
    b, s = torch.where(CHOSEN == 2)
    v[b, s] = w[b, s] + x[b].sum(-1)
    v[b, s] *= 2
    y[b] = y[b] * v[b, s].unsqueeze(-1)
    y[torch.where(CHOSEN == 1)[0]] = 0.5
    return (y.square().sum() + v.square().sum()).sqrt()


def compute_places(x: Tensor, w: Tensor) -> Tensor:
    """Read rows whose numbers are computed, or selected themselves."""
    slots = torch.nonzero(CHOSEN.flatten() == 2).squeeze(-1)
    rows, other = slots // 2, CHOSEN.flatten()[slots]
    read = x[rows] * x[other] * w.flatten()[slots, None]
    table = functional.embedding(other, x.T)
    return x.index_add(0, rows, read).square().sum() + table.sum(-1).square().mean()


def three_axes(x: Tensor, w: Tensor) -> Tensor:
    """Read and write by two of three coordinates, in another order than the mask's."""
    chosen, z = CHOSEN.view(2, 2, 2), x.view(2, 2, 5)
    y = torch.zeros_like(z).transpose(0, 1).contiguous()
    b, t, s = torch.where(chosen == 2)
    y.index_put_((t, b), z[b, t] * w.view(2, 2, 2)[b, t, s, None], accumulate=True)
    y[t, b] = y[t, b].exp()
    return y.square().sum()


def raise_rows(x: Tensor, w: Tensor) -> Tensor:
    """Read behind a new axis, as the first Mixtral does, and mask an axis with parts of others."""
    mask = functional.one_hot(CHOSEN, 3).permute(2, 1, 0)
    slots, rows = torch.where(mask[1])
    y = x[None, rows].reshape(-1, 5) * w[rows, slots, None]
    return y.square().sum() + x[TAKEN, 1:3].sum() + w[TAKEN, 0].square().sum()


def fold_places(x: Tensor, w: Tensor) -> Tensor:
    """Count places, and compute with them as numbers."""
    rows, slots = torch.where(CHOSEN == 1)
    share = rows.numel() / CHOSEN.numel() + slots.float().mean() + rows.shape[0]
    return (x.sum() * share + w.sum()).square()


def write_to_rows_in_place(x: Tensor, w: Tensor) -> Tensor:
    """Change what was read, in place, by what differs from slot to slot."""
    rows, slots = torch.where(CHOSEN == 2)
    y = x[rows] * 1
    y.mul_(w[rows, slots, None])
    y += 1
    return y.relu_().square().sum()


def _hide(w: Tensor) -> Tensor:
    """Return the chosen numbers as data that a tracing does not know."""
    return CHOSEN + (w * 0).long()


def leave_out(x: Tensor, w: Tensor) -> Tensor:
    """Leave out what nothing selects, in all ways that are known."""
    y, chosen = torch.zeros_like(x), _hide(w)
    for k in range(5):
        mask = chosen == k
        rows, slots = torch.where(mask)
        if rows.numel() == 0:
            continue
        y[rows] += x[rows] * w[rows, slots, None]
        if len(rows) > 0:
            y.index_add_(0, rows, x[rows].exp())
        if mask.any():
            y[rows] *= 2
        if not mask.any().item():
            continue
        if slots.size(0) < 1:
            continue
        if mask.sum():
            seen = mask.any(-1)
            y[seen] = y[seen].sin()
    for k in torch.bincount(chosen.flatten(), minlength=4).nonzero():
        rows, slots = torch.where(chosen == k)
        y.index_add_(0, rows, w[rows, slots, None] * x[int(k)])
    return y.square().sum()


def leave_out_few(x: Tensor, w: Tensor) -> Tensor:
    """Leave out rows that a mask selects, by a condition of its own, and means of none."""
    y, chosen = x.square(), _hide(w)
    for k in range(4):
        rows, slots = torch.where(chosen == k)
        if rows.numel() < 3:
            continue
        y.index_add_(0, rows, x[rows] * w[rows, slots, None])
        y[rows] *= 3 - x[rows].mean()
        if not (w.sum() > 100):
            continue
        y[rows] += (x[rows] - 1).log()
    return y.sum()


KNOWN: dict[str, Function] = {
    "add to rows": add_rows,
    "add by index": add_by_index,
    "write rows": write_rows,
    "computed places": compute_places,
    "three axes": three_axes,
    "a new axis": raise_rows,
    "places as numbers": fold_places,
    "in place": write_to_rows_in_place,
    "left out": leave_out,
    "left out, though it is selected": leave_out_few,
}


def _keep(x: Tensor, w: Tensor) -> Tensor:
    active = 0
    for k in range(3):
        rows, _ = torch.where(_hide(w) == k)
        if len(rows) == 0:
            continue
        active += 1
    return x.sum() / active


def _append(x: Tensor, w: Tensor) -> Tensor:
    parts = []
    for k in (_hide(w).sum(0) > 0).nonzero():
        part = x[k].sum()
        parts.append(part.exp())
    return torch.stack(parts).sum()


def _read_later(x: Tensor, w: Tensor) -> Tensor:
    last = x
    for k in range(3):
        rows, _ = torch.where(_hide(w) == k)
        if rows.numel():
            last = x[rows].sum()
    return last.sum()


def _scale(x: Tensor, w: Tensor) -> Tensor:
    y = x * 1
    if (_hide(w) == 1).any():
        y.mul_(2)
    return y.sum()


def _draw(x: Tensor, w: Tensor) -> Tensor:
    y = x * 1
    rows, _ = torch.where(_hide(w) == 1)
    if rows.numel():
        y[rows] += torch.rand(5)
    return y.sum()


def _choose(x: Tensor, w: Tensor) -> Tensor:
    y = x * 1
    if (_hide(w) == 1).any():
        y[TAKEN] += 1
    else:
        y[TAKEN] -= 1
    return y.sum()


def _go_too_far(x: Tensor, w: Tensor) -> Tensor:
    y = x * 1
    for k in torch.bincount(_hide(w).flatten(), minlength=9).nonzero():
        y[torch.where(_hide(w) == k)[0]] += x[int(k)]
    return y.sum()


def _both(x: Tensor, _: Tensor) -> Tensor:
    (rows,), slots = torch.where(TAKEN), torch.where(CHOSEN == 1)[1]
    return x[rows, slots].sum()


UNKNOWN: dict[str, tuple[Function, str]] = {
    "sorted": (lambda x, _: x[torch.where(TAKEN)[0].sort().values].sum(), "sort of where(mask)"),
    "order": (
        lambda x, _: (x[torch.where(TAKEN)[0]].sum(-1) * torch.where(TAKEN)[0].argsort()).sum(),
        "argsort of where(mask)",
    ),
    "numbered": (lambda x, _: (x.sum() * TAKEN.nonzero().cumsum(0)).sum(), "cumsum of nonzero"),
    "two masks": (_both, "indexing (with what another mask selects) of where(mask)"),
    "to another mask": (
        lambda x, _: x.index_add(0, torch.where(~TAKEN)[0], x[TAKEN]).sum(),
        "assignment (to another mask) of where(mask)",
    ),
    "a number of Python": (lambda x, _: x.sum() / len(torch.where(TAKEN)[0]), "len of where(mask)"),
    "a size": (lambda x, _: x.new_ones(torch.where(TAKEN)[0].shape[0]).sum(), "_local_scalar"),
    "one of them": (lambda x, _: x[torch.where(TAKEN)[0][0]].sum(), "getitem of where(mask)"),
    "argwhere": (lambda x, _: x[torch.argwhere(TAKEN)].sum(), "aten.nonzero.default"),
    "unique": (lambda x, _: x[torch.unique(CHOSEN)].sum(), "aten._unique2.default"),
    "behind another axis": (
        lambda x, _: x[:, torch.where(TAKEN)[0]].sum(),
        "indexing (in this order) of x[mask]",
    ),
    "a count of branches": (_keep, "len (active is kept)"),
    "a list": (_append, "iter (line"),
    "read later": (_read_later, "(last is kept)"),
    "a change of all": (_scale, "aten.mul_.Tensor: it changes a tensor in a branch"),
    "a draw": (_draw, "it draws random numbers in a branch"),
    "a failure": (
        _go_too_far,
        "it fails where torch may leave it out (IndexError: index 4 is out of bounds",
    ),
    "two ways": (_choose, ": else)"),
}


@pytest.mark.parametrize("name", only({"add to rows", "in place"}, KNOWN))
def test_places_are_known_by_their_mask(name: str) -> None:
    """A program has torch's results and torch's gradients of what lies where a mask is true."""
    check_gradients(KNOWN[name], X, W)


@pytest.mark.parametrize("name", every(6, UNKNOWN))
def test_their_number_and_order_are_not_known(name: str) -> None:
    """What asks for them is refused in one line, which names the function and the line."""
    function, expected = UNKNOWN[name]
    with pytest.raises(CaptureError) as caught:
        run_gradients(function, X, W)
    line = str(caught.value)
    assert expected in line
    assert "test_program_coordinates.py" in line
    assert "\n" not in line


def test_what_is_not_selected_reaches_nothing() -> None:
    """NaN and infinity of rows that are not selected are in no result; their gradients are 0."""

    def expert(x: Tensor, w: Tensor) -> Tensor:
        rows, slots = torch.where(CHOSEN == 0)
        y = torch.zeros_like(x).index_add(0, rows, x[rows].log() * w[rows, slots, None])
        y[rows] += functional.linear(x[rows], torch.ones(5, 5)).rsqrt()
        return y.square().sum()

    x = torch.full((4, 5), 2.0)
    x[1], x[3] = torch.nan, torch.inf
    w = W.clone()
    w[1], w[3] = torch.nan, -torch.inf
    loss, of_x, of_w = run_gradients(expert, x, w)
    assert np.isfinite(loss)
    assert (of_x[[1, 3]] == 0).all()
    assert (of_w[[1, 3]] == 0).all()
    assert np.isfinite(of_x).all()
    assert np.isfinite(of_w).all()


class _Experts(nn.Module):
    """Experts of which a step trains those that its tokens name."""

    def __init__(self) -> None:
        super().__init__()
        self.experts = nn.ModuleList(nn.Linear(3, 3) for _ in range(3))

    def forward(self, x: Tensor, chosen: Tensor) -> Tensor:
        """Return the sum of what the experts add."""
        y = torch.zeros_like(x)
        for k, expert in enumerate(self.experts):
            (rows,) = torch.where(chosen == k)
            if rows.numel() == 0:
                continue
            y[rows] += expert(x[rows])
        return y


def _batch(step: int) -> tuple[Tensor, Tensor]:
    return torch.randn(4, 3, generator=torch.Generator().manual_seed(step)), torch.tensor(
        [step % 3, step % 2, step % 3, step % 2]
    )


OPTIMIZERS: dict[str, Callable[[nn.Module], torch.optim.Optimizer]] = {
    "momentum": lambda m: SGD(m.parameters(), lr=0.1, momentum=0.9, weight_decay=0.1),
    "AdamW": lambda m: AdamW(m.parameters(), lr=0.01),
    "groups": lambda m: AdamW([{"params": [p], "lr": 0.01} for p in m.parameters()]),
    "RMSprop": lambda m: RMSprop(m.parameters(), lr=0.01, momentum=0.5),
}


def _lose(model: nn.Module, x: Tensor, chosen: Tensor) -> Tensor:
    loss: Tensor = model(x, chosen).square().mean()
    return loss


def _train(
    model: nn.Module,
    optimizer: torch.optim.Optimizer,
    steps: int,
    scheduler: LRScheduler | None = None,
) -> dict[str, Tensor]:
    for step in range(steps):
        optimizer.zero_grad()
        _lose(model, *_batch(step)).backward()
        optimizer.step()
        if scheduler is not None:
            scheduler.step()
    return {name: p.detach().clone() for name, p in model.named_parameters()}


def _run(recipe: TrainingRecipe, steps: int) -> dict[str, Array]:
    captured = capture(recipe)
    executor, state = Executor(captured.program), captured.initial_state
    for step in range(steps):
        state = executor.run(state, captured.batch(step), step)
    return dict(zip((slot.name for slot in captured.program.state), state, strict=True))


def _assert_near(found: dict[str, Array], expected: dict[str, Tensor]) -> None:
    for key, tensor in expected.items():
        assert_close(found[f"parameter.{key}"], tensor.numpy(), 1e-4, 1e-6)


@pytest.mark.parametrize("name", only(["AdamW"], OPTIMIZERS))
def test_what_has_no_gradient_is_left_as_it_is(name: str) -> None:
    """Experts without rows keep weights, moments and counts, as torch's optimizers leave them."""
    torch.manual_seed(0)
    model = _Experts()
    before = {key: value.clone() for key, value in model.state_dict().items()}
    found = _run(TrainingRecipe(model, _lose, OPTIMIZERS[name](model), _batch), 6)
    model.load_state_dict(before)
    _assert_near(found, _train(model, OPTIMIZERS[name](model), 6))


@pytest.mark.slow
def test_schedules_count_all_steps() -> None:
    """A rate goes on in steps that leave an expert out, whose own counts do not."""
    torch.manual_seed(0)
    model = _Experts()
    before = {key: value.clone() for key, value in model.state_dict().items()}
    optimizer = AdamW(model.parameters(), lr=0.01)
    recipe = TrainingRecipe(model, _lose, optimizer, _batch, scheduler=LinearLR(optimizer, 0.1))
    found = _run(recipe, 6)
    model.load_state_dict(before)
    optimizer = AdamW(model.parameters(), lr=0.01)
    _assert_near(found, _train(model, optimizer, 6, LinearLR(optimizer, 0.1)))
