"""The settings of all tests."""

from hypothesis import settings

# No test depends on time, nor on chance: a machine that is busy for a second is not a finding, and
# what fails here fails everywhere.
settings.register_profile("repeatable", deadline=None, derandomize=True)
settings.load_profile("repeatable")
