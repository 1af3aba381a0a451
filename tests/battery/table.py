"""The rows that are tried: those of the corpus, a few more, and the calls of operators.md.

A row that draws random numbers has the program's draws in torch as well. Left out are rows that are
refused, and those of layers and optimizers whose parts have rows of their own. torch crashes where
a grid is NaN, so that grids are ordinary.
"""

from collections.abc import Mapping
from itertools import groupby
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.utils._pytree import tree_flatten, tree_unflatten

from docs.tools.operator_samples import SAMPLES, Call
from tests.corpus.rows import Row, ask, layer, learn, ramp
from tests.corpus.table import REFUSALS
from tests.corpus.table import ROWS as CORPUS

UNDEFINED = frozenset(
    {
        *("aten.empty.memory_format", "aten.empty_like.default", "aten.empty_permuted.default"),
        *("aten.empty_strided.default", "aten.new_empty.default"),
        *("aten.new_empty_strided.default", "aten._assert_async.msg"),
    }
)
"""Operators without a result that torch defines."""


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

    return ask(f"call: {name}", compute, *(leaves[place].contiguous() for place in places))


def _name(call: Call) -> str:
    """Return the name of a call's operator; of what torch composes, none."""
    return str(call.function) if isinstance(call.function, torch._ops.OpOverload) else ""


def _list_calls() -> list[Row]:
    """Return a row for each operator of which there are samples."""
    ordered = sorted(SAMPLES, key=_name)
    groups = {name: list(calls) for name, calls in groupby(ordered, _name)}
    return [
        _make_row(name, calls) for name, calls in groups.items() if name not in UNDEFINED | {""}
    ]


IMAGE, SOLID = ramp(2, 3, 6, 7), ramp(1, 2, 3, 4, 5)
GRID = ramp(2, 4, 5, 2, low=-1.3, high=1.3)
SOLID_GRID = ramp(1, 2, 3, 4, 3, low=-1.3, high=1.3)
MODES = (
    ("bilinear", "zeros"),
    ("bilinear", "reflection"),
    ("nearest", "border"),
    ("bicubic", "zeros"),
)


HEADS = (ramp(2, 3, 4), ramp(2, 3, 4, seed=1), ramp(2, 3, 4, seed=2))
MASK = torch.tensor([[True, False, True], [False, False, False], [True, True, True]])


def _attend(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    """Return attention of which one row sees nothing."""
    return functional.scaled_dot_product_attention(q, k, v, attn_mask=MASK)


def _quantize(x: Tensor) -> Tensor:
    """Return numbers rounded to multiples of a scale that is a tensor."""
    scale, zero = torch.tensor(0.1), torch.zeros((), dtype=torch.int32)
    return torch.fake_quantize_per_tensor_affine(x, scale, zero, -20, 20)


def _sample(mode: str, padding: str) -> Any:
    """Return the function that samples an image at an ordinary grid."""
    return lambda x: functional.grid_sample(x, GRID, mode, padding, align_corners=False)


MORE = (
    learn("fake_quantize", _quantize, ramp(3, 4)),
    learn("attention of rows that see nothing", _attend, *HEADS),
    *(learn(f"grid_sample {m} {p}", _sample(m, p), IMAGE) for m, p in MODES),
    learn(
        "grid_sample 3d",
        lambda x: functional.grid_sample(x, SOLID_GRID, align_corners=True),
        SOLID,
    ),
    layer("MaxPool2d padded", lambda: nn.MaxPool2d(3, 2, 1, return_indices=True), IMAGE),
    layer("MaxPool2d padded, dilated", lambda: nn.MaxPool2d(2, 1, 1, 2), IMAGE),
    learn("logit, clamped", lambda x: torch.logit(x, 0.01), ramp(4, 5, low=0)),
    learn("median, mode", lambda x: (x.median(), x.nanmedian(), x.mode(1)), ramp(4, 5)),
    ask(
        "normal",
        lambda x, y: (torch.normal(x, y), torch.normal(1.0, y)),
        ramp(3, 4),
        ramp(3, 4, low=0.1),
    ),
    ask(
        "_is_all_true", lambda x: (torch._is_all_true(x > 0), torch._is_any_true(x > 0)), ramp(3, 4)
    ),
)
"""What the corpus has in one form only."""

LEFT_OUT = (
    *("recurrent layers", "optimizers", "pooling, padding, resizing: grid_sample"),
    *("layers: ConvTranspose", "layers: Conv3d", "layers: MultiheadAttention"),
    *("layers: Transformer", "layers: parametrizations.orthogonal"),
    *("modules", "functionals", "inference"),
)
"""How the names of compositions begin whose parts are tried elsewhere."""

KEPT = (
    *("functionals: fractional_max_pool2d", "functionals: fractional_max_pool3d"),
    *("functionals: conv_tbc", "functionals: l1_loss weight"),
    *("functionals: ctc_loss of joined targets", "functionals: embedding_bag"),
    "recurrent layers: LSTM packed",
)
"""Rows among these that alone meet an operator."""


def _is_tried(name: str) -> bool:
    """Return whether a row of the corpus is tried."""
    return name not in REFUSALS and (name in KEPT or not name.startswith(LEFT_OUT))


ROWS: Mapping[str, Row] = {
    **{name: row for name, row in CORPUS.items() if _is_tried(name)},
    **{f"more: {row.name}": row for row in MORE},
    **{row.name: row for row in _list_calls()},
}
"""Name -> row."""
