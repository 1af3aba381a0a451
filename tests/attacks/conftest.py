"""The same referee twice, as the lock-step tests have it."""

from tests.lockstep.conftest import deployed, referee

__all__ = ["deployed", "referee"]
