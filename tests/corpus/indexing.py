"""Indexing, slicing, joining and rearranging, in the order of torch's manual."""

import torch
from torch import Tensor
from torch.nn.functional import l1_loss

from tests.corpus.rows import Row, ask, count, learn, ramp

X = ramp(4, 5)
Y = ramp(4, 5, seed=1)
CUBE = ramp(2, 4, 6)
ROW = torch.tensor([2, 0, 3])
PLACES = torch.tensor([[0, 2, 1, 3, 0], [3, 2, 1, 0, 0]])
MASK = X > 0
SOURCE = ramp(2, 5, seed=2)
THREE = ramp(3, 5, seed=3)
NUMBERS = count(3, 4, high=20)


def _reduce(name: str, *, include: bool) -> Row:
    def scatter(x: Tensor, source: Tensor, places: Tensor) -> Tensor:
        return x.scatter_reduce(0, places, source, name, include_self=include)

    return learn(
        f"scatter_reduce {name}{'' if include else ' without self'}",
        scatter,
        X + 2,
        SOURCE + 2,
        PLACES,
    )


def _index_reduce(name: str) -> Row:
    return learn(
        f"index_reduce {name}",
        lambda x, s, r: x.index_reduce(0, r, s, name),
        X + 2,
        THREE + 2,
        ROW,
    )


def _assign(x: Tensor) -> Tensor:
    y = x * 2
    y[1] = x[0]
    y[:, ::2] += 1
    y[..., -1] = 0.5
    return y


def _assign_mask(x: Tensor) -> Tensor:
    y = x * 2
    y[x > 0.3] = 0.0
    return y


PICKED: tuple[Row, ...] = (
    learn("slices", lambda x: (x[1:3, ::2], x[-1], x[..., None], x[:, 1]), X),
    learn("assignment to slices", _assign, X),
    learn("assignment to a mask", _assign_mask, X),
    learn("index by tensors", lambda x, r: (x[r], x[r, r], x[:, r]), X, ROW),
    learn("index_select", lambda x, r: x.index_select(0, r), X, ROW),
    learn("gather", lambda x, p: x.gather(0, p), X, PLACES),
    learn("take", lambda x, p: x.take(p), X, PLACES),
    learn("take_along_dim", lambda x, p: torch.take_along_dim(x, p, 0), X, PLACES),
    learn("select", lambda x: x.select(1, 2), X),
    learn("narrow", lambda x: x.narrow(1, 1, 3), X),
    learn("index_add", lambda x, s, r: x.index_add(0, r, s, alpha=2), X, THREE, ROW),
    learn("index_copy", lambda x, s, r: x.index_copy(0, r, s), X, THREE, ROW),
    learn("index_fill", lambda x, r: x.index_fill(0, r, 0.5), X, ROW),
    learn("index_put", lambda x, r: x.index_put((r,), x[:3] * 2), X, ROW),
    learn(
        "index_put accumulate",
        lambda x, s, p: x.index_put((p[:, 0],), s, accumulate=True),
        X,
        SOURCE,
        PLACES,
    ),
    _index_reduce("amax"),
    _index_reduce("mean"),
    _index_reduce("prod"),
    learn("scatter", lambda x, s, p: x.scatter(0, p[:, :1], s[:, :1]), X, SOURCE, PLACES),
    learn("scatter a number", lambda x, p: x.scatter(0, p, 0.5), X, PLACES),
    learn("scatter_add", lambda x, s, p: x.scatter_add(0, p, s), X, SOURCE, PLACES),
    *(_reduce(n, include=True) for n in ("sum", "prod", "mean", "amax", "amin")),
    *(_reduce(n, include=False) for n in ("sum", "prod", "mean", "amax", "amin")),
    learn("masked_fill", lambda x, m: x.masked_fill(m, -1.0), X, MASK),
    learn("masked_scatter", lambda x, s, m: x.masked_scatter(m, s), X, Y, MASK),
    learn(
        "masked_select", lambda x, y: (x.masked_select(x > 0) * y.masked_select(x > 0)).sum(), X, Y
    ),
    learn("index by a mask", lambda x, y: l1_loss(x[x > 0].exp(), y[x > 0]), X, Y),
    ask("index by a mask, as it is", lambda x: x[x > 0], X),
    learn("masked_select, a mean", lambda x: x.masked_select(x > 0).mean(), X),
    learn("index by a mask, a sum", lambda x: x[x > 0].square().sum(), X),
    learn("put", lambda x, s: x.put(torch.tensor([3, 1, 7]), s[0, :3]), X, SOURCE),
    learn("where of a mask", lambda x, m: torch.where(m, x, x * x), X, MASK),
    ask("unravel_index", lambda p: torch.unravel_index(p, (2, 3)), PLACES),
    learn("select_scatter", lambda x, y: x.select_scatter(y[0], 0, 1), X, Y),
    learn("slice_scatter", lambda x, y: x.slice_scatter(y[:2], 0, 1, 3), X, Y),
    learn("diagonal_scatter", lambda x, y: x.diagonal_scatter(y[0, :4]), X, Y),
)

JOINED: tuple[Row, ...] = (
    learn("cat", lambda x, y: torch.cat([x, y], 1), X, Y),
    learn("stack", lambda x, y: torch.stack([x, y], 1), X, Y),
    learn("hstack vstack dstack", lambda x, y: (torch.hstack((x, y)), torch.dstack((x, y))), X, Y),
    learn("column_stack", lambda x, y: torch.column_stack((x, y[:, 0])), X, Y),
    learn("chunk", lambda x: x.chunk(3, 1), X),
    learn("split", lambda x: x.split([1, 3], 0), X),
    learn("tensor_split", lambda x: torch.tensor_split(x, 3, 1), X),
    learn("unbind", lambda x: x.unbind(1), X),
    learn("block_diag", lambda x, y: torch.block_diag(x, y[:2]), X, Y),
    learn("cartesian_prod", lambda x, y: torch.cartesian_prod(x[0], y[0]), X, Y),
    learn("combinations", lambda x: torch.combinations(x[0]), X),
    learn("meshgrid", lambda x, y: torch.meshgrid(x[0], y[:, 0], indexing="ij"), X, Y),
    learn("repeat_interleave", lambda x: x.repeat_interleave(2, 0), X),
    learn(
        "repeat_interleave of counts",
        lambda x: x.repeat_interleave(torch.tensor([1, 0, 2, 1]), 0, output_size=4),
        X,
    ),
    ask(
        "repeat_interleave by data",
        torch.repeat_interleave,
        NUMBERS[0],
    ),
)

ARRANGED: tuple[Row, ...] = (
    learn("permute and movedim", lambda x: (x.permute(2, 0, 1), x.movedim(0, -1)), CUBE),
    learn("transpose, mT, swapaxes", lambda x: (x.mT, x.swapaxes(0, 2), x[0].t()), CUBE),
    learn("reshape, view, ravel", lambda x: (x.mT.reshape(8, 6), x.view(-1), x.ravel()), CUBE),
    learn("unflatten and flatten", lambda x: (x.unflatten(2, (2, 3)), x.flatten(1)), CUBE),
    learn("squeeze and unsqueeze", lambda x: (x[:, :1].squeeze(1), x.unsqueeze(0)), CUBE),
    learn("expand", lambda x: x[:, None].expand(4, 3, 5), X),
    learn("tile and repeat", lambda x: (x.tile(2), x.repeat(2, 1, 1)), X),
    learn("flip, fliplr, flipud", lambda x: (x.flip(0, 1), x.fliplr(), x.flipud()), X),
    learn("rot90", lambda x: torch.rot90(x, 1), X),
    learn("roll", lambda x: (x.roll(2, 1), x.roll(3)), X),
    learn("tril and triu", lambda x: (x.tril(-1), x.triu(1)), X),
    learn("diag", lambda x: (x.diag(), x[0].diag(1)), X),
    learn("diag_embed", torch.diag_embed, X),
    learn("diagonal", lambda x: x.diagonal(1, 0, 2), CUBE),
    learn("diagflat", torch.diagflat, X),
    learn("unfold", lambda x: x.unfold(1, 3, 2), X),
    learn("as_strided", lambda x: x.as_strided((2, 3), (1, 2)), X),
    ask("vander", lambda x: torch.vander(x[0]), X),
    learn("kron", torch.kron, X[:2, :3], Y[:3, :2]),
    learn("broadcast_tensors", lambda x, y: torch.broadcast_tensors(x, y[:1]), X, Y),
    learn("resize_as and clone", lambda x: x.clone().contiguous(), X),
    ask("tril_indices", lambda n: torch.tril_indices(3, 4) + n[0, 0], NUMBERS),
    ask("linspace and arange", lambda n: (torch.linspace(0, 1, 5), torch.arange(4) + n), NUMBERS),
    ask("logspace", lambda n: torch.logspace(0, 2, 4) + n, NUMBERS),
    ask(
        "full, zeros, eye",
        lambda n: (torch.full((2,), 1.5), torch.eye(4) + n[:, :1].sum()),
        NUMBERS,
    ),
    ask("hamming_window", lambda n: torch.hamming_window(4) + n, NUMBERS),
    ask("hann and kaiser", lambda n: torch.hann_window(4) + torch.kaiser_window(4) + n, NUMBERS),
)

ROWS = (*PICKED, *JOINED, *ARRANGED)
