"""The price of gas, block by block: a base fee that follows demand (EIP-1559), and spikes of it."""

import math

from sim.economy.config import Chain
from sim.economy.streams import Stream

_DENOMINATOR = 8
"""A full block raises the base fee by an eighth, an empty one lowers it by as much."""

_TARGET_GAS = 18_000_000
"""Half of a block's limit of 36 million gas."""

_LIMIT_GAS = 2 * _TARGET_GAS


class Prices:
    """The price of gas in every block.

    Other people's demand in a block is such that the base fee stays near that of the beginning:
    it is the target times (fee of the beginning / fee) times a factor that is drawn, and during a
    spike times another. What this market uses comes on top of that.

    Args:
        chain: what is configured.
        seed: of the run.
    """

    def __init__(self, chain: Chain, seed: int) -> None:
        self._chain = chain
        self._stream = Stream(seed, "demand")
        self._start_wei = self.base_fee_wei = round(chain.base_fee_gwei * 10**9)
        self._tip_wei = round(chain.tip_gwei * 10**9)
        self.block = 0

    @property
    def price_wei(self) -> int:
        """What a unit of gas costs in the current block, with the tip."""
        return self.base_fee_wei + self._tip_wei

    def go_on(self, block: int, used_gas: int) -> None:
        """Go on to a later block.

        Args:
            block: its number.
            used_gas: what this market has used in the block that was current until now.
        """
        chain, start_wei, stream = self._chain, self._start_wei, self._stream
        fee_wei, volatility = self.base_fee_wei, chain.volatility
        for number in range(self.block, block):
            demand = _TARGET_GAS * start_wei / fee_wei
            if volatility:
                demand *= math.exp(volatility * stream.draw_normal())
            if chain.spike_every and number % chain.spike_every < chain.spike_blocks:
                demand *= chain.spike_factor
            used = min(_LIMIT_GAS, int(demand) + used_gas)
            used_gas = 0
            fee_wei += fee_wei * (used - _TARGET_GAS) // _TARGET_GAS // _DENOMINATOR
            fee_wei = max(fee_wei, 7)
        self.base_fee_wei, self.block = fee_wei, block
