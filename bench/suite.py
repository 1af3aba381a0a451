"""The groups of operators, one after the other."""

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence

from moot.bench import (
    bfloat16,
    convolutions,
    generation,
    indices,
    integers,
    layers,
    operators,
    pointwise,
    products,
    receipts,
    serving,
)
from moot.bench.rows import Row
from moot.bench.sides import Comparison, compare

GROUPS: Mapping[str, Callable[[Collection[str], bool], Iterator[Comparison]]] = {
    products.GROUP: lambda models, is_tiny: products.list_comparisons(models, is_tiny=is_tiny),
    bfloat16.GROUP: lambda _, is_tiny: bfloat16.list_comparisons(is_tiny=is_tiny),
    integers.GROUP: lambda _, is_tiny: integers.list_comparisons(is_tiny=is_tiny),
    convolutions.GROUP: lambda _, is_tiny: convolutions.list_comparisons(is_tiny=is_tiny),
    operators.GROUP: lambda _, is_tiny: operators.list_comparisons(is_tiny=is_tiny),
    pointwise.GROUP: lambda _, is_tiny: pointwise.list_comparisons(is_tiny=is_tiny),
    indices.GROUP: lambda _, is_tiny: indices.list_comparisons(is_tiny=is_tiny),
    layers.GROUP: lambda _, is_tiny: layers.list_comparisons(is_tiny=is_tiny),
    generation.GROUP: lambda _, is_tiny: generation.list_comparisons(is_tiny=is_tiny),
    receipts.GROUP: lambda _, is_tiny: receipts.list_comparisons(is_tiny=is_tiny),
    serving.GROUP: lambda _, is_tiny: serving.list_comparisons(is_tiny=is_tiny),
}


def measure_operators(
    groups: Collection[str],
    models: Collection[str],
    threads: Sequence[int],
    repeats: int,
    *,
    is_tiny: bool,
) -> Iterator[Row]:
    """Yield the rows of some groups; `models` chooses among those of the matrix products."""
    for name, list_comparisons in GROUPS.items():
        if name in groups:
            for comparison in list_comparisons(models, is_tiny):
                yield from compare(comparison, threads, repeats)
