"""Lazy views against torch's own strides, and rows against the views that they address."""

from itertools import product
from math import prod

import torch
from hypothesis import example, given, settings
from hypothesis import strategies as st

from moot.offchain.arithmetic.functions import DType
from moot.offchain.frontend.lowering import views
from moot.offchain.frontend.lowering.builder import identity
from moot.offchain.frontend.lowering.views import View
from moot.offchain.programs.graph import Operand, Origin, Row
from tests.quick import share

shapes = st.lists(st.integers(1, 4), min_size=1, max_size=4).map(tuple)


def number(shape: tuple[int, ...]) -> tuple[View, torch.Tensor]:
    """Return an operator's output as a view, and the same tensor holding its element indices."""
    elements = torch.arange(prod(shape)).reshape(shape)
    return views.whole(DType.INT64, shape, 0), elements


@st.composite
def rearranged(draw: st.DrawFn) -> tuple[View, torch.Tensor]:
    """Draw a view after a few rearrangements, and what torch makes of the same ones."""
    view, tensor = number(draw(shapes))
    for _ in range(draw(st.integers(0, 4))):
        rank = len(view.shape)
        dim = draw(st.integers(0, rank - 1)) if rank else 0
        size = view.shape[dim] if rank else 1
        match draw(st.sampled_from(["cut", "cut", "permute", "flip", "drop", "insert", "expand"])):
            case "permute":
                order = draw(st.permutations(range(rank)))
                view, tensor = views.permute(view, order), tensor.permute(order)
            case "expand" if rank < 6:
                shape = (draw(st.integers(1, 3)), *view.shape)
                view, tensor = views.expand(view, shape), tensor.expand(shape)
            case "cut" if rank:
                start = draw(st.integers(0, size - 1))
                stop, step = draw(st.integers(start + 1, size)), draw(st.integers(1, 2))
                view = views.cut(view, dim, start, len(range(start, stop, step)), step)
                tensor = tensor[(slice(None),) * dim + (slice(start, stop, step),)]
            case "flip" if rank:
                view, tensor = views.cut(view, dim, size - 1, size, -1), tensor.flip(dim)
            case "drop" if rank > 1:
                index = draw(st.integers(0, size - 1))
                view, tensor = views.drop(view, dim, index), tensor.select(dim, index)
            case "insert" if rank < 6:
                view, tensor = views.insert(view, dim), tensor.unsqueeze(dim)
    return view, tensor


@given(rearranged())
def test_views_see_what_torch_sees(pair: tuple[View, torch.Tensor]) -> None:
    """A rearranged view has torch's shape, and one row addresses torch's element at every index."""
    view, tensor = pair
    assert view.shape == tuple(tensor.shape)
    rows = views.flatten(view, identity(view.shape), view.shape)
    assert rows is not None
    assert len(rows) <= 1
    operand = Operand(Origin.NODE, DType.INT64, rows=rows)
    for place in product(*map(range, view.shape)):
        assert operand.index(place) == tensor[place].item()


@given(rearranged(), st.data())
def test_reshape_succeeds_where_torch_views(
    pair: tuple[View, torch.Tensor], data: st.DataObject
) -> None:
    """Strides can say a reshape exactly where torch's view can, and then they agree on elements."""
    view, _ = pair
    factors = [f for size in view.shape for f in _factors(size)]
    order = data.draw(st.permutations(factors))
    cuts = sorted(data.draw(st.lists(st.integers(0, len(order)), max_size=3)))
    shape = tuple(prod(order[a:b]) for a, b in zip([0, *cuts], [*cuts, len(order)], strict=True))
    found = views.reshape(view, shape)
    if any(stride < 0 for stride in view.strides):
        return
    strided = torch.arange(view.size).as_strided(view.shape, view.strides, view.offset)
    try:
        expected = strided.view(shape)
    except RuntimeError:
        assert found is None
        return
    assert found is not None
    strides = [s for n, s in zip(shape, found.strides, strict=True) if n != 1]
    assert strides == [s for n, s in zip(shape, expected.stride(), strict=True) if n != 1]


def _factors(size: int) -> list[int]:
    return [2, 2] if size == 4 else [size]


@st.composite
def accesses(draw: st.DrawFn) -> tuple[View, list[Row], tuple[int, ...]]:
    """Draw a view, coordinates of which some may leave it, and the extents of their variables."""
    view, _ = draw(rearranged())
    extents = [*view.shape, draw(st.integers(1, 3))]
    rows = identity(view.shape)
    for dim, size in enumerate(view.shape):
        if draw(st.integers(0, 2)):
            continue
        terms = {dim: draw(st.sampled_from([1, 1, 2, -1]))}
        if draw(st.booleans()):
            terms[len(view.shape)] = draw(st.sampled_from([1, -1, 2]))
        offset, divisor = draw(st.integers(-2, 2)), draw(st.sampled_from([1, 1, 2]))
        rows[dim] = Row(size, offset, tuple(sorted(terms.items())), divisor)
        extents[dim] = draw(st.integers(1, 4))
    return view, rows, tuple(extents)


SHORT = views.cut(number((5,))[0], 0, 0, 2)
MIDDLE = views.cut(number((4,))[0], 0, 1, 2)
PADDED = [Row(2, -1, ((0, 1),))]


@settings(max_examples=share(400))
@given(accesses())
@example((SHORT, PADDED, (4,)))
@example((MIDDLE, PADDED, (4,)))
def test_rows_are_exact(access: tuple[View, list[Row], tuple[int, ...]]) -> None:
    """Rows address the view's element where every coordinate is in range, and nothing elsewhere."""
    view, coordinates, extents = access
    rows = views.flatten(view, coordinates, extents)
    if rows is None:
        return
    assert prod(row.size for row in rows) == view.size
    operand = Operand(Origin.NODE, view.dtype, rows=rows)
    for variables in product(*map(range, extents)):
        places = [row.coordinate(variables) for row in coordinates]
        expected = None
        if None not in places:
            walk = zip(places, view.strides, strict=True)
            expected = view.offset + sum((place or 0) * stride for place, stride in walk)
        assert operand.index(variables) == expected


@given(accesses())
def test_a_moved_view_always_has_rows(access: tuple[View, list[Row], tuple[int, ...]]) -> None:
    """An operator's whole output can be addressed by any coordinates: one move suffices."""
    view, coordinates, extents = access
    moved = views.whole(view.dtype, view.shape, 1)
    assert views.flatten(moved, coordinates, extents) is not None
