"""Which cases of a test `make test` runs, where all would take long; the others are slow."""

from collections.abc import Iterable

import pytest
from _pytest.mark.structures import ParameterSet


def every(step: int, cases: Iterable[object]) -> list[ParameterSet]:
    """Return the cases of a test, of which one in so many is not left to the long suite.

    A plain tuple is a case of several arguments.
    """
    return [
        pytest.param(
            *(case if type(case) is tuple else (case,)),
            marks=[pytest.mark.slow] * (place % step > 0),
        )
        for place, case in enumerate(cases)
    ]


def only(quick: Iterable[object], cases: Iterable[object]) -> list[ParameterSet]:
    """Return the cases of a test, of which all but some are left to the long suite."""
    kept = [*quick]
    return [pytest.param(case, marks=[pytest.mark.slow] * (case not in kept)) for case in cases]
