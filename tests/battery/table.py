"""The rows that are tried: those of the corpus, and a call of every rule.

A row that draws random numbers has draws of the program's in torch as well; a refused one is left
out.
"""

from collections.abc import Mapping
from itertools import groupby
from typing import Any

import torch
from torch import Tensor
from torch.utils._pytree import tree_flatten, tree_unflatten

from docs.operator_samples import SAMPLES, Call
from tests.corpus.rows import Form, Row, ask
from tests.corpus.table import REFUSALS
from tests.corpus.table import ROWS as CORPUS


def _make_row(name: str, calls: list[Call]) -> Row:
    """Return the row of several calls of one operator, whose tensors are its inputs."""
    leaves, layout = tree_flatten([(call.args, call.options) for call in calls])
    places = [k for k, leaf in enumerate(leaves) if isinstance(leaf, Tensor)]

    def compute(*tensors: Tensor) -> Any:
        filled = [*leaves]
        for place, tensor in zip(places, tensors, strict=True):
            filled[place] = tensor
        given = tree_unflatten(filled, layout)
        return [
            call.function(*args, **options)
            for call, (args, options) in zip(calls, given, strict=True)
        ]

    return ask(f"call: {name}", compute, *(leaves[place] for place in places))


def _name(call: Call) -> str:
    """Return the name of a call's operator; of what torch composes, none."""
    return str(call.function) if isinstance(call.function, torch._ops.OpOverload) else ""


def _list_calls() -> list[Row]:
    """Return a row for each operator of which there are samples."""
    ordered = sorted(SAMPLES, key=_name)
    groups = {name: list(calls) for name, calls in groupby(ordered, _name)}
    return [_make_row(name, calls) for name, calls in groups.items() if name]


ROWS: Mapping[str, Row] = {
    **{n: r for n, r in CORPUS.items() if n not in REFUSALS and r.form is not Form.DRAWN},
    **{row.name: row for row in _list_calls()},
}
"""Name -> row."""
