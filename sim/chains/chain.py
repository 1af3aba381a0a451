"""A chain: a TOML file with its rules, its prices and its delays, each with a source and a date."""

import tomllib
from collections.abc import Mapping
from math import isfinite
from pathlib import Path
from typing import Annotated, Any, Self, get_type_hints

import msgspec
from msgspec import Meta, Struct
from msgspec.structs import replace

from moot.offchain.errors import UsageError
from moot.sim.chains.kinds.base import Charge, Sized, Some, Whole
from moot.sim.chains.kinds.table import KINDS, AnyFees

FOLDER = Path(__file__).parent
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
            own_base_fee_gwei: of the chain's own gas.
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


def list_chains() -> list[str]:
    """Return the names of the chains that come with us."""
    return sorted(path.stem for path in FOLDER.glob("*.toml"))


def find_chain(name: str) -> Chain:
    """Return the chain of a name, or of a TOML file.

    Raises:
        UsageError: there is neither, or the file lacks a key, or has one that is impossible.
    """
    names = list_chains()
    path = FOLDER / f"{name}.toml" if name in names else Path(name)
    if name not in names and path.suffix != ".toml":
        raise UsageError.unknown("chain", name, names)
    try:
        values = tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise UsageError(f"cannot read {path}: {error.strerror}") from error
    except (UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise UsageError(f"{path} is not TOML: {error}") from error
    return parse_chain(values, path.stem, str(path))


def parse_chain(values: Mapping[str, Any], name: str, source: str) -> Chain:
    """Return the chain with these values.

    Args:
        values: as a TOML file has them.
        name: of the chain.
        source: what an error begins with.

    Raises:
        UsageError: a key is missing, unknown or impossible.
    """
    kind = values.get("kind")
    if kind not in KINDS:
        raise UsageError(f"{source}: kind is {kind!r}; choose one of {', '.join(KINDS)}")
    wanted = {**get_type_hints(Chain), "fees": KINDS[kind]}
    wanted.pop("name")
    given: dict[str, Any] = {}
    _check_keys(values, wanted, source, "")
    for key, hint in wanted.items():
        if isinstance(hint, type) and issubclass(hint, Struct):
            if not isinstance(values[key], Mapping):
                raise UsageError(f"{source}: {key} is no table; write [{key}]")
            _check_keys(values[key], get_type_hints(hint), source, f"{key}.")
            _check_finite(values[key], source, f"{key}.")
        try:
            given[key] = msgspec.convert(values[key], hint)
        except msgspec.ValidationError as error:
            what, _, where = str(error).partition(" - at `$")
            place = f"{key}{where.strip('`')}"
            raise UsageError(
                f"{source}: {place}: {what[0].lower()}{what[1:].replace('`', '')}"
            ) from None
    return Chain(name=name, **given)


def _check_keys(
    values: Mapping[str, Any], wanted: Mapping[str, Any], source: str, place: str
) -> None:
    """Refuse a key that there is not, with the nearest that there is, and the lack of one."""
    names = [f"{place}{name}" for name in wanted]
    for key in values:
        if key not in wanted:
            raise UsageError.unknown(f"key in {source}", f"{place}{key}", names, "keys")
    for key in wanted:
        if key not in values:
            raise UsageError(f"{source}: {place}{key} is missing; every chain states it")


def _check_finite(values: Mapping[str, Any], source: str, place: str) -> None:
    """Refuse what is no number although it is written like one."""
    for key, value in values.items():
        if isinstance(value, float) and not isfinite(value):
            raise UsageError(
                f"{source}: {place}{key}: {value} is not a number that a chain can have"
            )
