"""The flows of money in a market; their sum is zero."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Protocol

from moot.contracts.model.types import Address
from moot.offchain.errors import ChainError


class Bank(Protocol):
    """A chain or a model that knows the balances of accounts."""

    def balance(self, address: Address) -> int:
        """Return an account's balance in wei."""


def read_balances(bank: Bank, addresses: Iterable[Address]) -> dict[Address, int]:
    """Return balances in wei."""
    return {address: bank.balance(address) for address in addresses}


@dataclass(frozen=True, slots=True)
class Flows:
    """The money that has flowed since some moment, in wei; an outflow is negative.

    Attributes:
        accounts_wei: to everybody's accounts.
        contract_wei: to the referee's own balance.
        burned_wei: away for ever, by the rules.
        fees_wei: to the chain, for gas.
    """

    accounts_wei: int = 0
    contract_wei: int = 0
    burned_wei: int = 0
    fees_wei: int = 0

    @property
    def sum_wei(self) -> int:
        """The sum of all, which is 0 when value is conserved."""
        return self.accounts_wei + self.contract_wei + self.burned_wei + self.fees_wei

    def __add__(self, other: "Flows") -> "Flows":
        return Flows(
            self.accounts_wei + other.accounts_wei,
            self.contract_wei + other.contract_wei,
            self.burned_wei + other.burned_wei,
            self.fees_wei + other.fees_wei,
        )

    def check(self) -> None:
        """Raise ChainError unless value is conserved."""
        if self.sum_wei:
            raise ChainError(
                f"the market's accounts do not add up by {self.sum_wei} wei; "
                "use a chain on which nobody else moves their money and none of them earns fees"
            )
