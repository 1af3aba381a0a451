"""Fees of a rollup of the OP stack: its own gas, and the data fee of Ecotone and Fjord.

The data fee is, by the specification of Fjord (specs.optimism.io, *exec-engine*, and
`rollup_cost.go` of op-geth),

    max(100, -42.5856 + 0.8365 * f) * (16 * b * B + c * C)

where f is the length of the signed transaction after FastLZ, B and C are the base fees of gas and
of blob gas on the first layer, and b and c the chain's two scalars. So the estimate of a
transaction's compressed size is Fjord's own: a line fitted to what batches of Brotli came to.
"""

from typing import Self

from msgspec import Struct
from msgspec.structs import replace

from moot.sim.chains.kinds.base import Charge, Gwei, Sized, Whole, to_wei
from moot.sim.chains.kinds.blobs import reserve_blob_fee_wei

INTERCEPT = -42_585_600
FASTLZ_COEFFICIENT = 836_500
LEAST_SIZE = 100_000_000
"""The fitted line and the least size, in millionths of a byte."""
_CALLDATA_GAS = 16
_SCALE = 10**12


def estimate_size(fastlz_bytes: int) -> int:
    """Return a transaction's part of a batch in millionths of a byte, by its length in FastLZ."""
    return max(LEAST_SIZE, INTERCEPT + FASTLZ_COEFFICIENT * fastlz_bytes)


class OpStack(Struct, frozen=True, forbid_unknown_fields=True):
    """The prices of a rollup of the OP stack.

    Attributes:
        base_fee_gwei: of a unit of its own gas.
        tip_gwei: what is paid above it.
        l1_base_fee_gwei: of a unit of gas on the first layer.
        blob_base_fee_gwei: of a unit of blob gas there.
        has_blob_reserve: whether that is no less than a sixteenth of the former (EIP-7918).
        base_fee_scalar: b, in millionths.
        blob_base_fee_scalar: c, in millionths.
    """

    base_fee_gwei: Gwei
    tip_gwei: Gwei
    l1_base_fee_gwei: Gwei
    blob_base_fee_gwei: Gwei
    has_blob_reserve: bool
    base_fee_scalar: Whole
    blob_base_fee_scalar: Whole

    @property
    def price_wei(self) -> int:
        """What a unit of its own gas costs, with the tip."""
        return to_wei(self.base_fee_gwei) + to_wei(self.tip_gwei)

    def charge(self, gas: int, calldata: Sized) -> Charge:
        """Return what a call is charged: its gas here, and its data below."""
        return Charge(gas * self.price_wei, self.charge_data(calldata.fastlz_bytes))

    def charge_data(self, fastlz_bytes: int) -> int:
        """Return the data fee in wei, from the signed transaction's length in FastLZ."""
        fee_wei, blob_wei = to_wei(self.l1_base_fee_gwei), to_wei(self.blob_base_fee_gwei)
        if self.has_blob_reserve:
            blob_wei = reserve_blob_fee_wei(blob_wei, fee_wei)
        scaled = _CALLDATA_GAS * self.base_fee_scalar * fee_wei
        scaled += self.blob_base_fee_scalar * blob_wei
        return estimate_size(fastlz_bytes) * scaled // _SCALE

    def replace_prices(self, base_fee_gwei: float | None, l1_base_fee_gwei: float | None) -> Self:
        """Return the same at other base fees."""
        own = self.base_fee_gwei if base_fee_gwei is None else base_fee_gwei
        below = self.l1_base_fee_gwei if l1_base_fee_gwei is None else l1_base_fee_gwei
        return replace(self, base_fee_gwei=own, l1_base_fee_gwei=below)
