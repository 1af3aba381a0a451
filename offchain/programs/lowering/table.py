"""The table of all rules, and the decompositions that lead to it."""

from collections.abc import Callable, Mapping
from functools import cache
from typing import Any

from torch._decomp import core_aten_decompositions, global_decomposition_table
from torch._ops import OpOverload

from offchain.programs.decompositions.table import DECOMPOSITIONS, find_overload
from offchain.programs.lowering.adaptive import ADAPTIVE
from offchain.programs.lowering.builder import Rule
from offchain.programs.lowering.contractions import CONTRACTIONS
from offchain.programs.lowering.convolutions import CONVOLUTIONS
from offchain.programs.lowering.creation import CREATION
from offchain.programs.lowering.division import DIVISION
from offchain.programs.lowering.elementwise import ELEMENTWISE
from offchain.programs.lowering.indexing import INDEXING
from offchain.programs.lowering.normalization import NORMALIZATION
from offchain.programs.lowering.padding import PADDING
from offchain.programs.lowering.pairs import PAIRS
from offchain.programs.lowering.pooling import POOLING
from offchain.programs.lowering.randomness import RANDOMNESS
from offchain.programs.lowering.reductions import REDUCTIONS
from offchain.programs.lowering.shapes import SHAPES
from offchain.programs.lowering.sorting import SORTING

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
