"""The settings of all tests."""

import gc
import sys

import pytest
from hypothesis import settings

from tests.quick import choose_suite, share


def pytest_configure(config: pytest.Config) -> None:
    """Let no test depend on time, nor on chance.

    A machine that is busy for a second is not a finding, and what fails here fails everywhere.
    """
    choose_suite(config)
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
