"""Taking elements out of torch while a step is traced is refused, where the model does it."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch._subclasses.fake_tensor import FakeTensor
from torch.utils._python_dispatch import _disable_current_modes

from offchain.programs.lines import LineTracker
from offchain.programs.lowering.graph import DATA_DEPENDENT, refusal


@contextmanager
def refuse_numpy(tracker: LineTracker) -> Iterator[None]:
    """Refuse, with the line that the tracker finds, to make a numpy array of a traced tensor.

    Raises:
        CaptureError: the model does so.
    """
    convert = torch.Tensor.numpy

    def numpy(tensor: torch.Tensor, **options: Any) -> Any:
        if isinstance(tensor, FakeTensor):
            raise refusal(DATA_DEPENDENT, "torch.Tensor.numpy", tracker.find_line())
        with _disable_current_modes():  # a constant of the model: a mode would trace its copy
            return convert(tensor, **options)

    torch.Tensor.numpy = numpy  # type: ignore[assignment]  # hides the method of the base class
    try:
        yield
    finally:
        del torch.Tensor.numpy
