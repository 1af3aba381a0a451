"""Large volumes of sums that round once: bounds hold, results are right, the oracle is, too."""

from dataclasses import replace

import numpy as np
import pytest

from tests.exact_volume import subjects, volume
from tests.exact_volume.families import FAMILIES
from tests.exact_volume.oracle import sum_products
from tests.exact_volume.subjects import SUBJECTS, judge
from tests.unit.test_arithmetic_exact import get_bits, make_hostile, sum_up

each_operation = pytest.mark.parametrize("name", SUBJECTS)


@pytest.mark.parametrize("terms", [1, 4, 11])
def test_the_oracle_is_the_definition(terms: int) -> None:
    """Integers in limbs give the sums that integers of any size give, hostile ones among them."""
    rng = np.random.default_rng(terms)
    a, b, init = (make_hostile(rng, shape) for shape in ((20, terms), (9, terms), (20, 9)))
    half = terms // 2
    a[::2, half : 2 * half], b[:, half : 2 * half] = -a[::2, :half], b[:, :half]
    results, errors, sums = np.empty(init.shape, np.uint32), *np.full((2, 20, 9), np.nan)
    sum_products(*(x.view(np.uint32) for x in (a, b, init)), sums.view(np.uint64), results, errors)
    for m, n in np.ndindex(init.shape):
        products = [(get_bits(x), get_bits(y)) for x, y in zip(a[m], b[n], strict=True)]
        assert results[m, n] == sum_up(get_bits(init[m, n]), products)


def test_the_oracle_knows_distances() -> None:
    """The distance of a sum from the exact one is what was added to it."""
    a, b = np.float32([[3, -(2.0**-20)]]), np.float32([[2.0**30, 1]])
    for off in (0.0, 2.0**-20, -(2.0**-12), 5.0):
        sums = np.array([[3 * 2.0**30 - 2.0**-20 + off]])
        results, errors = np.empty((1, 1), np.uint32), np.empty((1, 1))
        bits = (x.view(np.uint32) for x in (a, b, np.zeros((1, 1), np.float32)))
        sum_products(*bits, sums.view(np.uint64), results, errors)
        assert abs(off) <= errors[0, 0] <= abs(off) * (1 + 2.0**-49)


def test_shares_add_up() -> None:
    """Every family is among the samples."""
    assert sum(share for share, _ in FAMILIES.values()) == pytest.approx(1)


@each_operation
def test_a_part_of_the_volume(name: str) -> None:
    """Samples that are not those of the record come out right, within the bounds."""
    found = volume.try_piece(name, 1, 0)
    assert found.results >= volume.PIECE
    assert (found.wrong, found.beyond) == (0, 0)
    assert found.doubtful > 0


@pytest.mark.slow
@each_operation
def test_a_larger_part_of_the_volume(name: str) -> None:
    """A million others do, too."""
    found = volume.measure(name, 2, 1_000_000, 1)
    assert (found.wrong, found.beyond) == (0, 0)


@pytest.mark.slow
@each_operation
def test_the_record_is_of_this_code(name: str) -> None:
    """Today's kernels were tried on 10^8 results of each operation or more, and none was wrong."""
    record = volume.load()[name]
    assert record["code"] == volume.get_code(name), "the kernels have changed: try them again"
    assert record["results"] >= 100_000_000
    assert (record["wrong"], record["beyond"]) == (0, 0)


@pytest.mark.parametrize("name", ["product", "logged product"])
def test_what_is_wrong_is_seen(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A flipped bit counts as wrong, and a bound that is a thousand times smaller as broken."""
    wide = "wide exponents"
    monkeypatch.setattr(subjects, "FAMILIES", {wide: (1.0, FAMILIES[wide][1])})
    samples = (SUBJECTS[name](np.random.default_rng(seed)) for seed in range(100))
    sample = next(x for x in samples if not x.init.any() and x.a.shape[1] > 8)
    assert judge(sample).wrong == 0
    spoilt = sample.results.copy()
    spoilt.view(np.uint32)[3, 5] ^= 1
    assert judge(replace(sample, results=spoilt)).wrong == 1
    assert judge(replace(sample, bounds=sample.bounds / 1000)).beyond > 0
