"""The price of gas, block by block: a base fee that follows demand (EIP-1559), and spikes of it."""

from moot.sim.chains.files import find_chain
from moot.sim.economy.config import Chain
from moot.sim.economy.streams import draw_factors
from moot.sim.traces.series import read_base_fees

_KEPT = 1 << 16
"""The prices of so many blocks are remembered at least, and of twice as many at most."""


class Prices:
    """The price of gas in every block.

    Other people's demand in a block is such that the base fee stays near that of the beginning:
    it is the target times (fee of the beginning / fee) times a factor that is drawn, and during a
    spike times another. What this market uses comes on top of that. With a trace of base fees it is
    what that says, again from its beginning at its end, whatever anybody uses.

    Args:
        chain: what is configured.
        seed: of the run.

    Attributes:
        block: the current block.
        base_fee_wei: what a unit of gas costs in it.
        price_wei: the same with the tip.
        highest_wei: the highest price that there has been.
    """

    def __init__(self, chain: Chain, seed: int) -> None:
        self._chain = chain
        block = find_chain(chain.kind).block
        self._limit_gas, self._denominator = block.gas_limit, block.denominator
        self._target_gas = block.gas_limit // block.elasticity
        self._factors = draw_factors(seed, "demand", chain.volatility)
        self._trace = read_base_fees(chain.base_fees) if chain.base_fees else []
        self._start_wei = round(chain.base_fee_gwei * 10**9)
        self.base_fee_wei = self._trace[0] if self._trace else self._start_wei
        self._tip_wei = round(chain.tip_gwei * 10**9)
        self.price_wei = self.base_fee_wei + self._tip_wei
        self.block = 0
        self._past, self._first = [self.base_fee_wei], 0
        self.highest_wei = self.price_wei

    def find_price(self, block: int) -> int:
        """Return the price of a block of the past; 0 if it is not remembered."""
        index = block - self._first
        return self._past[index] + self._tip_wei if index >= 0 else 0

    def go_on(self, block: int, used_gas: int, wanted_wei: int = 0) -> None:
        """Go on to a later block, or to the first before it whose price is low enough.

        Args:
            block: its number.
            used_gas: what this market has used in the block that was current until now.
            wanted_wei: which price is low enough.
        """
        past, known, wanted_wei = self._past, len(self._past), wanted_wei - self._tip_wei
        chain, start_wei, factors = self._chain, self._start_wei, self._factors
        fee_wei, spike_every = self.base_fee_wei, chain.spike_every
        target_gas, limit_gas, denominator = self._target_gas, self._limit_gas, self._denominator
        trace = self._trace
        for number in range(self.block, block):
            if trace:
                fee_wei = trace[(number + 1) % len(trace)]
            else:
                demand = target_gas * start_wei / fee_wei * next(factors)
                if spike_every and number % spike_every < chain.spike_blocks:
                    demand *= chain.spike_factor
                surplus = min(limit_gas, int(demand) + used_gas) - target_gas
                used_gas = 0
                if surplus > 0:
                    fee_wei += max(fee_wei * surplus // target_gas // denominator, 1)
                else:
                    fee_wei -= fee_wei * -surplus // target_gas // denominator
            past.append(fee_wei)
            if fee_wei <= wanted_wei:
                block = number + 1
                break
        self.highest_wei = max(self.highest_wei, max(past[known:]) + self._tip_wei)
        if len(past) > 2 * _KEPT:
            self._first += len(past) - _KEPT
            del past[:-_KEPT]
        self.base_fee_wei, self.block = fee_wei, block
        self.price_wei = fee_wei + self._tip_wei
