"""The settings of all tests."""

import sys

from hypothesis import settings

# No test depends on time, nor on chance: a machine that is busy for a second is not a finding, and
# what fails here fails everywhere.
settings.register_profile("repeatable", deadline=None, derandomize=True)
settings.load_profile("repeatable")


def pytest_collection_finish() -> None:
    """Let torch compute on one thread: its idle ones spin on the cores that other tests run on.

    Processes that tests start have as many as they would have for a user.
    """
    if torch := sys.modules.get("torch"):
        torch.set_num_threads(1)
