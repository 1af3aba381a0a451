"""The settings of all tests."""

import gc
import signal
import sys

import pytest
from hypothesis import settings

from tests.quick import choose_suite, share


def pytest_configure(config: pytest.Config) -> None:
    """Let no test depend on time, on chance, nor on whether it runs in the background.

    A machine that is busy for a second is not a finding, and what fails here fails everywhere. What
    a shell runs in the background ignores interrupts, as does all that is started from there.
    """
    choose_suite(config)
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    settings.register_profile(
        "repeatable", deadline=None, derandomize=True, max_examples=share(100)
    )
    settings.load_profile("repeatable")


_LOOK_EVERY = 100_000
"""So many new objects make Python look for cycles among them, instead of 700."""


def pytest_collection_finish() -> None:
    """Leave out what a process of tests waits for, and what processes that tests start don't.

    Cycles are looked for less often, and not among what imports and collection have made. Torch
    computes on one thread: its idle ones spin on the cores that other tests run on.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(_LOOK_EVERY)
    if torch := sys.modules.get("torch"):
        torch.set_num_threads(1)
