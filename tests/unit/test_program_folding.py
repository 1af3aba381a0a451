"""Constants that are made in float64 are part of the program."""

import pytest
import torch

from moot.offchain.errors import CaptureError
from tests.program_helpers import capture_function, run_function

X = torch.tensor([0.5, -0.25, 0.75])


def rotate(x: torch.Tensor) -> torch.Tensor:
    """Use two tables that are made in float64."""
    angles = torch.outer(torch.arange(3), 0.5 ** torch.arange(3, dtype=torch.float64))
    return x * angles.cos().float() + angles.sin().long()


def test_a_table_is_a_constant_with_the_bits_of_torch() -> None:
    """What does not depend on the batch is computed as torch does, and kept as it is."""
    (found,) = run_function(rotate, X)
    assert found.tolist() == rotate(X).tolist()
    names = [slot.name for slot in capture_function(rotate, X).program.state]
    assert names == ["constant.0", "constant.1", "output.0"]


def test_what_depends_on_the_batch_is_refused() -> None:
    """Float64 on the way of the batch is refused, and so is what is drawn."""
    for function in (
        lambda x: (x.double() * 2).float(),
        lambda x: x * torch.rand(3, dtype=torch.float64).float(),
    ):
        with pytest.raises(CaptureError, match="not part of the arithmetic"):
            capture_function(function, X)


def test_tables_that_are_written_to() -> None:
    """What a model writes to a table of float64 is in it."""
    (found,) = run_function(lambda x: x * write(), X)
    assert found.tolist() == (X * write()).tolist()


def write() -> torch.Tensor:
    """Return a table that is written to twice."""
    return torch.zeros(3, dtype=torch.float64).copy_(torch.arange(3)).sin_().float()


def test_no_other_constant_is_computed() -> None:
    """A constant of our own types is left to the program, however large it is."""
    big = capture_function(lambda x: x + torch.zeros(1 << 40)[:3], X)
    assert len(big.program.nodes) < 8
