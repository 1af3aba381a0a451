"""A chain: a TOML file with its rules, its prices and its delays, each with a source and a date."""

from typing import Annotated, Self

from msgspec import Meta, Struct
from msgspec.structs import replace

from moot.offchain.errors import UsageError
from moot.sim.chains.kinds.base import Charge, Sized, Some, Whole
from moot.sim.chains.kinds.table import AnyFees

USUAL = "l1-prague"
"""The chain whose rules the chain in memory has."""
TRANSACTION_GAS = 21_000

Seconds = Annotated[float, Meta(ge=0, le=1e8)]
Tick = Annotated[float, Meta(gt=0, le=1e4)]
Day = Annotated[str, Meta(pattern=r"^\d{4}-\d\d-\d\d$")]
Words = Annotated[str, Meta(min_length=1)]


class Bytes(Struct, frozen=True, forbid_unknown_fields=True):
    """The gas of calldata: the greater of the standard price with the execution, and of a floor.

    Attributes:
        zero_gas: of a zero byte.
        nonzero_gas: of another.
        floor_zero_gas: what a zero byte costs at least, execution included (EIP-7623); 0 for none.
        floor_nonzero_gas: the same of another.
    """

    zero_gas: Whole
    nonzero_gas: Whole
    floor_zero_gas: Whole
    floor_nonzero_gas: Whole

    def calculate_gas(self, execution: int, calldata: Sized) -> int:
        """Return the gas of a call, refunds subtracted from its execution."""
        zeros, nonzeros = calldata.zeros, calldata.nonzeros
        standard = self.zero_gas * zeros + self.nonzero_gas * nonzeros
        floor = self.floor_zero_gas * zeros + self.floor_nonzero_gas * nonzeros
        return TRANSACTION_GAS + max(standard + execution, floor)


class Blocks(Struct, frozen=True, forbid_unknown_fields=True):
    """The blocks of a chain.

    Attributes:
        gas_limit: of a block.
        transaction_gas_limit: of a transaction.
        seconds: from one block to the next.
        number_seconds: from one number to the next that a contract reads as `block.number`.
        elasticity: the parts of a block of which one is its target.
        denominator: a full block raises the base fee by `elasticity - 1` parts of so many.
    """

    gas_limit: Some
    transaction_gas_limit: Some
    seconds: Tick
    number_seconds: Tick
    elasticity: Annotated[int, Meta(ge=2, le=1000)]
    denominator: Annotated[int, Meta(ge=1, le=10**6)]


class Delays(Struct, frozen=True, forbid_unknown_fields=True):
    """The delays of a chain, in seconds.

    Attributes:
        finality_s: until no honest reorganisation takes a block.
        force_inclusion_s: for how long a sequencer alone may keep a call out; 0 without one.
        withdrawal_s: until money that leaves is on the layer below.
    """

    finality_s: Seconds
    force_inclusion_s: Seconds
    withdrawal_s: Seconds


class Money(Struct, frozen=True, forbid_unknown_fields=True):
    """The price of an ETH.

    Attributes:
        currency: in which it is stated.
        eth_price: of an ETH.
        source: where the prices of this file are from.
        date: of these prices.
    """

    currency: Words
    eth_price: Annotated[float, Meta(gt=0, le=1e9)]
    source: Words
    date: Day


class Chain(Struct, frozen=True):
    """A chain as its file has it.

    Attributes:
        name: its file's, without `.toml`.
        kind: of its fees: `l1`, `op-stack` or `arbitrum`.
        fork: the rules that it has.
        source: where all but the prices is from.
        date: when that was looked up.
        calldata: the gas of calldata.
        block: its blocks.
        delay: its delays.
        money: the price of an ETH.
        fees: its prices, and the formula of its kind.
    """

    name: str
    kind: str
    fork: Words
    source: Words
    date: Day
    calldata: Bytes
    block: Blocks
    delay: Delays
    money: Money
    fees: AnyFees

    def calculate_gas(self, execution: int, calldata: Sized) -> int:
        """Return the gas of a call by the chain's rule."""
        return self.calldata.calculate_gas(execution, calldata)

    def charge(self, execution: int, calldata: Sized) -> Charge:
        """Return what a call is charged, in wei."""
        return self.fees.charge(self.calculate_gas(execution, calldata), calldata)

    def replace_prices(
        self,
        base_fee_gwei: float | None = None,
        own_base_fee_gwei: float | None = None,
        eth_price: float | None = None,
    ) -> Self:
        """Return the same chain at other prices.

        Args:
            base_fee_gwei: of the first layer, which of a rollup is the layer below.
            own_base_fee_gwei: of a rollup's own gas; of no other chain.
            eth_price: of an ETH.

        Raises:
            UsageError: a price is impossible.
        """
        for name, price in (
            ("base fee", base_fee_gwei),
            ("base fee of a rollup", own_base_fee_gwei),
        ):
            if price is not None and not 0 <= price <= 1e6:
                raise UsageError(f"a {name} of {price} gwei is none; choose 0 to 1,000,000")
        if eth_price is not None and not 0 < eth_price <= 1e9:
            raise UsageError(f"an ETH does not cost {eth_price}; choose a price above 0")
        money = self.money if eth_price is None else replace(self.money, eth_price=eth_price)
        fees = self.fees.replace_prices(own_base_fee_gwei, base_fee_gwei)
        return replace(self, fees=fees, money=money)

    def to_fiat(self, wei: float) -> float:
        """Return an amount in the currency of the file."""
        return wei / 10**18 * self.money.eth_price
