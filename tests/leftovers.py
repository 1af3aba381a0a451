"""What a command or a capture may leave behind: nothing, whatever it was given."""

import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from unittest import mock

import torch
from torch._subclasses.fake_tensor import FakeTensor
from torch.overrides import _get_current_function_mode_stack
from torch.utils._python_dispatch import _get_current_dispatch_mode_stack

from moot.offchain.frontend.decompositions.methods import METHODS

_OF_TORCH = "torchinductor"
"""What torch's own folder of caches begins with, which it makes when it is loaded."""


@contextmanager
def leaving_nothing() -> Iterator[None]:
    """Require that files, modules, modes and settings are afterwards what they were before."""
    before = list_traces()
    with TemporaryDirectory() as folder, mock.patch.object(tempfile, "tempdir", folder):
        yield
        assert {path.name.partition("_")[0] for path in Path(folder).iterdir()} <= {_OF_TORCH}
    after = list_traces()
    for name, trace in before.items():
        assert after[name] == trace, name


def list_traces() -> dict[str, Any]:
    """Return what of this process and its folders may change by name."""
    shown = (FakeTensor, torch.SymFloat, torch.SymInt, torch.SymBool)
    return {
        "files here": sorted(Path().iterdir()),
        "path": list(sys.path),
        "stdout": sys.stdout,
        "tensors": {"numpy", "tolist"} & {*vars(torch.Tensor)},
        "methods": [getattr(owner, name) for owner, name, _ in METHODS],
        "shown": [vars(kind).get("__repr__") for kind in shown],
        "compile": torch.compile,
        "modes": [*_get_current_function_mode_stack(), *_get_current_dispatch_mode_stack()],
        "dtype": torch.get_default_dtype(),
        "gradients": torch.is_grad_enabled(),
        "torch's threads": torch.get_num_threads(),
    }
