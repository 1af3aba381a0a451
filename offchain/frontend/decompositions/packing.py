"""Packed sequences, whose lengths a step has to know: numbers, or a tensor made of numbers."""

from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor
from torch._subclasses.fake_tensor import DataDependentOutputException, FakeTensor
from torch.fx.experimental.symbolic_shapes import GuardOnDataDependentSymNode


def read_numbers(tensor: Tensor, operator: Any) -> list[int]:
    """Return the elements of a tensor that was made of numbers, in the step or before.

    Raises:
        DataDependentOutputException: it was not.
    """
    if not isinstance(tensor, FakeTensor):
        return [*tensor.tolist()]
    try:
        return [int(element) for element in tensor]
    except (GuardOnDataDependentSymNode, DataDependentOutputException):
        raise DataDependentOutputException(operator) from None


def pack_padded(x: Tensor, lengths: Tensor, batch_first: bool) -> tuple[Tensor, Tensor]:  # noqa: FBT001 - ATen's signature
    """Return the elements of sequences of falling lengths, step after step, and each step's number.

    Args:
        x: sequences of one length, (steps, sequences, ...), or the other way round.
        lengths: how much of each counts.
        batch_first: which way round.
    """
    steps = x.transpose(0, 1) if batch_first else x
    known = read_numbers(lengths, torch.ops.aten._pack_padded_sequence.default)  # noqa: SLF001 - ATen's name
    counts = [sum(length > step for length in known) for step in range(max(known, default=0))]
    packed = torch.cat([steps[step, :count] for step, count in enumerate(counts)])
    return packed, torch.tensor(counts)


def pad_packed(
    packed: Tensor,
    counts: Tensor,
    batch_first: bool,  # noqa: FBT001 - likewise
    padding: float,
    total: int,
) -> tuple[Tensor, Tensor]:
    """Return sequences of one length, and how much of each counts."""
    known = read_numbers(counts, torch.ops.aten._pad_packed_sequence.default)  # noqa: SLF001 - likewise
    width = known[0]
    parts = [
        torch.cat([part, part.new_full((width - count, *part.shape[1:]), padding)])
        for part, count in zip(torch.split(packed, known), known, strict=True)
    ]
    rest = [parts[0].new_full(parts[0].shape, padding)] * max(total - len(parts), 0)
    padded = torch.stack([*parts, *rest])
    lengths = torch.tensor([sum(count > k for count in known) for k in range(width)])
    return padded.transpose(0, 1) if batch_first else padded, lengths


PACKING: Mapping[str, Callable[..., Any]] = {
    "aten._pack_padded_sequence.default": pack_padded,
    "aten._pad_packed_sequence.default": pad_packed,
}
"""ATen overload -> composition that autograd sees."""
