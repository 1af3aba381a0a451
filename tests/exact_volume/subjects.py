"""What is tried: products, reductions and scatters by the engines of `exact` and of `logged`."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from unittest.mock import patch

import numpy as np
import numpy.typing as npt

from moot.offchain.arithmetic.functions import DType, Function
from moot.offchain.backends.cpu import exact, exact_products, products
from moot.offchain.backends.cpu.indexing import Integers
from moot.offchain.backends.cpu.kernels import bounded_sums
from moot.offchain.backends.cpu.logged import plans, stock
from moot.offchain.backends.cpu.logged.plans import Journaled, plan_logged
from moot.offchain.programs.graph import Kind, Node, Operand, Origin, Row
from tests.exact_volume.families import FAMILIES, draw_init
from tests.exact_volume.oracle import sum_products

Floats = npt.NDArray[np.float32]
Doubles = npt.NDArray[np.float64]

F32 = DType.FLOAT32
MOST_TERMS = 20
LONGEST = 50_257
"""The most terms of a sum: what a product with the vocabulary of GPT-2 has."""

_LONG_ONES = 32
"""One draw in so many has sums of more than `MOST_TERMS` terms, at all scales up to `LONGEST`."""

_LONG_TERMS = 1 << 19
"""The terms of all sums of such a draw, of which there are fewer."""

_WIDTH = 64
_FEW = 8


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
    """Return factors of some family, with any number of terms; long sums of fewer rows."""
    weights = [weight for weight, _ in FAMILIES.values()]
    draw = list(FAMILIES.values())[rng.choice(len(FAMILIES), p=weights)][1]
    terms = int(rng.integers(1, MOST_TERMS + 1))
    if rng.integers(_LONG_ONES) == 0:
        terms = round(MOST_TERMS * (LONGEST / MOST_TERMS) ** rng.random())
        columns = min(columns, max(1, int((_LONG_TERMS / terms) ** 0.5)))
        rows = min(rows, max(1, _LONG_TERMS // (terms * columns)))
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
    """Scatter rows of terms, of which some are in doubt as sums of rows."""
    source, targets, flat, init = _draw_scatter(rng, _WIDTH)
    out = init.copy()
    exact.scatter_rows(out, targets, flat)
    none, doubtful = np.full(init.shape, np.nan), np.empty(init.size, np.bool_)
    rows = np.ascontiguousarray(source.reshape(-1, source.shape[2]))
    bounded_sums.sum_rows(rows, init.reshape(-1), np.empty(init.size, np.float32), doubtful)
    return _sort_scatter(source, init, none, none, out, int(np.count_nonzero(doubtful)))


def _draw_scatter(rng: np.random.Generator, count: int) -> tuple[Floats, Integers, Floats, Floats]:
    """Return terms, (targets, columns, terms), as rows to scatter, and what the sums begin with."""
    a, b = draw_factors(rng, count, _WIDTH)
    source = (a[:, None] * b).astype(np.float32)
    rows, columns, terms = source.shape
    order = rng.permutation(rows * terms)
    targets = np.repeat(np.arange(rows), terms)[order]
    flat = np.ascontiguousarray(source.transpose(0, 2, 1).reshape(-1, columns)[order])
    return source, targets, flat, draw_init(rng, source.astype(np.float64).sum(2))


def _sort_scatter(source: Floats, *arrays: Any) -> Sample:
    """Return a scatter as sums of products by one."""
    *tables, doubtful = arrays
    init, sums, bounds, out = (table.reshape(-1, 1) for table in tables)
    terms = source.shape[2]
    ones = np.ones((1, terms), np.float32)
    return Sample(source.reshape(-1, terms), ones, init, sums, bounds, out, doubtful)


def try_logged_products(rng: np.random.Generator) -> Sample:
    """Multiply two matrices in `logged`."""
    a, b = draw_factors(rng, _WIDTH, _WIDTH)
    with np.errstate(all="ignore"):
        init = draw_init(rng, a.astype(np.float64) @ b.T.astype(np.float64))
    operands = (_read(init, 0, 0, 1), _read(a, 1, 0, 2), _read(b, 2, 1, 2))
    node = Node(Kind.CONTRACT, Function.FMA, F32, init.shape, operands, a.shape[1:])
    return Sample(a, b, init, *_run_logged(rng, node, (init, a, b)))


def try_logged_reductions(rng: np.random.Generator) -> Sample:
    """Sum rows in `logged`."""
    a, b = draw_factors(rng, _WIDTH * _WIDTH, 1)
    with np.errstate(all="ignore"):
        x = (a * b).astype(np.float32)
        init = draw_init(rng, x.astype(np.float64).sum(1))
    operands = (_read(init, 0, 0), _read(x, 1, 0, 1))
    node = Node(Kind.REDUCE, Function.ADD, F32, init.shape, operands, x.shape[1:])
    sums, bounds, out, doubtful = _run_logged(rng, node, (init, x))
    columns = (table[:, None] for table in (init, sums, bounds, out))
    return Sample(x, np.ones((1, x.shape[1]), np.float32), *columns, doubtful)


def try_logged_scatters(rng: np.random.Generator) -> Sample:
    """Scatter rows of terms in `logged`."""
    with np.errstate(all="ignore"):
        source, targets, flat, init = _draw_scatter(rng, _FEW)
    operands = (_read(init, 0, 0, 1), _read(flat, 1, 2, 1), _read(targets, 2, 2))
    node = Node(Kind.SCATTER, Function.ADD, F32, init.shape, operands, targets.shape, targets=(0,))
    return _sort_scatter(source, init, *_run_logged(rng, node, (init, flat, targets)))


def _read(tensor: npt.NDArray[Any], reference: int, *variables: int) -> Operand:
    """Return an operand that reads a tensor of the state by these variables."""
    rows = tuple(Row(n, 0, ((v, 1),)) for n, v in zip(tensor.shape, variables, strict=True))
    dtype = DType.INT64 if tensor.dtype == np.int64 else F32
    return Operand(Origin.STATE, dtype, reference, 0, rows)


def _run_logged(
    rng: np.random.Generator, node: Node, flats: Sequence[npt.NDArray[Any]]
) -> tuple[Doubles, Doubles, Floats, int]:
    """Return what the engine makes of an operator without a log, as it is asked for in a sample.

    The errors of sums that begin with something are not looked at: the oracle leaves that out.
    """
    plan, noted = plan_logged(node), []
    assert isinstance(plan, Journaled)

    def note(results: Doubles, error: Doubles, exact: Any) -> Any:
        noted.append((len(results), np.where(exact, np.nan, results), error))
        return find_boundaries(results, error, exact)

    find_boundaries = plans.find_boundaries
    chunk = patch.object(stock, "CHUNK", int(rng.choice([3, 128])))
    with np.errstate(all="ignore"), chunk, patch.object(plans, "find_boundaries", note):
        tensors = [np.ascontiguousarray(flat) for flat in flats]
        out = plan.run(tensors, 0)
        doubtful = noted[0][0] if noted else 0
        plan._judge(np.arange(node.elements), tensors)
    _, sums, error = noted[-1]
    sums = np.where(flats[0].reshape(-1) == 0, sums, np.nan)
    return sums.reshape(node.shape), error.reshape(node.shape), out, doubtful


SUBJECTS: Mapping[str, Callable[[np.random.Generator], Sample]] = {
    "product": try_products,
    "reduction": try_reductions,
    "scatter": try_scatters,
    "logged product": try_logged_products,
    "logged reduction": try_logged_reductions,
    "logged scatter": try_logged_scatters,
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
