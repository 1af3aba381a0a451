"""What every rollup has: prices of its own and of the first layer, that both may be replaced."""

from typing import Self

from msgspec import Struct
from msgspec.structs import replace

from moot.sim.chains.kinds.base import Gwei, to_wei
from moot.sim.chains.kinds.blobs import reserve_blob_fee_wei


class Rollup(Struct, frozen=True, forbid_unknown_fields=True):
    """The prices of a rollup.

    Attributes:
        base_fee_gwei: of a unit of its own gas.
        l1_base_fee_gwei: of a unit of gas on the first layer.
        blob_base_fee_gwei: of a unit of blob gas there.
        has_blob_reserve: whether that is no less than a sixteenth of the former (EIP-7918).
    """

    base_fee_gwei: Gwei
    l1_base_fee_gwei: Gwei
    blob_base_fee_gwei: Gwei
    has_blob_reserve: bool

    @property
    def below_wei(self) -> tuple[int, int]:
        """What a unit of gas and one of blob gas cost on the first layer."""
        fee_wei, blob_wei = to_wei(self.l1_base_fee_gwei), to_wei(self.blob_base_fee_gwei)
        if self.has_blob_reserve:
            blob_wei = reserve_blob_fee_wei(blob_wei, fee_wei)
        return fee_wei, blob_wei

    def replace_prices(self, base_fee_gwei: float | None, l1_base_fee_gwei: float | None) -> Self:
        """Return the same at other base fees."""
        own = self.base_fee_gwei if base_fee_gwei is None else base_fee_gwei
        below = self.l1_base_fee_gwei if l1_base_fee_gwei is None else l1_base_fee_gwei
        return replace(self, base_fee_gwei=own, l1_base_fee_gwei=below)
