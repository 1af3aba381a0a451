"""Which cases of a test `make test` tries, where all would take long; the others are slow."""

from collections.abc import Collection, Iterable

import pytest
from _pytest.mark.structures import ParameterSet

_SHARE = 12
_suite = {"is_long": True}


def choose_suite(config: pytest.Config) -> None:
    """Learn whether slow tests are left out, before any test is imported."""
    _suite["is_long"] = config.option.markexpr != "not slow"


def share(count: int, part: int = _SHARE) -> int:
    """Return how many of so many drawn cases are tried: one in `part` without slow tests."""
    return count if _suite["is_long"] else -(-count // part)


def every(step: int, cases: Iterable[object]) -> list[ParameterSet]:
    """Return the cases of a test, of which one in so many is not left to the long suite."""
    return [_mark(case, is_quick=place % step == 0) for place, case in enumerate(cases)]


def only(quick: Collection[object], cases: Iterable[object]) -> list[ParameterSet]:
    """Return the cases of a test, of which all but some are left to the long suite."""
    return [_mark(case, is_quick=case in quick) for case in cases]


def _mark(case: object, *, is_quick: bool) -> ParameterSet:
    """Return a case; a plain tuple is one of several arguments."""
    if isinstance(case, ParameterSet):
        slow = () if is_quick else (pytest.mark.slow,)
        return pytest.param(*case.values, marks=(*case.marks, *slow), id=case.id)
    arguments = case if type(case) is tuple else (case,)
    return pytest.param(*arguments, marks=[] if is_quick else [pytest.mark.slow])
