"""Reductions, cumulative folds, sorting and counting."""

import torch

from tests.corpus.rows import Row, ask, count, learn, ramp

X = ramp(4, 5, low=-3, high=3)
Y = ramp(4, 5, low=-3, high=3, seed=1)
P = ramp(3, 4, low=0.2, high=2)
CUBE = ramp(2, 3, 4)
HOLES = torch.where(X > 2, torch.nan, X)
N = count(3, 6, high=4)
T = X > 0

FOLDS: tuple[Row, ...] = (
    learn("sum", lambda x: (x.sum(), x.sum(0), x.sum((0, 1), keepdim=True)), X),
    learn("mean", lambda x: (x.mean(), x.mean(1)), X),
    learn("prod", lambda x: (x.prod(), x.prod(1)), P),
    learn("amax and amin", lambda x: (x.amax(1), x.amin((0, 1))), X),
    learn("aminmax", lambda x: torch.aminmax(x, dim=1), X),
    learn("max", lambda x: (x.max(), *x.max(1)), X),
    learn("min", lambda x: (x.min(), *x.min(0)), X),
    learn("dist", torch.dist, X, Y),
    learn("logsumexp", lambda x: torch.logsumexp(x, 1), X),
    learn("norm", lambda x: (x.norm(), x.norm(p=1, dim=1), x.norm(p=3, dim=0)), X),
    learn("std", lambda x: (x.std(), x.std(1, correction=0)), X),
    learn("std_mean", lambda x: torch.std_mean(x, 1), X),
    learn("var", lambda x: (x.var(), x.var(1)), X),
    learn("var_mean", lambda x: torch.var_mean(x, 0), X),
    learn("nansum", lambda x: torch.nansum(torch.where(x > 2, torch.nan, x), 1), X),
    learn("nanmean", lambda x: torch.nanmean(torch.where(x > 2, torch.nan, x), 1), X),
    learn("median", lambda x: (x.median(), *x.median(1)), X),
    learn("nanmedian", lambda x: torch.where(x > 2, torch.nan, x).nanmedian(1), X),
    learn("quantile", lambda x: torch.quantile(x, torch.tensor([0.2, 0.75]), 1), X),
    learn("nanquantile", lambda x: torch.nanquantile(x, 0.3, 1), X),
    learn("kthvalue", lambda x: x.kthvalue(2, 1), X),
    learn("renorm", lambda x: torch.renorm(x, 2, 0, 1.5), X),
    learn("trace", lambda x: x[:, :4].trace(), X),
    ask("mode", lambda n: torch.mode(n, 1), N),
    ask("all and any", lambda t: (t.all(), t.any(1), t.all(0)), T),
    ask("argmax and argmin", lambda x: (x.argmax(), x.argmax(1), x.argmin(0, keepdim=True)), X),
    ask("count_nonzero", lambda n: torch.count_nonzero(n, 1), N),
    ask("integer sum and prod", lambda n: (n.sum(), n.prod(1), n.max(1), n.cumsum(0)), N),
    ask("unique", torch.unique, N),
    ask("unique_consecutive", torch.unique_consecutive, N),
    ask("nonzero", torch.nonzero, N),
    ask("argwhere", torch.argwhere, N),
    ask("bincount", lambda n: torch.bincount(n.flatten(), minlength=10), N),
    ask("histc", lambda x: torch.histc(x, 4, -3, 3), X),
    ask("histogram", lambda x: torch.histogram(x, 4, range=(-3, 3)), X),
    ask("hash_tensor", torch.hash_tensor, N),
)

CUMULATIVE: tuple[Row, ...] = (
    learn("cumsum", lambda x: x.cumsum(1), X),
    learn("cumprod", lambda x: x.cumprod(0), P),
    learn("cummax", lambda x: x.cummax(1), X),
    learn("cummin", lambda x: x.cummin(0), X),
    learn("logcumsumexp", lambda x: x.logcumsumexp(1), X),
    learn("diff", lambda x: torch.diff(x, n=2), X),
    learn("cumulative_trapezoid", lambda x: torch.cumulative_trapezoid(x, dim=1), X),
    learn("trapezoid", lambda x: torch.trapezoid(x, dim=1), X),
)

SORTED: tuple[Row, ...] = (
    learn("sort", lambda x: x.sort(1), X),
    learn("sort descending", lambda x: x.sort(0, descending=True), X),
    learn("msort", torch.msort, X),
    learn("topk", lambda x: x.topk(2, 1), X),
    learn("topk smallest", lambda x: x.topk(2, 1, largest=False), X),
    ask("argsort", lambda x: x.argsort(1), X),
    ask("sort with nan", lambda x: x.sort(1), HOLES),
    ask("sort of ties", lambda n: n.sort(dim=1, stable=True), N),
    ask("searchsorted", lambda x: torch.searchsorted(x.sort(1)[0], Y), X),
    ask("bucketize", lambda x: torch.bucketize(x, torch.tensor([-2.0, 0.0, 1.0])), X),
)

STATISTICS: tuple[Row, ...] = (
    learn("cov", torch.cov, X),
    learn("corrcoef", torch.corrcoef, X),
    learn("softmax over two axes", lambda x: x.flatten(1).softmax(1).reshape(x.shape), CUBE),
)

ROWS = (*FOLDS, *CUMULATIVE, *SORTED, *STATISTICS)
