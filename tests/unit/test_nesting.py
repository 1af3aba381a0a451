"""Walks over what operators take and make, beside torch's own walk over trees."""

from collections.abc import Callable
from typing import Any

import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.utils._pytree import tree_leaves, tree_map

from moot.offchain.frontend.nesting import list_leaves, map_leaves

LEAVES = st.none() | st.integers() | st.text(max_size=2) | st.just(slice(1, 2))


def nest(parts: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    """Return lists, tuples and dictionaries of parts."""
    lists = st.lists(parts, max_size=3)
    return lists | lists.map(tuple) | st.dictionaries(st.text(max_size=2), parts, max_size=3)


TREES = st.recursive(LEAVES, nest)


def mark(tag: str) -> Callable[..., Any]:
    """Return a function of leaves whose results tell what it was given."""
    return lambda *leaves: (tag, *map(repr, leaves)).__repr__()


@given(TREES)
def test_walks_meet_what_those_of_torch_meet(tree: Any) -> None:
    """The same leaves in the same order, and the same results in the same places."""
    assert [*list_leaves(tree)] == tree_leaves(tree)
    assert map_leaves(mark("one"), tree) == tree_map(mark("one"), tree)
    assert map_leaves(mark("two"), tree, tree) == tree_map(mark("two"), tree, tree)


def test_a_size_is_a_leaf() -> None:
    """An operator that is given a size gets a size."""
    size = torch.Size((2, 3))
    assert [*list_leaves([size, None])] == [size, None]
    assert type(map_leaves(lambda it: it, (size,))[0]) is torch.Size
