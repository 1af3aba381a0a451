"""The settings of all tests; those of a file run in one process, where they share fixtures."""

import pytest
from hypothesis import settings

# No test depends on time, nor on chance: a machine that is busy for a second is not a finding, and
# what fails here fails everywhere.
settings.register_profile("repeatable", deadline=None, derandomize=True)
settings.load_profile("repeatable")


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Keep the tests of a file in one process, where no mark of theirs says otherwise."""
    for item in items:
        if item.get_closest_marker("xdist_group") is None:
            item.add_marker(pytest.mark.xdist_group(item.location[0]))
