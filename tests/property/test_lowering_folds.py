"""Reductions and convolutions of any shape, on small integers that sum exactly in any order."""

from typing import Any

import torch
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from torch.nn import functional

from moot.offchain.programs.graph import Kind
from tests.program_helpers import capture_function, run_function, run_gradients

few = settings(max_examples=15, deadline=None)


def integers(*shape: int) -> torch.Tensor:
    """Return small whole numbers that differ, so that sums of products are exact in binary32."""
    count = torch.Size(shape).numel()
    return ((torch.arange(count) * 7919) % 13 - 6).float().reshape(shape)


@few
@given(st.lists(st.integers(1, 7), min_size=1, max_size=4), st.data())
def test_sums_over_any_axes(sizes: list[int], data: st.DataObject) -> None:
    """A sum folds every element exactly once, over any axes of any permutation of any shape."""
    axes = data.draw(st.lists(st.integers(0, len(sizes) - 1), unique=True, min_size=1))
    order = data.draw(st.permutations(range(len(sizes))))
    x = integers(*sizes)
    (found,) = run_function(lambda x: x.permute(order).sum(axes), x)
    assert found.tolist() == x.permute(order).sum(axes).tolist()


@few
@given(st.integers(1, 200))
def test_folds_are_balanced(size: int) -> None:
    """No stage of a long sum folds more than 31 or about twice the root of its elements."""
    program = capture_function(lambda x: x.sum(), torch.zeros(size)).program
    lengths = [node.fold_length for node in program.nodes if node.kind is Kind.REDUCE]
    assert all(length <= max(31, 2 * size**0.5) for length in lengths)


@st.composite
def geometries(draw: st.DrawFn) -> tuple[torch.Tensor, torch.Tensor, dict[str, Any]]:
    """Draw the input, the weight and the options of a convolution over one dimension."""
    groups = draw(st.sampled_from([1, 1, 2]))
    size, kernel = draw(st.integers(1, 7)), draw(st.integers(1, 3))
    options = {
        "stride": draw(st.integers(1, 3)),
        "padding": draw(st.integers(0, 2)),
        "dilation": draw(st.integers(1, 2)),
        "groups": groups,
    }
    assume(size + 2 * options["padding"] > options["dilation"] * (kernel - 1))
    x = integers(draw(st.integers(1, 2)), groups * draw(st.integers(1, 2)), size)
    w = integers(groups * draw(st.integers(1, 2)), x.shape[1] // groups, kernel)
    return x, w, options


@few
@given(geometries())
def test_convolutions_of_any_geometry(
    geometry: tuple[torch.Tensor, torch.Tensor, dict[str, Any]],
) -> None:
    """A convolution and its gradients are exact for every stride, padding, dilation and group."""
    x, w, options = geometry

    def loss(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
        y: torch.Tensor = functional.conv1d(x, w, **options)
        return (y * y).sum()

    leaves = [x.double().requires_grad_(), w.double().requires_grad_()]
    value = loss(*leaves)
    expected = [value, *torch.autograd.grad(value, leaves)]
    found = run_gradients(loss, x, w)
    assert [array.tolist() for array in found] == [tensor.tolist() for tensor in expected]


@few
@given(st.integers(1, 3), st.integers(0, 1), st.integers(1, 3), st.integers(3, 6))
def test_max_pools_of_any_geometry(kernel: int, padding: int, stride: int, size: int) -> None:
    """A max pool and its gradient are exact; of equal maxima the first one takes the gradient."""
    padding = min(padding, kernel // 2)

    def loss(x: torch.Tensor) -> torch.Tensor:
        pooled = functional.max_pool2d(x, kernel, stride, padding)
        return (pooled * integers(*pooled.shape).to(x.dtype)).sum()

    x = integers(1, 2, size, 5)
    leaf = x.double().requires_grad_()
    value = loss(leaf)
    expected = [value, *torch.autograd.grad(value, [leaf])]
    found = run_gradients(loss, x)
    assert [array.tolist() for array in found] == [tensor.tolist() for tensor in expected]
