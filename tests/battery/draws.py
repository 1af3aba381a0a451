"""Draws of special inputs: what stands in place of a row's ordinary numbers."""

from collections.abc import Callable, Mapping, Sequence

import torch
from torch import Tensor

NAN, INF = float("nan"), float("inf")
NORMAL, SUBNORMAL, MOST = 2.0**-126, 2.0**-149, 3.4028234663852886e38

NUMBERS = (0.0, -0.0, 1.0, -1.0, 0.5, -0.5, 1.5, 2.5, -2.5, 3.0, 1e-20, -1e-20)
"""Numbers of which sums and squares are numbers."""

EXTREMES = (NORMAL, -NORMAL, SUBNORMAL, -SUBNORMAL, 1e20, -1e20, 1e30, -1e30, MOST, -MOST)
SPECIAL = (*NUMBERS, *EXTREMES, INF, -INF, NAN)

Draw = Callable[[Sequence[Tensor], torch.Generator], list[Tensor]]
"""Makes special inputs of a row's float inputs."""


def _each(change: Callable[[Tensor], Tensor]) -> Draw:
    """Return the draw that changes every input by itself."""
    return lambda inputs, _: [change(x) for x in inputs]


def _first(change: Callable[[Tensor], Tensor]) -> Draw:
    """Return the draw that changes the first input."""
    return lambda inputs, _: [change(x) if k == 0 else x for k, x in enumerate(inputs)]


def _pick(numbers: Sequence[float], share: float = 1.0) -> Draw:
    """Return the draw that puts some of these numbers in a share of all places."""

    def draw(inputs: Sequence[Tensor], generator: torch.Generator) -> list[Tensor]:
        drawn = []
        for x in inputs:
            places = torch.randint(len(numbers), x.shape, generator=generator)
            is_drawn = torch.rand(x.shape, generator=generator) < share
            drawn.append(torch.where(is_drawn, torch.tensor(numbers)[places], x))
        return drawn

    return draw


def _one(number: float) -> Draw:
    """Return the draw that puts a number in one place of one input."""

    def draw(inputs: Sequence[Tensor], generator: torch.Generator) -> list[Tensor]:
        drawn = [x.clone() for x in inputs]
        filled = [x for x in drawn if x.numel()]
        if filled:
            x = filled[int(torch.randint(len(filled), (), generator=generator))]
            x.view(-1)[int(torch.randint(x.numel(), (), generator=generator))] = number
        return drawn

    return draw


def _fill_row(number: float) -> Callable[[Tensor], Tensor]:
    """Return the change that makes the first line along the last axis constant."""

    def change(x: Tensor) -> Tensor:
        lines = x.clone()
        lines.view(-1, x.shape[-1] if x.ndim else 1)[:1] = number
        return lines

    return change


def _repeat_row(x: Tensor) -> Tensor:
    """Return matrices whose second line is the first."""
    if x.ndim < 2 or x.shape[-2] < 2:
        return x
    repeated = x.clone()
    repeated[..., 1, :] = x[..., 0, :]
    return repeated


def _fill_half(number: float) -> Callable[[Tensor], Tensor]:
    """Return the change that makes the first half of all elements constant, windows among them."""

    def change(x: Tensor) -> Tensor:
        filled = x.clone()
        filled.view(-1)[: (x.numel() + 1) // 2] = number
        return filled

    return change


def _scale(factor: float) -> Callable[[Tensor], Tensor]:
    return lambda x: x * factor


def _fill(number: float) -> Callable[[Tensor], Tensor]:
    return lambda x: torch.full_like(x, number)


DRAWS: Mapping[str, Draw] = {
    "zeros": _each(_fill(0.0)),
    "ones": _each(_fill(1.0)),
    "constant": _first(_fill(0.1)),
    "constant -inf": _first(_fill(-INF)),
    "row of -inf": _first(_fill_row(-INF)),
    "row of NaN": _first(_fill_row(NAN)),
    "half of -inf": _first(_fill_half(-INF)),
    "row repeated": _each(_repeat_row),
    "near 1e20": _first(_scale(1e20)),
    "near 1e30": _first(_scale(1e30)),
    "near 1e-20": _first(_scale(1e-20)),
    "subnormal": _first(_scale(1e-44)),
    "offset": _first(lambda x: x + 1e4),
    "halves": _each(lambda x: (x * 8).round() / 2),
    **{f"one {n}": _one(n) for n in (0.0, 1e20, MOST, INF, NAN)},
    "numbers": _pick(NUMBERS),
    "some special": _pick(SPECIAL, 0.15),
    **{f"special {k}": _pick(SPECIAL) for k in range(3)},
}
"""Name -> draw."""
