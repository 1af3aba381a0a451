"""Batches that a step writes to: in eager torch, what lies in their memory is another from then on.

`x.sub_(x.mean())` changes the data set itself where a batch is a slice of it, and the next step
that reads it gets something else. A program has a copy of every tensor of every batch.
"""

from collections.abc import Iterator, Sequence
from typing import Any

import torch
from torch._ops import OpOverload
from torch.fx import Node

from offchain.frontend.lowering.graph import refusal
from offchain.frontend.recipe import Recipe, get_batch
from offchain.frontend.tracing import Record
from offchain.programs.graph import Slot


def refuse_written(recipe: Recipe, seen: Record, slots: Sequence[Slot]) -> None:
    """Refuse a step that writes to a batch which lies in memory that something else reads, too.

    Args:
        recipe: the recipe.
        seen: its traced step, whose last inputs are the batch.
        slots: the slots of batches.

    Raises:
        CaptureError: it does.
    """
    inputs = [node for node in seen.graph.graph.nodes if node.op == "placeholder"][-len(slots) :]
    written = [
        (k, node) for k, it in enumerate(inputs if slots else []) for node in _list_writes(it)
    ]
    if not written:
        return
    batch, again = get_batch(recipe, 0), get_batch(recipe, 0)
    for k, node in written:
        others = [f"batch {slot.name}" for slot in slots]
        for j, tensor in enumerate([*batch, *again]):
            if j != k and _overlap(batch[k], tensor):
                whose = others[j] if j < len(batch) and j != k else "what the batch function keeps"
                said = (
                    f"the step changes it in place, in the memory of {whose}; return a copy of it"
                )
                raise refusal(said, others[k], node.stack_trace or "")


def _list_writes(tensor: Node) -> Iterator[Node]:
    """Yield the operators that write to the step's copy of an input, or to a view of it."""
    pending = [user for user in tensor.users if user.target is torch.ops.aten.clone.default]
    while pending:
        node = pending.pop()
        for user in node.users:
            if not isinstance(user.target, OpOverload):
                continue
            is_first = bool(user.args) and user.args[0] is node
            if _is_written(user, node):
                yield user
            elif is_first and user.target.is_view:
                pending.append(user)


def _is_written(user: Node, node: Node) -> bool:
    """Return whether an operator writes to one of its arguments."""
    arguments: Any = user.target._schema.arguments  # type: ignore[union-attr]  # noqa: SLF001 - an operator's, not public
    given = [*user.args, *(user.kwargs.get(it.name) for it in arguments[len(user.args) :])]
    written = [it.alias_info is not None and it.alias_info.is_write for it in arguments]
    return any(is_so and it is node for is_so, it in zip(written, given, strict=True))


def _overlap(a: torch.Tensor, b: torch.Tensor) -> bool:
    """Return whether two tensors have a byte in common."""
    if not a.numel() or not b.numel():
        return False
    (first, last), (start, end) = _get_range(a), _get_range(b)
    return first <= end and start <= last


def _get_range(tensor: torch.Tensor) -> tuple[int, int]:
    """Return where a tensor begins in memory, and where its last element does."""
    pairs = zip(tensor.shape, tensor.stride(), strict=True)
    begin = tensor.data_ptr()
    return begin, begin + sum((size - 1) * step for size, step in pairs) * tensor.element_size()
