"""The order of elements in memory: a step that is traced again has the one that it had before."""

from typing import Any

import torch
from torch import Tensor
from torch._ops import OpOverload
from torch.fx import Interpreter, Node


class OrderedInterpreter(Interpreter):
    """Runs a traced step again, and arranges the results of operators as they were in memory.

    Decompositions may give a result other strides than the operator does, and then a view of it
    that the step takes may have none. What is a view of something else is left as it is.
    """

    def run_node(self, n: Node) -> Any:
        """Return a node's result, in the order of memory that it had."""
        result = super().run_node(n)
        if not isinstance(n.target, OpOverload):
            return result
        returns = n.target._schema.returns  # noqa: SLF001 - not public
        before: Any = n.meta.get("val")
        if any(r.alias_info for r in returns):
            return result
        if isinstance(result, (tuple, list)):
            return type(result)(map(_arrange, result, before))
        return _arrange(result, before)


def _arrange(x: Any, like: Any) -> Any:
    """Return a tensor with the order in memory of another of its shape."""
    if not isinstance(x, Tensor) or not isinstance(like, Tensor) or x.shape != like.shape:
        return x
    places = [d for d, size in enumerate(x.shape) if size > 1]
    if all(x.stride(d) == like.stride(d) for d in places):
        return x
    strides = like.stride()
    order = sorted(range(x.ndim), key=lambda d: (-strides[d], d))
    back = sorted(range(x.ndim), key=order.__getitem__)
    arranged = x.permute(order).clone(memory_format=torch.contiguous_format)
    return arranged.permute(back)
