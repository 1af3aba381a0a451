"""The two sides of a measurement: ours is a captured program, stock is eager torch."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch

from moot.bench.rows import Row
from moot.bench.timing import Side, measure, using_threads
from moot.offchain.arithmetic.base import Arithmetic
from moot.offchain.arithmetic.ordered import ORDERED
from moot.offchain.errors import MootError
from moot.offchain.execution.executor import Executor
from moot.offchain.frontend.capture import capture
from moot.offchain.frontend.recipe import InferenceRecipe

Tensors = tuple[torch.Tensor, ...]
Function = Callable[..., torch.Tensor | Sequence[torch.Tensor]]

TOLERANCE = 1e-3
"""The greatest difference of results, as a share of the largest element's magnitude."""


@dataclass(frozen=True, slots=True)
class Comparison:
    """One row to be: the same results computed by ours, by stock and perhaps by libraries."""

    group: str
    name: str
    shape: str
    ours: Side
    stock: Side
    libraries: Mapping[str, Side] = field(default_factory=dict)
    tolerance: float = TOLERANCE


def make_ours(function: Function, tensors: Tensors, arithmetic: Arithmetic = ORDERED) -> Side:
    """Return the captured function on these tensors; a program's constants are no results."""
    recipe = InferenceRecipe(
        torch.nn.Module(), lambda _, *batch: function(*batch), lambda _: tensors
    )
    captured = capture(recipe, trust=True, arithmetic=arithmetic)  # `compare` looks at the results
    executor = Executor(captured.program)
    state, batch = captured.initial_state, captured.batch(0)
    results = [
        i for i, slot in enumerate(captured.program.state) if slot.name.startswith("output.")
    ]

    def run() -> list[np.ndarray]:
        return executor.run(state, batch, 0)

    def pick() -> list[np.ndarray]:
        found = run()
        return [found[i] for i in results]

    return run if len(results) == len(captured.program.state) else pick


def make_comparison(
    group: str, name: str, function: Function, *tensors: torch.Tensor
) -> Comparison:
    """Return the comparison of a function of tensors, captured, with itself."""
    shape = ", ".join(" x ".join(map(str, tensor.shape)) for tensor in tensors)
    return Comparison(group, name, shape, make_ours(function, tensors), lambda: function(*tensors))


def compare(comparison: Comparison, threads: Sequence[int], repeats: int) -> Iterator[Row]:
    """Yield the row of each number of threads, after a look at the results.

    Raises:
        MootError: two sides do not agree.
    """
    others = {"ours": comparison.ours, **comparison.libraries}
    reference = to_arrays(comparison.stock())
    for side, run in others.items():
        name = f"{comparison.name} {comparison.shape}, {side}"
        check_close(name, to_arrays(run()), reference, comparison.tolerance)
    del reference
    sides = {"stock": comparison.stock, **others}
    for count in threads:
        with using_threads(count):
            spent = dict(zip(sides, measure(list(sides.values()), repeats), strict=True))
        ours_s, stock_s = spent.pop("ours"), spent["stock"]
        extra = compare_best(spent, ours_s) if comparison.libraries else {}
        yield Row(
            comparison.group, comparison.name, comparison.shape, count, ours_s, stock_s, extra
        )


def compare_best(spent: Mapping[str, float], ours_s: float) -> dict[str, object]:
    """Return which library is the best on this machine, stock torch among them."""
    best = min(spent, key=lambda name: spent[name])
    return {
        "best": best,
        "best_s": spent[best],
        "best_ratio": spent[best] / ours_s,
        "libraries_s": dict(spent),
    }


def to_arrays(result: object) -> list[np.ndarray]:
    """Return what a side returned as a list of arrays."""
    results = result if isinstance(result, (list, tuple)) else [result]
    return [_to_array(found) for found in results]


def _to_array(found: Any) -> np.ndarray:
    if not isinstance(found, torch.Tensor):
        return np.asarray(found)
    return np.asarray(found.detach().float() if found.dtype is torch.bfloat16 else found.detach())


def check_close(
    name: str, found: Sequence[np.ndarray], wanted: Sequence[np.ndarray], share: float = TOLERANCE
) -> None:
    """Refuse results that are not those of stock torch, up to rounding.

    Raises:
        MootError: they are further apart than that.
    """
    for a, b in zip(found, wanted, strict=True):
        bound = share * max(float(np.abs(b).max(initial=0)), 1e-30)
        distance = float(np.abs(a - b).max(initial=0))
        if a.shape != b.shape or not distance <= bound:
            raise MootError(f"{name} is {distance:g} away from stock torch; a bound is {bound:g}")


def draw(generator: torch.Generator, *shape: int) -> torch.Tensor:
    """Return normal numbers."""
    return torch.randn(shape, generator=generator)
