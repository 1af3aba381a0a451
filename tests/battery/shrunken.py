"""Rows whose inputs have an axis without elements."""

from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor
from torch.utils._pytree import tree_leaves

from tests.battery.trial import UNHEARD
from tests.corpus.rows import Form, Row, ask, weigh

MOST_AXES = 2
"""Sizes of axes of a row, of which each is made 0 in turn."""


def shrink(row: Row) -> Iterator[Row]:
    """Yield the variants of a row of which eager torch has a result.

    All axes of one size become empty together. The gradients of float inputs are outputs.
    """
    sizes = dict.fromkeys(n for x in row.inputs for n in x.shape if n > 1)
    for size in list(sizes)[:MOST_AXES]:
        inputs = [_cut(x, size) for x in row.inputs]
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(3)
            variant = ask(f"{row.name}, {size} -> 0", _learn(row, row.make()), *inputs)
        try:
            results = variant.make()(*inputs)
        except UNHEARD:
            continue
        if results:
            yield variant


def _cut(x: Tensor, size: int) -> Tensor:
    """Return a tensor whose axes of a size are empty."""
    return x[tuple(slice(0, 0 if n == size else n) for n in x.shape)].clone()


def _learn(row: Row, function: Any) -> Any:
    """Return the function of a row's inputs that returns its outputs, and then gradients."""

    def compute(*inputs: Tensor) -> list[Tensor]:
        places = [
            k
            for k, x in enumerate(inputs)
            if row.form is Form.LEARNED and x.is_floating_point() and k not in row.given
        ]
        with torch.enable_grad():
            given = [
                x.detach().requires_grad_() if k in places else x for k, x in enumerate(inputs)
            ]
            result = row.call(function, *given) if row.call else function(*given)
            outputs = [leaf for leaf in tree_leaves(result) if isinstance(leaf, Tensor)]
            losses = [weigh(output) for output in outputs if output.requires_grad]
            leaves = [given[k] for k in places] if losses else []
            gradients = (
                torch.autograd.grad(sum(losses), leaves, allow_unused=True) if leaves else []
            )
        return [*(x.detach() for x in outputs), *(x for x in gradients if x is not None)]

    return compute
