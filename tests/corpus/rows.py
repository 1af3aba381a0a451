"""Rows of the corpus: one small program each, and how it is judged beside eager torch.

A row is *learned* where a tensor has a gradient: its float inputs and its module's parameters are
trained for three steps by SGD (or the row's optimizer) on a weighted sum of all outputs, and the
outputs are kept in buffers, so that the state holds outputs, gradient-updated parameters, running
statistics and the loss. It is *asked* where nothing has one: its outputs are compared. It is
*drawn* where it draws random numbers: a property of the outputs is checked, since the draws are
Philox's and not torch's.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from enum import Enum
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils._pytree import tree_leaves

from moot.offchain.frontend.selections import Selection

RATE = 0.01
"""The learning rate of rows without an optimizer: small, so that inputs stay in their domain."""

Function = Callable[..., Any]
Holds = Callable[[list[Tensor]], bool]


class Form(Enum):
    """How a row is judged."""

    LEARNED = "learned"
    ASKED = "asked"
    DRAWN = "drawn"


@dataclass(frozen=True)
class Row:
    """One program.

    Attributes:
        name: what a user of torch calls it.
        make: returns the function or the module that is called with the inputs.
        inputs: the inputs, in order.
        form: how it is judged.
        given: places of float inputs that are data, and have no gradient.
        call: how a module is called, where not `module(*inputs)`.
        holds: for drawn rows, whether outputs are as they should be.
        optimizer: makes torch's optimizer of the parameters; SGD by default.
        is_module: whether a module is called, which may be in training or in inference.
    """

    name: str
    make: Callable[[], Function]
    inputs: tuple[Tensor, ...]
    form: Form = Form.LEARNED
    given: tuple[int, ...] = ()
    call: Function | None = None
    holds: Holds | None = None
    optimizer: Callable[[Any], torch.optim.Optimizer] | None = field(default=None, repr=False)
    is_module: bool = False


def learn(name: str, function: Function, *inputs: Tensor, **options: Any) -> Row:
    """Return the row of a function whose float inputs are trained."""
    return Row(name, lambda: function, inputs, **options)


def layer(name: str, make: Callable[[], nn.Module], *inputs: Tensor, **options: Any) -> Row:
    """Return the row of a module that is trained, together with its float inputs."""
    return Row(name, make, inputs, is_module=True, **options)


def infer_all(rows: Iterable[Row]) -> tuple[Row, ...]:
    """Return the rows of modules that are trained once more, in inference."""
    return tuple(
        replace(
            row,
            name=f"{row.name} in inference",
            make=partial(_evaluate, row.make),
            form=Form.ASKED,
        )
        for row in rows
        if row.is_module and row.form is Form.LEARNED
    )


def _evaluate(make: Callable[[], Any]) -> Function:
    module: nn.Module = make()
    return module.eval()


def ask(name: str, function: Function, *inputs: Tensor, **options: Any) -> Row:
    """Return the row of a function without gradients."""
    return Row(name, lambda: function, inputs, Form.ASKED, **options)


def draw(name: str, function: Function, holds: Holds, *inputs: Tensor, **options: Any) -> Row:
    """Return the row of a function that draws random numbers."""
    return Row(name, lambda: function, inputs, Form.DRAWN, holds=holds, **options)


class Subject(nn.Module):
    """A row's program: its module, its trained inputs, and a buffer for each output.

    Args:
        row: the row; its module is made with torch's generator seeded.
    """

    def __init__(self, row: Row) -> None:
        super().__init__()
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(3)
            self.function = row.make()
        self._row = row
        self.data: list[Tensor] = []
        self._places: list[str | int] = []
        for place, tensor in enumerate(row.inputs):
            if row.form is Form.LEARNED and tensor.is_floating_point() and place not in row.given:
                self._places.append(f"input_{place}")
                setattr(self, f"input_{place}", nn.Parameter(tensor.clone()))
            else:
                self._places.append(len(self.data))
                self.data.append(tensor.clone())

    def call(self, *data: Tensor) -> list[Any]:
        """Return all tensors, and parts of tensors, that the row's function returns."""
        inputs = [getattr(self, p) if isinstance(p, str) else data[p] for p in self._places]
        call = self._row.call
        result = call(self.function, *inputs) if call else self.function(*inputs)
        return [leaf for leaf in tree_leaves(result) if isinstance(leaf, (Tensor, Selection))]

    def loss(self, *data: Tensor) -> Tensor:
        """Return a weighted sum of all outputs with a gradient; keep all outputs in buffers."""
        outputs = self.call(*data)
        total = torch.zeros(())
        for k, output in enumerate(outputs):
            getattr(self, f"output_{k}").copy_(output.detach())
            if output.requires_grad:
                total = total + weigh(output)
        return total


def weigh(output: Tensor) -> Tensor:
    """Return a sum of elements with weights that no symmetry of an operator hides."""
    weights = torch.linspace(0.3, 1.7, output.numel()).reshape(output.shape)
    return (output * weights).sum()


def ramp(*shape: int, low: float = -1.0, high: float = 1.0, seed: int = 0) -> Tensor:
    """Return distinct float32 numbers in (low, high), shuffled by a seed."""
    count = int(torch.Size(shape).numel())
    generator = torch.Generator().manual_seed(seed)
    order = torch.randperm(count, generator=generator).float()
    return (low + (high - low) * (order + 0.37) / max(count, 1)).reshape(shape)


def count(*shape: int, low: int = 0, high: int = 10, seed: int = 0) -> Tensor:
    """Return INT64 numbers in [low, high), drawn with a seed."""
    return torch.randint(low, high, shape, generator=torch.Generator().manual_seed(seed))


def flatten(groups: Sequence[Sequence[Row]]) -> tuple[Row, ...]:
    """Return all rows of several files."""
    return tuple(row for rows in groups for row in rows)
