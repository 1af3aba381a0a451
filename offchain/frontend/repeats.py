"""Repeated updates: one that is the same for several parameters is traced once, and then copied.

An optimizer's operators are a third of a step's or more, and torch takes most of a millisecond to
trace one. An optimizer of ours does the same to every two parameters whose tensors, gradients and
moments have the same types, shapes and strides; so the graph of the first is the graph of the
second, with other tensors in it. It is written where tracing would have written it, under the same
names. Optimizers of users are traced for each parameter: nobody knows what else they look at.
"""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import torch
from torch.fx import Node
from torch.fx.experimental.proxy_tensor import (
    disable_proxy_modes_tracing,
    get_proxy_slot,
    track_tensor_tree,
)

from moot.offchain.frontend import optimizers
from moot.offchain.frontend.optimizers.base import Numbers, Optimizer, Tensors, Updated
from moot.offchain.frontend.optimizers.translation import Ascent


class _Traced(NamedTuple):
    """An update that was traced.

    Attributes:
        given: the nodes of the tensors that are the parameter's own.
        nodes: the nodes that tracing has added.
        names: the names of the moments that it returns.
        results: the parameter and the moments that it returns.
    """

    given: list[Node | None]
    nodes: list[Node]
    names: tuple[str, ...]
    results: list[torch.Tensor]


class Repeats:
    """The updates of a step, each distinct one of which is traced.

    Args:
        tracer: what makes the step's graph.
    """

    def __init__(self, tracer: Any) -> None:
        self._tracer = tracer
        self._traced: dict[Any, _Traced] = {}

    def update(
        self,
        optimizer: Optimizer,
        parameter: torch.Tensor,
        gradient: torch.Tensor,
        moments: Tensors,
        numbers: Numbers,
    ) -> Updated:
        """Return what `optimizer.update` returns for the other arguments."""
        own = [parameter, gradient, *moments.values()]
        given = [self._find_node(tensor) for tensor in own]
        if not _is_ours(optimizer) or None in given:
            return optimizer.update(parameter, gradient, moments, numbers)
        # Where one node stands in two places, an update may be another operator.
        places = tuple(given.index(node) for node in given)
        key = (id(optimizer), id(numbers), (*moments,), places, *map(_describe, own))
        if key not in self._traced:
            before = len(self._tracer.graph.nodes)
            parameter, moments = optimizer.update(parameter, gradient, moments, numbers)
            nodes = self._list_last(len(self._tracer.graph.nodes) - before)
            self._traced[key] = _Traced(given, nodes, (*moments,), [parameter, *moments.values()])
            return parameter, moments
        traced = self._traced[key]
        parameter, *others = self._copy(traced, own, given)
        return parameter, dict(zip(traced.names, others, strict=True))

    def _find_node(self, tensor: torch.Tensor) -> Node | None:
        found = get_proxy_slot(tensor, self._tracer, default=None)
        return None if found is None else found.proxy.node

    def _list_last(self, count: int) -> list[Node]:
        """Return the last nodes of the graph, in their order."""
        last = reversed(self._tracer.graph.nodes)
        return [node for node, _ in zip(last, range(count), strict=False)][::-1]

    def _copy(
        self, traced: _Traced, own: Sequence[torch.Tensor], given: Sequence[Node | None]
    ) -> list[torch.Tensor]:
        """Add the nodes of an update once more, for other tensors; return its results."""
        graph = self._tracer.graph
        number = {node: place for place, node in enumerate(traced.given)}
        copies: dict[Node | None, Any] = dict(zip(traced.given, given, strict=True))
        for node in traced.nodes:
            copies[node] = graph.node_copy(node, lambda old: copies.get(old, old))
        return [self._follow(tensor, own, number, copies) for tensor in traced.results]

    def _follow(
        self,
        tensor: torch.Tensor,
        own: Sequence[torch.Tensor],
        number: Mapping[Node | None, int],
        copies: Mapping[Node | None, Node],
    ) -> torch.Tensor:
        """Return what a copy has for a result of the update that was traced."""
        node = self._find_node(tensor)
        if node in number:
            return own[number[node]]
        return self._stand_in(tensor, copies[node]) if node in copies else tensor

    def _stand_in(self, tensor: torch.Tensor, node: Node) -> torch.Tensor:
        """Return another tensor of the same form, the result of this node."""
        with disable_proxy_modes_tracing():
            made = torch.empty_strided(tensor.shape, tensor.stride(), dtype=tensor.dtype)
        proxy = self._tracer.proxy(node)
        return track_tensor_tree(made, proxy, constant=None, tracer=self._tracer)


def _is_ours(optimizer: Any) -> bool:
    """Return whether an update looks at nothing but the forms of its tensors."""
    inner = optimizer.optimizer if isinstance(optimizer, Ascent) else optimizer
    return type(inner).__module__.startswith(f"{optimizers.__name__}.")


def _describe(tensor: torch.Tensor) -> tuple[Any, ...]:
    return (tensor.dtype, tensor.shape, tensor.stride(), tensor.storage_offset())
