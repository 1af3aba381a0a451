"""The battery: every lowering on special inputs is eager torch's, or differs as a choice says."""

from collections.abc import Callable, Iterator, Mapping
from unittest.mock import patch

import pytest
import torch
from torch import Tensor

from docs.operator_choices import CHOICES
from offchain.arithmetic.functions import DType, Function
from offchain.frontend.decompositions import solvers, statistics
from offchain.frontend.decompositions.table import DECOMPOSITIONS
from offchain.frontend.lowering import pooling
from offchain.frontend.lowering.builder import Builder
from offchain.frontend.lowering.normalization import softmax
from offchain.frontend.lowering.reductions import fold
from offchain.frontend.lowering.table import RULES, get_decompositions
from offchain.frontend.lowering.views import View
from tests.battery.draws import DRAWS
from tests.battery.reach import TABLES
from tests.battery.record import read_record
from tests.battery.table import ROWS
from tests.battery.trial import Trial
from tests.quick import every

EVERY = 12
"""One row in so many is part of the fast suite."""

RECORD = read_record()


def list_kinds(name: str) -> set[str]:
    """Return how a row's results differ from torch's on all special inputs."""
    trial = Trial(ROWS[name])
    assert set(RECORD[name]["reached"]) <= trial.reached
    return {difference.kinds for draw in DRAWS for difference in trial.compare(draw)}


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", every(EVERY, RECORD))
def test_row(name: str) -> None:
    """Outputs, statistics and gradients are eager torch's, but for what a choice explains."""
    assert list_kinds(name) <= set(RECORD[name]["differences"])


def test_every_row_is_tried() -> None:
    """The record has the rows that there are."""
    assert set(RECORD) == set(ROWS)


def test_every_lowering_is_tried() -> None:
    """Each rule, decomposition, composition and method is met by a row that is tried."""
    assert set(TABLES) == {name for entry in RECORD.values() for name in entry["reached"]}


def test_every_difference_is_a_choice() -> None:
    """What differs has its reason in the documentation, and no reason is left over."""
    keys = {key for entry in RECORD.values() for key in entry["differences"].values()}
    assert keys == set(CHOICES)
