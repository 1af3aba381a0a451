"""Products of int8 matrices, and text by models whose weights are int8.

Products stand beside `torch._int_mm`, and beside ours of float32; tokens beside the transformers
library's of the model as it was, in float32 and in bfloat16.
"""

import copy
from collections.abc import Iterator
from functools import partial

import torch

from moot.bench import generation
from moot.bench.shapes import (
    INTEGER_PRODUCTS,
    TINY_GENERATION,
    TINY_INTEGER_PRODUCTS,
    GenerationSizes,
)
from moot.bench.sides import Comparison, make_ours
from moot.offchain.frontend.quantization import quantize

GROUP = "int8"

_BOUND = 127
"""The greatest magnitude of a quantized number."""

_TOLERANCE = 0.1
"""The greatest difference of logits that are rounded otherwise, as a share of the largest."""


def list_comparisons(*, is_tiny: bool) -> Iterator[Comparison]:
    """Yield the products, then the tokens after a prompt."""
    yield from _list_products(is_tiny=is_tiny)
    sizes = TINY_GENERATION if is_tiny else GenerationSizes()
    for name, model, texts in generation.list_texts(sizes):
        short = copy.deepcopy(model).bfloat16()
        yield Comparison(
            GROUP,
            f"{name}, {sizes.tokens} tokens",
            f"{len(texts)} x 1",
            generation.make_our_decoding(quantize(model), texts, sizes.prompt),
            generation.make_stock_decoding(model, texts, sizes.prompt),
            {"bfloat16": generation.make_stock_decoding(short, texts, sizes.prompt)},
            _TOLERANCE,
        )


def _list_products(*, is_tiny: bool) -> Iterator[Comparison]:
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
