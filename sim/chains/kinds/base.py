"""What every kind of chain has: fees that charge for a call, and prices that may be replaced."""

from dataclasses import dataclass
from typing import Annotated, Protocol

from msgspec import Meta

GWEI = 10**9
"""The wei of a gwei."""

Gwei = Annotated[float, Meta(ge=0, le=1e6)]
Whole = Annotated[int, Meta(ge=0, le=2**63 - 1)]
Some = Annotated[int, Meta(ge=1, le=2**63 - 1)]


def to_wei(gwei: float) -> int:
    """Return an amount of gwei in wei, rounded to the next whole one."""
    return round(gwei * GWEI)


class Sized(Protocol):
    """What is known of a call's calldata."""

    @property
    def zeros(self) -> int:
        """The number of bytes that are zero."""

    @property
    def nonzeros(self) -> int:
        """The number of other bytes."""

    @property
    def fastlz_bytes(self) -> int:
        """The length of the signed transaction after FastLZ."""

    @property
    def brotli_bytes(self) -> int:
        """The length of the signed transaction after Brotli."""


@dataclass(frozen=True, slots=True)
class Charge:
    """What a call is charged, in wei.

    Attributes:
        execution_wei: for its gas, calldata included.
        data_wei: for putting its data on the chain below; 0 where there is none.
    """

    execution_wei: int
    data_wei: int = 0

    @property
    def total_wei(self) -> int:
        """Both together."""
        return self.execution_wei + self.data_wei
