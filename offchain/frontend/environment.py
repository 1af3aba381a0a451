"""The settings under which torch computes initial weights, batches and constants of a capture."""

import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any
from unittest import mock

import torch
from torch.distributions import Distribution

from moot.offchain.arithmetic.environment import standard_environment


@contextmanager
def standard_torch() -> Iterator[None]:
    """Let torch compute on the calling thread alone, in the default floating-point environment.

    Torch's own threads keep the environment of the one that first used them, for good, and nobody
    can set it; nor do sums that several threads share depend on the operands alone.

    Raises:
        UnsuitableEnvironment: something changed the environment in between.
    """
    threads = torch.get_num_threads()
    with standard_environment():
        torch.set_num_threads(1)
        try:
            yield
        finally:
            torch.set_num_threads(threads)


@contextmanager
def uncompiled() -> Iterator[None]:
    """Let functions that torch was told to compile run as they are written.

    Whoever compiles anything turns the checks of distributions off, for the rest of the process:
    they are as Python began it, so that what is traced does not depend on what ran before.
    """
    with ExitStack() as stack:
        stack.enter_context(mock.patch.object(torch, "compile", _leave))
        dynamo = sys.modules.get("torch._dynamo")  # which takes seconds to import
        if dynamo is not None:
            stack.enter_context(dynamo.set_stance("force_eager"))
            stack.enter_context(dynamo.config.patch(error_on_nested_fx_trace=False))
            if dynamo.eval_frame.TorchPatcher.patch.cache_info().currsize:
                checks = mock.patch.object(Distribution, "_validate_args", __debug__)
                stack.enter_context(checks)
        yield


def _leave(function: Callable[..., Any] | None = None, **options: Any) -> Any:
    """Return a function as it is, in place of `torch.compile`, or what returns it."""
    del options
    return (lambda decorated: decorated) if function is None else function
