"""Fees of the first layer: gas at the base fee and a tip (EIP-1559)."""

from typing import Self

from msgspec import Struct
from msgspec.structs import replace

from moot.sim.chains.kinds.base import Charge, Gwei, Sized, Some, Whole, to_wei
from moot.sim.chains.kinds.blobs import calculate_blob_fee_wei, reserve_blob_fee_wei


class LayerOne(Struct, frozen=True, forbid_unknown_fields=True):
    """The prices of the first layer. What a call is charged is its gas at base fee and tip.

    Attributes:
        base_fee_gwei: of a unit of gas.
        tip_gwei: what is paid above it.
        blob_excess_gas: blob gas beyond the target, of which the price of blobs is the exponential.
        blob_update_fraction: of the fork: what the excess is divided by.
        has_blob_reserve: whether a blob costs no less than a part of the base fee (EIP-7918).
    """

    base_fee_gwei: Gwei
    tip_gwei: Gwei
    blob_excess_gas: Whole
    blob_update_fraction: Some
    has_blob_reserve: bool

    @property
    def price_wei(self) -> int:
        """What a unit of gas costs, with the tip."""
        return to_wei(self.base_fee_gwei) + to_wei(self.tip_gwei)

    @property
    def blob_fee_wei(self) -> int:
        """What a unit of blob gas costs; a blob is 2^17 of them. A dispute sends none."""
        fee_wei = calculate_blob_fee_wei(self.blob_excess_gas, self.blob_update_fraction)
        if not self.has_blob_reserve:
            return fee_wei
        return reserve_blob_fee_wei(fee_wei, to_wei(self.base_fee_gwei))

    def charge(self, gas: int, calldata: Sized) -> Charge:
        """Return what a call is charged: its gas has its calldata in it."""
        del calldata
        return Charge(gas * self.price_wei)

    def replace_prices(self, base_fee_gwei: float | None, l1_base_fee_gwei: float | None) -> Self:
        """Return the same at another base fee of the first layer; it has no other."""
        del base_fee_gwei
        return self if l1_base_fee_gwei is None else replace(self, base_fee_gwei=l1_base_fee_gwei)
