"""Fees of a chain of Arbitrum Nitro: its own gas, and a price for each compressed byte.

A transaction is charged 16 units for every byte of the signed transaction after Brotli at level 1
(`GetPosterInfo` in `arbos/l1pricing/l1pricing.go`; ArbOS 20 set the level). ArbOS moves the price
of a unit until what it takes in is what posters of batches have paid, so that the price here is
what posting costs: blob gas for each byte, and for each batch the gas of its transaction, shared
out among the batch's bytes. There is no tip.
"""

from moot.sim.chains.kinds.base import Charge, Sized, Some, Whole, to_wei
from moot.sim.chains.kinds.rollup import Rollup

UNITS = 16
"""The units of a byte."""


class Arbitrum(Rollup, frozen=True, forbid_unknown_fields=True):
    """The prices of a chain of Arbitrum Nitro.

    Attributes:
        batch_gas: gas of the transaction that posts a batch.
        batch_bytes: compressed bytes of a batch.
    """

    batch_gas: Whole
    batch_bytes: Some

    @property
    def price_wei(self) -> int:
        """What a unit of its own gas costs."""
        return to_wei(self.base_fee_gwei)

    @property
    def unit_wei(self) -> int:
        """What a unit of data costs once ArbOS has found its price: a byte is 16 of them."""
        fee_wei, blob_wei = self.below_wei
        return (blob_wei + fee_wei * self.batch_gas // self.batch_bytes) // UNITS

    def charge(self, gas: int, calldata: Sized) -> Charge:
        """Return what a call is charged: its gas here, and its data below."""
        return Charge(gas * self.price_wei, calldata.brotli_bytes * UNITS * self.unit_wei)
