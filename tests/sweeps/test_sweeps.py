"""The sweeps: their records are of today's code, and a sweep finds a wrong result."""

import json
from pathlib import Path

import numpy as np
import pytest

from moot.offchain.arithmetic.functions import Function
from moot.offchain.native import vectors
from moot.offchain.native.transcendental import constants, pieces
from moot.offchain.native.transcendental import functions as transcendental
from moot.offchain.native.transcendental.constants import EXCEPTIONS
from moot.offchain.native.transcendental.functions import FUNCTIONS, emit
from tests.quick import every, only
from tests.sweeps import coefficients, records, sweep
from tests.sweeps.compare import (
    SWEPT,
    Findings,
    Patterns,
    can_sweep,
    compare,
    compile_for_lanes,
    compute,
    get_computation,
)
from tests.sweeps.filters import ERROR
from tests.sweeps.oracle import get_distance, round_exactly
from tests.sweeps.records import ALL, Record, get_code, load
from tests.sweeps.validate import draw_operands, measure_error

ONE = 0x3F800000


@pytest.mark.parametrize("name", SWEPT)
def test_the_record_is_of_all_operands_and_of_this_code(name: str) -> None:
    """All 2^32 operands of what is compiled today have been tried, and none came out wrong."""
    record = load()[name]
    assert record.code == get_code(name), f"the formula has changed: sweep {name} again"
    assert record.is_complete
    assert record.findings.mismatches == 0


@pytest.mark.parametrize("count", only({1 << 18}, [1 << 18, 1 << 20]))
@pytest.mark.parametrize("name", every(32, SWEPT))
def test_a_part_of_the_sweep(name: str, count: int) -> None:
    """The hardest operands known, and many others, come out right."""
    hard = [operand for _, operand in load()[name].findings.hard]
    others = np.random.default_rng(0).integers(0, ALL, count, np.uint32)
    operands = np.concatenate([others, np.array(hard, np.uint32)])
    if not can_sweep(name):
        pytest.skip("kernels have no registers of 512 bits here")
    found = compare(SWEPT[name], operands, get_computation(name))
    assert (found.inputs, found.mismatches) == (operands.size, 0)
    assert found.decided_by_mpfr >= len(hard)


@pytest.mark.slow
@pytest.mark.parametrize("name", SWEPT)
def test_all_operands_of_one_exponent(name: str) -> None:
    """Each of the 2^23 operands from 1 to 2 comes out right."""
    if not can_sweep(name):
        pytest.skip("kernels have no registers of 512 bits here")
    found = sweep.sweep_range(name, ONE, ONE + 2**23, threads=2)
    assert (found.inputs, found.mismatches) == (2**23, 0)


@pytest.mark.parametrize("function", every(6, sorted(set(SWEPT.values()))))
def test_filters_err_by_less_than_they_say(function: Function) -> None:
    """A filter's error is far below the margin inside which MPFR decides."""
    assert measure_error(function, draw_operands(function, 1000, seed=0)) < ERROR


@pytest.mark.parametrize(
    ("function", "name"),
    every(
        6,
        [
            (Function.EXP, "EXP_TAIL"),
            (Function.ERFC, "COSH_TAIL"),
            (Function.ERFC, "SINH_TAIL"),
        ],
    ),
)
def test_a_wrong_coefficient_is_found(
    function: Function, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A coefficient that is off by a millionth makes some results wrong, and the sweep sees it."""
    operands = np.arange(ONE, ONE + 2**16, dtype=np.uint32)
    right = compile_for_lanes(function, 16)
    assert compare(function, operands, lambda _, x: right(x)).mismatches == 0

    first, second, *rest = getattr(constants, name)
    monkeypatch.setattr(pieces, name, (first, second * (1 + 1e-6), *rest))
    wrong = compile_for_lanes(function, 16)
    found = compare(function, operands, lambda _, x: wrong(x))
    assert found.mismatches > 0
    operand, result, correct = found.examples[0]
    assert correct == round_exactly(function, operand) != result


@pytest.mark.parametrize("function", every(6, sorted(EXCEPTIONS)))
def test_exceptions_are_needed(function: Function, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without the list of exceptions, the results of just these operands are wrong."""
    monkeypatch.setattr(transcendental, "EXCEPTIONS", {})
    formula = compile_for_lanes(function, 16)
    operands = np.array(sorted(EXCEPTIONS[function]), np.uint32)
    found = compare(function, operands, lambda _, x: formula(x))
    assert {x: right for x, _, right in found.examples} == EXCEPTIONS[function]


def test_one_wrong_bit_is_found() -> None:
    """Of any kind of operand, a result that differs in its last bit is reported."""
    special = [0, 0x80000000, 0x7F800000, 0x7FC00001, 0xC0000000, 1, ONE, 0x3DCCCCCD]
    operands = np.array(special, np.uint32)
    for place, operand in enumerate(special):

        def spoil(function: Function, patterns: Patterns, place: int = place) -> Patterns:
            results = compute(function, patterns)
            results[place] ^= 1
            return results

        found = compare(Function.LOG, operands, spoil)
        assert [example[0] for example in found.examples] == [operand]
        assert found.mismatches == 1


def test_distances_are_measured_from_half_way() -> None:
    """2^-150 is half way between 0 and the least number; 1 is half an ulp from where it is not."""
    assert get_distance(Function.EXP2, 0xC3160000) == 0
    assert get_distance(Function.EXP, 0) == 0.5
    assert get_distance(Function.SQRT, 0xBF800000) is None


def test_the_coefficients_are_what_they_are_said_to_be() -> None:
    """Interpolation at the Chebyshev points gives the numbers that the kernels use."""
    computed = coefficients.compute()
    assert {n: getattr(constants, n) for n in computed} == computed


@pytest.mark.parametrize("function", every(16, sorted(FUNCTIONS)))
def test_the_width_of_vectors_changes_nothing(function: Function) -> None:
    """Vectors of 16, 8 and 4 lanes, which LLVM splits as it likes, give the same bits."""
    operands = np.random.default_rng(1).integers(0, ALL, 4096, np.uint32)
    expected = compute(function, operands).tolist()
    for lanes in {16, 8, 4} - {vectors.LANES}:
        assert compile_for_lanes(function, lanes, emit)(operands).tolist() == expected


def test_other_code_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    """The digest in a record changes with a coefficient, and not from one call to the next."""
    before = records.emit_text(Function.EXP)
    assert records.emit_text(Function.EXP) == before
    monkeypatch.setattr(pieces, "LN2_LOW", 0.0)
    assert records.emit_text(Function.EXP) != before


def test_a_sweep_goes_on_where_it_stopped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is recorded is not tried again, unless it was found for other code."""
    path, tried = tmp_path / "results.json", []

    def sweep_range(name: str, first: int, stop: int, threads: int) -> Findings:
        assert (name, threads) == ("exp", 1)
        tried.append((first, stop))
        return Findings(stop - first, hard=[(0.25, first)])

    monkeypatch.setattr(sweep, "sweep_range", sweep_range)
    monkeypatch.setattr(sweep, "load", lambda: load(path))
    monkeypatch.setattr(sweep, "save", lambda name, record: records.save(name, record, path))
    records.save("exp", Record(get_code("exp"), 1.5, Findings(ALL - 2**26 - 5)), path)
    assert sweep.sweep("exp", 1, lambda _: None).is_complete
    assert tried == [(ALL - 2**26 - 5, ALL - 5), (ALL - 5, ALL)]
    assert load(path)["exp"].findings.hard == [(0.25, ALL - 2**26 - 5), (0.25, ALL - 5)]

    tried.clear()
    assert sweep.sweep("exp", 1, lambda _: None).is_complete
    assert tried == []
    records.save("exp", Record("other code", 1.5, Findings(ALL)), path)
    assert sweep.sweep("exp", 1, lambda _: None).is_complete
    assert tried[0] == (0, 2**26)


def test_the_command_line(capsys: pytest.CaptureFixture[str]) -> None:
    """A part of a sweep as a table and as JSON; a name or a range that means nothing is refused."""
    assert sweep.main(["exp", "tan", "--range", "0x3f800000:0x3f800100", "--threads", "1"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[:2] for line in lines[1:]] == [["exp", "256"], ["tan", "256"]]
    assert sweep.main(["exp", "--range", "0:7", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["exp"]["findings"]["inputs"] == 7
    for wrong in (["sine"], ["exp", "--range", "5:5"]):
        with pytest.raises(SystemExit):
            sweep.main(wrong)
