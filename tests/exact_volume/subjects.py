"""What is tried: products, reductions and scatters as the engine of `exact` computes them."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from unittest.mock import patch

import numpy as np
import numpy.typing as npt

from offchain.execution import exact, exact_products, products
from offchain.execution.kernels import bounded_sums, exact_sums
from tests.exact_volume.families import FAMILIES, draw_init
from tests.exact_volume.oracle import sum_products

Floats = npt.NDArray[np.float32]
Doubles = npt.NDArray[np.float64]

MOST_TERMS = 20
_WIDTH = 64


@dataclass(frozen=True, slots=True)
class Sample:
    """Some sums: what was computed, and what it was computed of.

    Attributes:
        a, b: (M, K), (N, K) float32: the factors.
        init: (M, N) float32: the initial terms.
        sums: (M, N) binary64: sums without the initial terms; NaN where there is none.
        bounds: (M, N) binary64: what bounds the sums' errors.
        results: (M, N) float32: the results.
        doubtful: how many of them the bound left in doubt.
    """

    a: Floats
    b: Floats
    init: Floats
    sums: Doubles
    bounds: Doubles
    results: Floats
    doubtful: int


def draw_factors(rng: np.random.Generator, rows: int, columns: int) -> tuple[Floats, Floats]:
    """Return factors of some family, with any number of terms."""
    weights = [weight for weight, _ in FAMILIES.values()]
    draw = list(FAMILIES.values())[rng.choice(len(FAMILIES), p=weights)][1]
    terms = int(rng.integers(1, MOST_TERMS + 1))
    with np.errstate(all="ignore"):
        return draw(rng, (rows, terms), (columns, terms))


@np.errstate(all="ignore")
def try_products(rng: np.random.Generator) -> Sample:
    """Multiply two matrices, and note the sums and the bounds that were used."""
    a, b = draw_factors(rng, _WIDTH, _WIDTH)
    init = draw_init(rng, a.astype(np.float64) @ b.T.astype(np.float64))
    out = np.empty(init.shape, np.float32)
    noted: list[tuple[Doubles, Doubles, int]] = []

    def note(sums: Doubles, rows: Doubles, columns: Doubles, *others: Floats) -> None:
        round_sums(sums, rows, columns, *others)
        bounds = rows[:, :, None] * columns[:, None]
        noted.append((sums[0], bounds[0], int(np.count_nonzero(others[-1]))))

    round_sums = exact_products.round_sums
    depth = patch.object(products, "_DEPTH", int(rng.choice([5, 512])))
    with depth, patch.object(exact_products, "round_sums", note):
        exact_products.multiply(a[None], b.T[None], init[None], out[None])
    sums, bounds = (np.concatenate(parts) for parts in list(zip(*noted, strict=True))[:2])
    return Sample(a, b, init, sums, bounds, out, sum(count for *_, count in noted))


@np.errstate(all="ignore")
def try_reductions(rng: np.random.Generator) -> Sample:
    """Sum rows that lie in memory either way; the bound is tried on numpy's sums of them."""
    a, b = draw_factors(rng, _WIDTH * _WIDTH, 1)
    x = (a * b).astype(np.float32)
    wide = x.astype(np.float64)
    if rng.random() < 0.5:
        x = np.asfortranarray(x)
    sums, terms = wide.sum(1), x.shape[1]
    bounds = bounded_sums.compute_reach(terms + 1, terms + 1) * np.abs(wide).sum(1)
    init = draw_init(rng, sums)
    results, doubtful = np.empty(len(x), np.float32), np.empty(len(x), np.bool_)
    bounded_sums.sum_rows(x, init, results, doubtful)
    return Sample(
        np.ascontiguousarray(x),
        np.ones((1, terms), np.float32),
        init[:, None],
        sums[:, None],
        bounds[:, None],
        exact.fold_rows(x, init)[:, None],
        int(np.count_nonzero(doubtful)),
    )


@np.errstate(all="ignore")
def try_scatters(rng: np.random.Generator) -> Sample:
    """Scatter rows of terms; each target's terms are put side by side for the oracle."""
    a, b = draw_factors(rng, _WIDTH, _WIDTH)
    terms = a.shape[1]
    source = (a[:, None] * b).astype(np.float32)  # targets, columns, terms
    order = rng.permutation(_WIDTH * terms)
    targets = np.repeat(np.arange(_WIDTH), terms)[order]
    flat = source.transpose(0, 2, 1).reshape(-1, _WIDTH)[order]
    init = draw_init(rng, source.astype(np.float64).sum(2))
    out = init.copy()
    left = exact_sums.scatter_sums(targets, np.ascontiguousarray(flat), out)
    out = init.copy()
    exact.scatter_rows(out, targets, flat)
    none = np.full((_WIDTH * _WIDTH, 1), np.nan)
    return Sample(
        source.reshape(-1, terms),
        np.ones((1, terms), np.float32),
        init.reshape(-1, 1),
        none,
        none,
        out.reshape(-1, 1),
        len(left),
    )


SUBJECTS: Mapping[str, Callable[[np.random.Generator], Sample]] = {
    "product": try_products,
    "reduction": try_reductions,
    "scatter": try_scatters,
}
"""Every operation of which sums are rounded once."""


@dataclass(slots=True)
class Judgement:
    """What the oracle says of some sums.

    Attributes:
        results: how many there were.
        wrong: how many results were not the rounded exact sum.
        beyond: how many binary64 sums were farther from it than their bound.
        doubtful: how many results the bound left in doubt.
        closest: the largest error, as a share of its bound.
    """

    results: int = 0
    wrong: int = 0
    beyond: int = 0
    doubtful: int = 0
    closest: float = 0.0

    def add(self, other: "Judgement") -> None:
        """Take in what is said of other sums."""
        self.results += other.results
        self.wrong += other.wrong
        self.beyond += other.beyond
        self.doubtful += other.doubtful
        self.closest = max(self.closest, other.closest)


def judge(sample: Sample) -> Judgement:
    """Compare results, sums and bounds with exact arithmetic."""
    right = np.empty(sample.results.shape, np.uint32)
    errors = np.empty(sample.results.shape)
    a, b, init = (x.view(np.uint32) for x in (sample.a, sample.b, sample.init))
    sum_products(a, b, init, sample.sums.view(np.uint64), right, errors)
    known = np.isfinite(errors) & np.isfinite(sample.bounds)
    error, bound = errors[known], sample.bounds[known]
    shares = error[bound > 0] / bound[bound > 0]
    return Judgement(
        right.size,
        int(np.count_nonzero(sample.results.view(np.uint32) != right)),
        int(np.count_nonzero(error > bound)),
        sample.doubtful,
        float(shares.max(initial=0)),
    )
