"""The rule of a market's chain: the gas of a call as `chain.kind` charges it.

The table of gas was measured under Prague's rule. Another chain charges the same call otherwise: by
a higher floor of calldata, or for its data as well. What the data costs on the layer below is
counted as so much more of the chain's own gas, at the price at which the market begins; so it goes
up and down with that price, and not with one of its own. The table knows about how many words of
calldata a call has and not which bytes of it are zero, so that none is taken to be: what
a rollup charges is a little less.
"""

from dataclasses import dataclass
from functools import lru_cache

from moot.offchain.errors import UsageError
from moot.sim.chains.calldata import Bound
from moot.sim.chains.chain import TRANSACTION_GAS, USUAL, Chain
from moot.sim.chains.files import find_chain
from moot.sim.economy.gas import Kind

_WORD, _SELECTOR = 32, 4


@dataclass(frozen=True, slots=True)
class ChainRule:
    """The rule of a chain, at the price at which a market begins.

    Attributes:
        chain: the chain.
        price_wei: of a unit of its gas, with the tip.
    """

    chain: Chain
    price_wei: int

    @property
    def is_usual(self) -> bool:
        """Whether a call has the gas that was measured: the first layer, with Prague's floor."""
        usual = find_usual()
        return self.chain.kind == usual.kind and self.chain.calldata == usual.calldata

    def convert(self, kind: Kind, gas: int) -> int:
        """Return the gas of a call of a kind, which was measured to use so much."""
        if self.is_usual:
            return gas
        data = Bound(_WORD * kind.words + _SELECTOR)
        rule = self.chain.calldata
        if rule != find_usual().calldata:
            gas = max(gas, TRANSACTION_GAS + rule.floor_nonzero_gas * data.nonzeros)
        return gas + -(-self.chain.fees.charge(gas, data).data_wei // self.price_wei)


@lru_cache(maxsize=1)
def find_usual() -> Chain:
    """Return the chain whose rules the chain in memory has."""
    return find_chain(USUAL)


def make_rule(name: str, base_fee_gwei: float, tip_gwei: float) -> ChainRule:
    """Return the rule of a chain.

    Args:
        name: as `find_chain` takes it.
        base_fee_gwei: at which the market begins, of the chain's own gas.
        tip_gwei: what is paid above it.

    Raises:
        UsageError: there is no such chain, or gas is free on it.
    """
    price_wei = round((base_fee_gwei + tip_gwei) * 10**9)
    if price_wei < 1:
        raise UsageError(f"gas at {base_fee_gwei + tip_gwei:g} gwei is free; choose 1e-9 or more")
    return ChainRule(find_chain(name), price_wei)
