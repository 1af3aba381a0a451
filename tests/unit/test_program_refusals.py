"""What no program can express is refused with the operator's name and the line of the model."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

from moot.offchain.errors import CaptureError
from tests.program_helpers import capture_function

X = torch.tensor([[0.5, -0.25], [0.75, 0.125]])

MISSING: dict[str, Callable[[torch.Tensor], Any]] = {
    "special_i0e": torch.special.i0e,
    "linalg_eig": torch.linalg.eigvals,
    "linalg_ldl_factor_ex": lambda x: torch.linalg.ldl_factor(x)[0],
    "nextafter": lambda x: torch.nextafter(x, x + 1),
}

BY_DATA: dict[str, Callable[[torch.Tensor], Any]] = {
    "nonzero": lambda x: x.nonzero(),
    "_unique2": lambda x: x.unique(),
    "masked_select": lambda x: x.masked_select(x > 0),
    "x[mask]": lambda x: x[x > 0],
    "bincount": lambda x: torch.bincount(x.long().reshape(-1)),
    "_local_scalar_dense": lambda x: x * float(x.sum()),
    "numpy": lambda x: x * torch.from_numpy(x.numpy()),
    "Tensor.numpy": lambda x: x * float(np.asarray(x).sum()),
}


def refuse(function: Callable[[torch.Tensor], Any]) -> CaptureError:
    """Return the error of capturing a function, which names this file."""

    def call(x: torch.Tensor) -> Any:
        return function(x)

    with pytest.raises(CaptureError) as caught:
        capture_function(call, X)
    assert caught.value.module == "model"
    assert (caught.value.source_line or "").startswith("test_program_refusals.py:")
    return caught.value


@pytest.mark.parametrize("name", MISSING)
def test_what_has_no_rule(name: str) -> None:
    """An operator without a rule is refused by its name."""
    assert name in (refuse(MISSING[name]).operator or "")


@pytest.mark.parametrize("name", BY_DATA)
def test_what_depends_on_data(name: str) -> None:
    """What makes a shape or a branch of a tensor's elements is refused, and so is leaving torch."""
    error = refuse(BY_DATA[name])
    assert name in (error.operator or "")
    assert "depend" in error.message


def test_tracing_gives_numpy_back() -> None:
    """After a capture, refused or not, tensors become arrays as before."""
    with pytest.raises(CaptureError):
        capture_function(lambda x: x.numpy(), X)
    assert X.numpy().tolist() == X.tolist()
    assert "numpy" not in vars(torch.Tensor)
