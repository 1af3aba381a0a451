"""The bound of what a ruling may cost, which an operator's shapes are compared with."""

from dataclasses import dataclass

from moot.offchain.errors import CostBoundExceeded
from moot.offchain.programs.cost import Cost


@dataclass(frozen=True, slots=True)
class Bound:
    """The most that one ruling may cost.

    Attributes:
        operations: scalar operations, an fma or a logarithm being one each.
        bytes: bytes of the operands and of the output together.
        seconds: time on the clock, besides what it takes to start.
    """

    operations: int = 1 << 40
    bytes: int = 1 << 33
    seconds: float = 120.0

    def require(self, cost: Cost) -> None:
        """Refuse a cost above the bound (`CostBoundExceeded`)."""
        for resource in ("operations", "bytes"):
            needed, allowed = getattr(cost, resource), getattr(self, resource)
            if needed > allowed:
                raise CostBoundExceeded(resource=resource, needed=needed, bound=allowed)


DEFAULT = Bound()
"""Enough for any operator of a step of GPT-2 or ResNet-50 at the usual batch sizes."""
