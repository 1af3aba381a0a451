"""What a mask selects has torch's folds and gradients; what asks how many there are is refused."""

from collections.abc import Callable

import pytest
import torch
from torch import Tensor
from torch.nn import functional

from moot.offchain.errors import CaptureError
from tests.program_helpers import check_gradients, run_gradients
from tests.quick import every

X = torch.linspace(-1, 1.2, 20).reshape(4, 5)
Y = torch.tensor([0.5, -1.5, 0.25, 2.0, -0.75]).repeat(4, 1) * torch.arange(1, 5)[:, None]
ROWS = torch.tensor([True, False, True, True])
ELEMENTS = Y > 0
CLASSES = torch.tensor([1, 4, 0, 2])
LABELS = torch.tensor([[3, 1, -100], [2, -100, -100]])

Function = Callable[[Tensor, Tensor], Tensor]


def write(x: Tensor, y: Tensor) -> Tensor:
    """Add to what a mask selects, in place."""
    z = x * y
    z[ROWS] += 2.0
    return z.square().sum()


def align(x: Tensor, y: Tensor) -> Tensor:
    """Return the loss of labels that a mask joins to one line."""
    scores = torch.stack([x + y, x - y], 1).log_softmax(-1)
    is_label = LABELS >= 0
    labels = LABELS.masked_select(is_label)
    return functional.ctc_loss(scores, labels, torch.tensor([4, 3]), is_label.sum(-1))


def fold_by_rows(x: Tensor, y: Tensor) -> Tensor:
    """Fold each selected row, and all of them."""
    rows = (x * y)[ROWS]
    folded = rows.logsumexp(-1).sum() + rows.sum(1).square().mean() + rows.mean(0).square().sum()
    return folded + rows.max() - rows.min()


def count(x: Tensor, y: Tensor) -> Tensor:
    """Divide by the number of elements, and by that of rows."""
    return (x * y)[ELEMENTS].sum() / x[ELEMENTS].numel() + x[ROWS].sum() / x[ROWS].shape[0]


def find_fixed(y: Tensor) -> Tensor:
    """Return a mask to which 2^40 paths lead."""
    for _ in range(40):
        y = (y + y) / 2
    return y > 0


def _assign(x: Tensor, y: Tensor) -> Tensor:
    x[~ROWS] = y[ROWS]
    return x.sum()


KNOWN: dict[str, Function] = {
    "an elementwise loss": lambda x, y: functional.mse_loss(x[ELEMENTS], y[ELEMENTS]),
    "a loss without a fold": lambda x, y: functional.l1_loss(
        x[ROWS], y[ROWS], reduction="none"
    ).sum(),
    "masks computed twice": lambda x, y: functional.huber_loss(x[y > 0], y[y > 0]),
    "masks of many paths": lambda x, y: functional.mse_loss(x[find_fixed(y)], y[find_fixed(y)]),
    "classes": lambda x, y: functional.cross_entropy((x * y)[ROWS], CLASSES[ROWS]),
    "summed classes": lambda x, y: functional.nll_loss(
        (x * y)[ROWS].log_softmax(-1), CLASSES[ROWS], reduction="sum"
    ),
    "a layer of rows": lambda x, y: functional.linear(x[ROWS], y).tanh().sum(),
    "masked_select": lambda x, y: (x * y).masked_select(ROWS[:, None]).exp().mean(),
    "logarithms beside zeros": lambda x, y: (x * x * (y > 0))[y > 0].log().sum() + y.sum(),
    "a view as one axis": lambda x, y: (x * y)[ELEMENTS].view(-1).square().sum(),
    "nothing selected": lambda x, y: (x * y)[y > 100].log().sum() + x.sum() + y.sum(),
    "in place": write,
    "labels of an alignment": align,
    "folds of rows": fold_by_rows,
    "counts": count,
}

UNKNOWN: dict[str, Function] = {
    "len": lambda x, _: x[ROWS].sum() / len(x[ROWS]),
    "iter": lambda x, _: torch.stack([row.sum() for row in x[ROWS]]).sum(),
    "std": lambda x, _: x[ROWS].std(),
    "cat": lambda x, y: torch.cat([x[ROWS], y]).sum(),
    "mse_loss (with what another mask selects)": lambda x, y: functional.mse_loss(
        x[ROWS], y[~ROWS]
    ),
    "mul (with a tensor [3, 5])": lambda x, y: (x[ROWS] * y[:3]).sum(),
    "sum": lambda x, _: x[ROWS].sum((0, 1)),
    "view": lambda x, _: x[ROWS].view(3, 5).sum(),
    "normalize": lambda x, _: functional.normalize(x[ROWS], dim=0).sum(),
    "batchmean": lambda x, y: functional.kl_div(x[ROWS], y[ROWS], reduction="batchmean"),
    "mse_loss (with these arguments)": lambda x, y: functional.mse_loss(
        x[ROWS], y[ROWS], weight=x[ROWS]
    ),
    "assignment (to another mask)": lambda x, y: _assign(x * 1, y),
    "the loss": lambda x, _: x[ROWS],
    "getitem": lambda x, _: x[ROWS][0].sum(),
    "sort": lambda x, _: x[ROWS].sort().values.sum(),
}


@pytest.mark.parametrize("name", every(16, KNOWN))
def test_selections_have_folds(name: str) -> None:
    """A program has torch's loss and torch's gradients of what a mask selects."""
    check_gradients(KNOWN[name], X, Y)


@pytest.mark.parametrize("name", every(6, UNKNOWN))
def test_the_number_selected_is_not_known(name: str) -> None:
    """Whatever asks for it is refused in one line, which names the function and the line."""
    with pytest.raises(CaptureError) as caught:
        run_gradients(UNKNOWN[name], X, Y)
    line = str(caught.value)
    assert line.startswith(f"{name} of x[mask]: the program would depend on data")
    assert "test_program_masks.py" in line
    assert "\n" not in line
