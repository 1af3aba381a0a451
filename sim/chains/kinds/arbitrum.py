"""Fees of a chain of Arbitrum Nitro: its own gas, and a price for each compressed byte.

A transaction is charged 16 units for every byte of the signed transaction after Brotli at level 1
(`GetPosterInfo` in `arbos/l1pricing/l1pricing.go`; ArbOS 20 set the level). ArbOS moves the price
of a unit until what it takes in is what posters of batches have paid, so that the price here is
what posting costs: blob gas for each byte, and for each batch the gas of its transaction, shared
out among the batch's bytes. There is no tip.
"""

from typing import Self

from msgspec import Struct
from msgspec.structs import replace

from moot.sim.chains.kinds.base import Charge, Gwei, Sized, Some, Whole, to_wei
from moot.sim.chains.kinds.blobs import reserve_blob_fee_wei

UNITS = 16
"""The units of a byte."""


class Arbitrum(Struct, frozen=True, forbid_unknown_fields=True):
    """The prices of a chain of Arbitrum Nitro.

    Attributes:
        base_fee_gwei: of a unit of its own gas.
        l1_base_fee_gwei: of a unit of gas on the first layer.
        blob_base_fee_gwei: of a unit of blob gas there.
        has_blob_reserve: whether that is no less than a sixteenth of the former (EIP-7918).
        batch_gas: gas of the transaction that posts a batch.
        batch_bytes: compressed bytes of a batch.
    """

    base_fee_gwei: Gwei
    l1_base_fee_gwei: Gwei
    blob_base_fee_gwei: Gwei
    has_blob_reserve: bool
    batch_gas: Whole
    batch_bytes: Some

    @property
    def price_wei(self) -> int:
        """What a unit of its own gas costs."""
        return to_wei(self.base_fee_gwei)

    @property
    def unit_wei(self) -> int:
        """What a unit of data costs once ArbOS has found its price: a byte is 16 of them."""
        fee_wei, blob_wei = to_wei(self.l1_base_fee_gwei), to_wei(self.blob_base_fee_gwei)
        if self.has_blob_reserve:
            blob_wei = reserve_blob_fee_wei(blob_wei, fee_wei)
        return (blob_wei + fee_wei * self.batch_gas // self.batch_bytes) // UNITS

    def charge(self, gas: int, calldata: Sized) -> Charge:
        """Return what a call is charged: its gas here, and its data below."""
        return Charge(gas * self.price_wei, calldata.brotli_bytes * UNITS * self.unit_wei)

    def replace_prices(self, base_fee_gwei: float | None, l1_base_fee_gwei: float | None) -> Self:
        """Return the same at other base fees."""
        own = self.base_fee_gwei if base_fee_gwei is None else base_fee_gwei
        below = self.l1_base_fee_gwei if l1_base_fee_gwei is None else l1_base_fee_gwei
        return replace(self, base_fee_gwei=own, l1_base_fee_gwei=below)
