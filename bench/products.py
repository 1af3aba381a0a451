"""Matrix products: ours, torch's eager ones (MKL), and the other libraries on the machine."""

from collections.abc import Callable, Collection, Iterator, Mapping

import numpy as np
import torch

from moot.bench.shapes import PRODUCTS, TINY_PRODUCTS, Layout, Product, list_products
from moot.bench.sides import Comparison, draw, make_ours
from moot.bench.timing import Side

GROUP = "matmul"

MODELS = tuple(PRODUCTS)

Multiply = Callable[[torch.Tensor, torch.Tensor], torch.Tensor]

MULTIPLY: Mapping[Layout, Multiply] = {
    Layout.NN: lambda a, b: a @ b,
    Layout.NT: lambda a, b: a @ b.mT,
    Layout.TN: lambda a, b: a.mT @ b,
}


def list_comparisons(models: Collection[str], *, is_tiny: bool) -> Iterator[Comparison]:
    """Yield the products of the models' layers, forward and both gradients."""
    table = TINY_PRODUCTS if is_tiny else PRODUCTS
    generator = torch.Generator().manual_seed(0)
    for model, layers in table.items():
        for layer in layers if model in models else ():
            for product in list_products(layer):
                yield _prepare(model, product, generator)


def _prepare(model: str, product: Product, generator: torch.Generator) -> Comparison:
    a, b = draw_factors(product, generator)
    multiply = MULTIPLY[product.layout]
    return Comparison(
        GROUP,
        f"{model} {product.name}",
        product.describe(),
        make_ours(multiply, (a, b)),
        lambda: multiply(a, b),
        _list_libraries(product, a, b),
    )


def draw_factors(product: Product, generator: torch.Generator) -> tuple[torch.Tensor, torch.Tensor]:
    """Return the factors of a product as its layout has them: normal numbers."""
    left = (product.rows, product.inner)
    right = (product.inner, product.columns)
    if product.layout is Layout.TN:
        left = left[::-1]
    if product.layout is Layout.NT:
        right = right[::-1]
    batch = (product.batch,) if product.batch > 1 else ()
    return draw(generator, *batch, *left), draw(generator, *batch, *right)


def _list_libraries(product: Product, a: torch.Tensor, b: torch.Tensor) -> dict[str, Side]:
    """Return the product by other libraries; oneDNN's linear layer knows no batches."""
    x = a.mT if product.layout is Layout.TN else a
    y = b.mT if product.layout is Layout.NT else b
    left, right = x.numpy(), y.numpy()
    libraries: dict[str, Side] = {"openblas": lambda: np.matmul(left, right)}
    if product.batch == 1:
        libraries["onednn"] = _use_onednn(product, x, y)
    return libraries


def _use_onednn(product: Product, x: torch.Tensor, y: torch.Tensor) -> Side:
    """Return oneDNN's linear layer; it packs a parameter beforehand and activations as it runs."""
    linear = torch.ops.mkldnn._linear_pointwise  # noqa: SLF001 - torch's only way to it
    pack = torch.ops.mkldnn._reorder_linear_weight  # noqa: SLF001 - likewise
    if product.is_constant:
        packed = pack(y.mT.contiguous(), product.rows)
        return lambda: linear(x, packed, None, "none", [], "")
    return lambda: linear(
        x.contiguous(), pack(y.mT.contiguous(), product.rows), None, "none", [], ""
    )
