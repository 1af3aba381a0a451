"""Models of the libraries that people use train as in eager torch, or are refused in one line."""

import pytest

from tests.corpus.models import Verdict, judge, list_kinds
from tests.corpus.models_kinds import Kind

QUICK = ("gpt_neo",)
"""Kinds that every run of the tests tries; the others are slow."""


@pytest.mark.filterwarnings("default")  # the libraries warn of their own plans
@pytest.mark.parametrize(
    "kind",
    [
        pytest.param(kind, id=kind.name, marks=() if kind.name in QUICK else pytest.mark.slow)
        for kind in list_kinds()
    ],
)
def test_models_train_as_in_torch(kind: Kind) -> None:
    """Losses and all updates of two steps are torch's, or one line says why there is no program."""
    row = judge(kind)
    if kind.refusal:
        assert (row.verdict, kind.refusal in row.note) == (Verdict.REFUSED, True), row
        assert len(row.note.splitlines()) == 1
    else:
        assert row.verdict is Verdict.EQUAL, row
