"""The fuzzer finds each fault that it is meant for when its mend is taken out."""

from collections.abc import Callable, Iterator
from random import Random
from typing import Any

import numpy as np
import pytest

from moot.offchain.backends.cpu import back_to_back, selections
from moot.offchain.backends.cpu.kernels import largest
from moot.offchain.execution.executor import Executor
from moot.offchain.native import buffers
from moot.offchain.planning.selections import Selection
from tests.fuzz import joined
from tests.fuzz.batches import make_rng
from tests.fuzz.compare import DifferenceError, Mode, check, define
from tests.fuzz.draws import Case
from tests.fuzz.large import check_large
from tests.fuzz.runs import check_run, define_run
from tests.fuzz.trial import draw_family_case

MODE = Mode(threads=2, is_fused=False, is_least=False)
FUSED = Mode(threads=2, is_fused=True, is_least=False)
LEAST = Mode(threads=2, is_fused=True, is_least=True)

Try = Callable[[Case, Random], None]


def try_run(case: Case, rng: Random) -> None:
    """Compare the steps of a run with their definition."""
    check_run(case, define_run(case), MODE, rng)


def try_step(case: Case, rng: Random) -> None:
    """Compare one step with its definition, fused."""
    check(case, define(case), FUSED, rng)


def try_soiled_step(case: Case, rng: Random) -> None:
    """Compare one step with its definition, where all memory is soiled as soon as it is free."""
    check(case, define(case), LEAST, rng)


def try_large(case: Case, rng: Random) -> None:
    """Compare drawn elements and all runs of a large case."""
    check_large(case, FUSED, rng)


def list_found(family: str, compare: Try, cases: int) -> Iterator[tuple[int, str]]:
    """Yield the numbers of the cases in which there is a difference, and which."""
    for number in range(cases):
        rng = make_rng(2026, number)
        case = draw_family_case(rng, family)
        try:
            compare(case, rng)
        except DifferenceError as difference:
            yield number, str(difference)


def leave_out(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    """Take a precondition of selections out, and what the kernel asserts of its count."""
    others = tuple(it for it in Selection.preconditions if it.name != name)
    monkeypatch.setattr(Selection, "preconditions", others)

    def find_any(x: Any, count: int) -> Any:
        places = np.empty((count, len(x)), np.int64)
        largest._find(np.ascontiguousarray(x), places, 0, len(x))
        return places

    monkeypatch.setattr(selections, "find_largest", find_any)


def test_more_rounds_than_columns_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """They differ within 40 cases, one of which agrees up to its second step."""
    leave_out(monkeypatch, "count")
    late = ("to step 1: ", "to step 8: ")  # of runs that begin with step 0 or 7
    lines = (line for _, line in list_found("rounds", try_run, 40))
    assert next((line for line in lines if any(it in line for it in late)), None)


@pytest.mark.slow
def test_counters_of_the_rounds_themselves_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """A plan that reads what it computes fails within 200 cases."""
    leave_out(monkeypatch, "earlier")
    assert next(list_found("rounds", try_run, 200), None)


def test_faults_of_joined_products_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """Products that fold another block of the rows between them differ in the first cases."""
    compute = back_to_back.compute_blocks
    calls = list[int]()

    def forget(*arguments: Any) -> Any:
        calls.append(len(arguments))
        return None if len(calls) % 2 else compute(*arguments)

    monkeypatch.setattr(back_to_back, "compute_blocks", forget)
    assert next(list_found("joined", try_step, 8), None)


def test_addresses_that_outlive_copies_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """Blocks of rows that read a mask's copy whose memory is free differ within 20 cases."""
    find = buffers.Addresses.of

    def forget(arrays: Any) -> buffers.Addresses:
        return buffers.Addresses((), find(arrays).words)

    monkeypatch.setattr(buffers.Addresses, "of", forget)
    slot = joined._Joined.slot

    def place(self: Any, shape: Any, variables: Any, name: str = "s") -> Any:
        monkeypatch.setattr(joined, "_ODD", int(name == "mask"))
        try:
            return slot(self, shape, variables, name)
        finally:
            monkeypatch.setattr(joined, "_ODD", 0)

    monkeypatch.setattr(joined._Joined, "slot", place)
    assert next(list_found("joined", try_soiled_step, 20), None)


@pytest.mark.slow
def test_faults_of_repeated_large_runs_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """An executor that is wrong in its fifth advance only is found by large cases."""
    advance, times = Executor.advance, dict[int, int]()

    def advance_wrongly(self: Executor, state: list[Any], *rest: Any) -> None:
        advance(self, state, *rest)
        times[id(self)] = times.get(id(self), 0) + 1
        if times[id(self)] == 5:
            state[0] = state[0] + np.ones((), state[0].dtype)

    monkeypatch.setattr(Executor, "advance", advance_wrongly)
    assert next(list_found("large", try_large, 2), None)
