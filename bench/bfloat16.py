"""Products of bfloat16 as tensor cores compute them, beside our products of binary32 in `ordered`.

Both are captured programs, on the same numbers, all of which bfloat16 has.
"""

from collections.abc import Iterator

import torch

from moot.bench.products import MULTIPLY, Multiply, draw_factors
from moot.bench.shapes import PRODUCTS, TINY_PRODUCTS, list_products
from moot.bench.sides import Comparison, make_ours
from moot.offchain.arithmetic.tensor import AMPERE, HOPPER

GROUP = "bfloat16"

_LEFT_OUT = "head"
"""A layer whose products take as long as all others' together, and tell nothing else."""
_TOLERANCE = 0.01
"""The greatest difference of results, which are rounded to bfloat16, as a share of the largest."""


def list_comparisons(*, is_tiny: bool) -> Iterator[Comparison]:
    """Yield the products of GPT-2's layers, forward and both gradients, in each arithmetic."""
    generator = torch.Generator().manual_seed(0)
    for layer in (TINY_PRODUCTS if is_tiny else PRODUCTS)["gpt2"]:
        for product in list_products(layer) if layer.name != _LEFT_OUT else ():
            short = [factor.bfloat16() for factor in draw_factors(product, generator)]
            multiply = MULTIPLY[product.layout]
            floats = make_ours(multiply, (short[0].float(), short[1].float()))

            def round_product(
                a: torch.Tensor, b: torch.Tensor, multiply: Multiply = multiply
            ) -> torch.Tensor:
                return multiply(a, b).float()  # so that it can be compared

            for arithmetic in HOPPER, AMPERE:
                yield Comparison(
                    GROUP,
                    f"{product.name}, {arithmetic.name} beside ordered",
                    product.describe(),
                    make_ours(round_product, (short[0], short[1]), arithmetic),
                    floats,
                    tolerance=_TOLERANCE,
                )
