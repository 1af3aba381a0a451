"""Batches that a step writes to: in eager torch, what lies in their memory is another from then on.

`x.sub_(x.mean())` changes the data set itself where a batch is a slice of it, and the next step
that reads it gets something else. A program has a copy of every tensor of every batch.
"""

from collections.abc import Iterator

import torch
from torch._ops import OpOverload
from torch.fx import Node

from moot.offchain.frontend.capture.draft import Start
from moot.offchain.frontend.lowering.graph import refusal
from moot.offchain.frontend.memory import get_span, list_written
from moot.offchain.frontend.recipe import get_batch


def refuse_written(start: Start) -> None:
    """Refuse a step that writes to a batch which lies in memory that something else reads, too.

    Raises:
        CaptureError: it does.
    """
    recipe, slots = start.subject.recipe, start.inputs
    placeholders = [node for node in start.record.graph.graph.nodes if node.op == "placeholder"]
    inputs = placeholders[len(placeholders) - len(slots) :]
    written = [(k, node) for k, it in enumerate(inputs) for node in _list_writes(it)]
    if not written:
        return
    batch, again = get_batch(recipe, 0), get_batch(recipe, 0)
    names = [f"batch {slot.name}" for slot in slots]
    owners = [*names, *["what the batch function keeps"] * len(again)]
    for k, node in written:
        for j, (tensor, owner) in enumerate(zip([*batch, *again], owners, strict=True)):
            if j != k and _overlap(batch[k], tensor):
                said = f"the step changes it in place, in the memory of {owner}"
                raise refusal(f"{said}; return a copy of it", names[k], node.stack_trace or "")


def _list_writes(tensor: Node) -> Iterator[Node]:
    """Yield the operators that write to the step's copy of an input, or to a view of it."""
    pending = [user for user in tensor.users if user.target is torch.ops.aten.clone.default]
    while pending:
        node = pending.pop()
        for user in node.users:
            if not isinstance(user.target, OpOverload):
                continue
            if any(it is node for it in list_written(user.target, user.args, user.kwargs)):
                yield user
            elif user.args and user.args[0] is node and user.target.is_view:
                pending.append(user)


def _overlap(a: torch.Tensor, b: torch.Tensor) -> bool:
    """Return whether two tensors have a byte in common."""
    if not a.numel() or not b.numel():
        return False
    (first, last), (start, end) = _get_range(a), _get_range(b)
    return first <= end and start <= last


def _get_range(tensor: torch.Tensor) -> tuple[int, int]:
    """Return the addresses of a tensor's first element and of its last: storages share memory."""
    begin, size = tensor.untyped_storage().data_ptr(), tensor.element_size()
    first, last = get_span(tensor)
    return begin + first * size, begin + last * size
