"""Fees of a rollup of the OP stack: its own gas, and the data fee of Ecotone and Fjord.

The data fee is, by the specification of Fjord (specs.optimism.io, *exec-engine*, and
`rollup_cost.go` of op-geth),

    max(100, -42.5856 + 0.8365 * f) * (16 * b * B + c * C)

where f is the length of the signed transaction after FastLZ, B and C are the base fees of gas and
of blob gas on the first layer, and b and c the chain's two scalars. So the estimate of a
transaction's compressed size is Fjord's own: a line fitted to what batches of Brotli came to.
"""

from moot.sim.chains.kinds.base import Charge, Gwei, Sized, Whole, to_wei
from moot.sim.chains.kinds.rollup import Rollup

INTERCEPT = -42_585_600
FASTLZ_COEFFICIENT = 836_500
LEAST_SIZE = 100_000_000
"""The fitted line and the least size, in millionths of a byte."""
_CALLDATA_GAS = 16
_SCALE = 10**12


def estimate_size(fastlz_bytes: int) -> int:
    """Return a transaction's part of a batch in millionths of a byte, by its length in FastLZ."""
    return max(LEAST_SIZE, INTERCEPT + FASTLZ_COEFFICIENT * fastlz_bytes)


class OpStack(Rollup, frozen=True, forbid_unknown_fields=True):
    """The prices of a rollup of the OP stack.

    Attributes:
        tip_gwei: what is paid above the base fee of its own gas.
        base_fee_scalar: b, in millionths.
        blob_base_fee_scalar: c, in millionths.
    """

    tip_gwei: Gwei
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
        fee_wei, blob_wei = self.below_wei
        scaled = _CALLDATA_GAS * self.base_fee_scalar * fee_wei
        scaled += self.blob_base_fee_scalar * blob_wei
        return estimate_size(fastlz_bytes) * scaled // _SCALE
