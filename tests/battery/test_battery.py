"""The battery: every lowering on special inputs is eager torch's, or differs as a choice says."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from unittest.mock import patch

import pytest
import torch
from torch import Tensor

from docs.tools.operator_choices import CHOICES
from moot.offchain.arithmetic.functions import DType, Function
from moot.offchain.errors import CaptureError
from moot.offchain.frontend.decompositions import solvers, statistics
from moot.offchain.frontend.decompositions.lists import LISTS
from moot.offchain.frontend.decompositions.table import DECOMPOSITIONS
from moot.offchain.frontend.lowering import pooling
from moot.offchain.frontend.lowering.builder import Builder
from moot.offchain.frontend.lowering.normalization import softmax
from moot.offchain.frontend.lowering.reductions import fold
from moot.offchain.frontend.lowering.table import RULES, get_decompositions
from moot.offchain.frontend.lowering.views import View
from tests.battery.draws import DRAWS
from tests.battery.reach import TABLES
from tests.battery.record import read_record
from tests.battery.shrunken import shrink
from tests.battery.table import ROWS, UNDEFINED
from tests.battery.trial import Trial
from tests.corpus.table import REFUSALS
from tests.corpus.table import ROWS as CORPUS
from tests.quick import every

EVERY = 64
"""One row in so many is part of the fast suite."""

RECORD = read_record()

SUBJECTS = (
    *("element by element", "reductions and sorting", "indexing and arranging"),
    *("linear algebra", "complex numbers"),
)

FUNCTIONS = tuple(
    name
    for subject in SUBJECTS
    for name, row in CORPUS.items()
    if name.startswith(subject) and name not in REFUSALS
)
"""The rows that are tried on inputs without elements."""


CHECKS = ("method _Symmetric.check", "method _PositiveDefinite.check")

UNTRIED: Mapping[str, str] = {
    "aten._conj_physical.default": "it is conj_physical, which is tried",
    "aten._grouped_mm.default": "its numbers are BFLOAT16; it is products of matrices, by bmm",
    "method torch.nn.modules.transformer._detect_is_causal_mask": "it computes nothing",
    "aten.histogram.bins_tensor": "it counts, as histogram.bin_ct, which is tried",
    "method AveragedModel.update_parameters": "it is a lerp of each parameter, which is tried",
    **dict.fromkeys(CHECKS, "it computes nothing that is kept"),
    **dict.fromkeys(LISTS, "what it makes of each tensor of a list is a function that is tried"),
    **dict.fromkeys(UNDEFINED, "torch defines no result"),
}
"""Name of our tables -> why no row meets it."""


def list_kinds(trial: Trial) -> set[str]:
    """Return how a row's results differ from torch's on all special inputs."""
    return {difference.kinds for draw in DRAWS for difference in trial.compare(draw)}


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", every(EVERY, ROWS))
def test_row(name: str) -> None:
    """Outputs, statistics and gradients are eager torch's, but for what a choice explains."""
    trial = Trial(ROWS[name])
    assert list_kinds(trial) <= set(RECORD.differences.get(name, {}))
    assert {n for n, row in RECORD.reached.items() if row == name} <= trial.reached


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", every(10 * EVERY, FUNCTIONS))
def test_row_without_elements(name: str) -> None:
    """Outputs and gradients of inputs that have no elements are eager torch's, or refused."""
    for row in shrink(CORPUS[name]):
        with suppress(CaptureError):
            assert not Trial(row).compare("row repeated"), row.name


def test_every_lowering_is_tried() -> None:
    """Each rule, decomposition, composition and method is met by a row that is tried."""
    assert set(TABLES) <= {*RECORD.reached, *UNTRIED}
    assert not {*RECORD.reached} & ({*UNTRIED} - UNDEFINED)
    assert {*RECORD.reached.values(), *RECORD.differences} <= set(ROWS)


def test_every_difference_is_a_choice() -> None:
    """What differs has its reason in the documentation, and no reason is left over."""
    keys = {key for kinds in RECORD.differences.values() for key in kinds.values()}
    assert keys == set(CHOICES)


def ignore_nan(b: Builder, x: View, y: View) -> View:
    """Return the larger of two numbers, and a number before a NaN."""
    return b.map(Function.WHERE, b.map(Function.LT, x, y, dtype=DType.BOOL), y, x)


def softmax_of_nothing(b: Builder, x: View, dim: int, half_to_float: bool) -> View:  # noqa: FBT001 - ATen's signature
    """Return softmax, which is 0 where all elements of a row are -inf."""
    result = softmax(b, x, dim, half_to_float)
    largest = fold(b, Function.MAX, x, dim, keepdim=True)
    least = b.scalar(float("-inf"), DType.FLOAT32)
    is_nothing = b.map(Function.EQ, largest, least, dtype=DType.BOOL)
    return b.map(Function.WHERE, is_nothing, b.scalar(0, DType.FLOAT32), result)


def eliminate_blindly(a: Tensor, b: Tensor) -> tuple[Tensor, list[Tensor], Tensor]:
    """Return pivots of an elimination that divides by a pivot of 0."""
    both, pivots = a, []
    for k in range(a.shape[-1]):
        pivots.append(both[..., k, k])
        row = both[..., k : k + 1, :] / both[..., k : k + 1, k : k + 1]
        both = torch.cat(
            [both[..., :k, :], row, both[..., k + 1 :, :] - both[..., k + 1 :, k : k + 1] * row], -2
        )
    return b, pivots, torch.ones(a.shape[:-2])


def find_no_scale(largest: Tensor) -> tuple[Tensor, Tensor]:
    """Return a scale of 1."""
    return torch.ones_like(largest), torch.ones_like(largest)


def forget_nan(gradient: Tensor, x: Tensor, target: Tensor, reduction: int, beta: float) -> Tensor:
    """Return the gradient of the smooth absolute difference as torch decomposes it."""
    del reduction
    difference, share = x - target, gradient / x.numel()
    near = share * difference / beta
    return torch.where(difference.abs() < beta, near, share * torch.sign(difference))


MUTANTS: Mapping[str, tuple[str, Callable[[], object]]] = {
    "a maximum that ignores NaN": (
        "element by element: maximum",
        lambda: patch.dict(RULES, {"aten.maximum.default": ignore_nan}),  # type: ignore[arg-type]  # a dict
    ),
    "softmax of -inf alone is 0": (
        "activations and norms: Softmax",
        lambda: patch.dict(RULES, {"aten._softmax.default": softmax_of_nothing}),  # type: ignore[arg-type]  # likewise
    ),
    "a determinant divides by 0": (
        "linear algebra: det",
        lambda: patch.object(solvers, "_eliminate", eliminate_blindly),
    ),
    "a variance without a scale": (
        "reductions and sorting: std",
        lambda: patch.object(statistics, "find_scale", find_no_scale),
    ),
    "a window of -inf finds padding": (
        "more: MaxPool2d padded",
        lambda: patch.object(pooling, "_is_above_least", lambda *_: True),
    ),
    "a gradient that loses NaN": (
        "losses: SmoothL1Loss",
        lambda: patch.dict(DECOMPOSITIONS, {"aten.smooth_l1_loss_backward.default": forget_nan}),  # type: ignore[arg-type]  # likewise
    ),
}
"""What is wrong -> the row that tells, and the patch."""


@pytest.fixture
def _anew() -> Iterator[None]:
    """Let decompositions be looked up anew, before and after."""
    get_decompositions.cache_clear()
    yield
    get_decompositions.cache_clear()


@pytest.mark.filterwarnings("ignore")
@pytest.mark.usefixtures("_anew")
@pytest.mark.parametrize("mutant", MUTANTS)
def test_a_wrong_lowering_is_seen(mutant: str) -> None:
    """A lowering that is wrong on special inputs only differs in a way that is not recorded."""
    name, make_patch = MUTANTS[mutant]
    with make_patch():  # type: ignore[attr-defined]  # a patch
        assert not list_kinds(Trial(ROWS[name])) <= set(RECORD.differences.get(name, {}))
