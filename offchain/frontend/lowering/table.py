"""The table of all rules, and the decompositions that lead to it."""

from collections.abc import Callable, Mapping
from functools import cache
from typing import Any

from torch._decomp import core_aten_decompositions, global_decomposition_table
from torch._ops import OpOverload

from moot.offchain.frontend.decompositions.table import DECOMPOSITIONS, find_overload
from moot.offchain.frontend.lowering.adaptive import ADAPTIVE
from moot.offchain.frontend.lowering.builder import Rule
from moot.offchain.frontend.lowering.contractions import CONTRACTIONS
from moot.offchain.frontend.lowering.convolutions import CONVOLUTIONS
from moot.offchain.frontend.lowering.creation import CREATION
from moot.offchain.frontend.lowering.division import DIVISION
from moot.offchain.frontend.lowering.elementwise import ELEMENTWISE
from moot.offchain.frontend.lowering.indexing import INDEXING
from moot.offchain.frontend.lowering.normalization import NORMALIZATION
from moot.offchain.frontend.lowering.padding import PADDING
from moot.offchain.frontend.lowering.pairs import PAIRS
from moot.offchain.frontend.lowering.pooling import POOLING
from moot.offchain.frontend.lowering.randomness import RANDOMNESS
from moot.offchain.frontend.lowering.reductions import REDUCTIONS
from moot.offchain.frontend.lowering.shapes import SHAPES
from moot.offchain.frontend.lowering.sorting import SORTING

FAMILIES: Mapping[str, Mapping[str, Rule]] = {
    "Element by element": ELEMENTWISE,
    "Division and shifts": DIVISION,
    "Contractions": CONTRACTIONS,
    "Convolutions": CONVOLUTIONS,
    "Reductions": REDUCTIONS,
    "Softmax": NORMALIZATION,
    "Pooling": POOLING,
    "Adaptive pooling": ADAPTIVE,
    "Indexing": INDEXING,
    "Sorting": SORTING,
    "Shapes": SHAPES,
    "Padding": PADDING,
    "Creation": CREATION,
    "Random numbers": RANDOMNESS,
}
"""Family of operators -> ATen overload -> rule."""

RULES: Mapping[str, Rule] = {name: rule for f in FAMILIES.values() for name, rule in f.items()}
"""ATen overload -> rule."""


@cache
def get_decompositions() -> Mapping[Any, Callable[..., Any]]:
    """Return the decomposition of every overload that has one and no rule: ours, or torch's."""
    known = {**global_decomposition_table["post_autograd"], **core_aten_decompositions()}
    theirs = {
        overload: decomposition
        for overload, decomposition in known.items()
        if isinstance(overload, OpOverload) and str(overload) not in {*RULES, *PAIRS}
    }
    ours = {find_overload(name): function for name, function in DECOMPOSITIONS.items()}
    return {**theirs, **ours}
