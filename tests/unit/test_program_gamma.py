"""The gamma function's logarithm and its derivative, composed of other functions."""

import numpy as np
import torch

from tests.program_helpers import assert_close, check_gradients, run_function

X = torch.tensor([-7.3, -2.5, -1e-3, 1e-5, 0.3, 0.5, 0.95, 1.0, 1.7, 2.0, 7.9, 8.0, 33.0, 1e6])
EDGES = torch.tensor([0.0, -1.0, torch.inf, -torch.inf, torch.nan])


def test_the_gamma_function_is_torchs() -> None:
    """Values agree to single precision on both sides of every case, and at the edges exactly."""
    for function in (torch.lgamma, torch.digamma):
        (found,) = run_function(function, X)
        assert_close(found, function(X.double()).numpy(), 1e-5, 4e-6)
    np.testing.assert_array_equal(run_function(torch.lgamma, EDGES)[0], torch.lgamma(EDGES))


def test_its_gradient_is_torchs() -> None:
    """The gradient of the one is the other."""
    check_gradients(lambda x: torch.lgamma(x).sum(), X[X > 0])
