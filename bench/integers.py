"""Products of int8 matrices and weights: ours, `torch._int_mm`, and ours of float32."""

from collections.abc import Iterator
from functools import partial

import torch

from moot.bench.shapes import INTEGER_PRODUCTS, TINY_INTEGER_PRODUCTS
from moot.bench.sides import Comparison, make_ours

GROUP = "int8"

_BOUND = 127
"""The greatest magnitude of a quantized number."""


def list_comparisons(*, is_tiny: bool) -> Iterator[Comparison]:
    """Yield the products; weights are (columns, inner), as a linear layer has them."""
    generator = torch.Generator().manual_seed(0)

    def draw(rows: int, columns: int) -> torch.Tensor:
        shape = rows, columns
        return torch.randint(-_BOUND, _BOUND + 1, shape, generator=generator, dtype=torch.int8)

    for rows, inner, columns in TINY_INTEGER_PRODUCTS if is_tiny else INTEGER_PRODUCTS:
        a, b = draw(rows, inner), draw(columns, inner)
        shape, ours = f"{rows} x {inner} x {columns}", make_ours(_multiply, (a, b))
        floats = make_ours(lambda a, b: a @ b.mT, (a.float(), b.float()))
        yield Comparison(GROUP, "beside torch._int_mm", shape, ours, partial(_multiply, a, b))
        yield Comparison(GROUP, "beside our float32", shape, ours, floats)


def _multiply(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    return torch._int_mm(a, b.mT)  # noqa: SLF001 - torch's only product of int8
