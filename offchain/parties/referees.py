"""Referees on a chain: one is deployed for an arithmetic, and one that stands is recognised."""

from dataclasses import dataclass

from moot.contracts.deployment import deploy_referee
from moot.offchain.arithmetic.base import Arithmetic
from moot.offchain.arithmetic.table import ARITHMETICS, find_arithmetic
from moot.offchain.chain import Address, Chain
from moot.offchain.disputes.referee.code import compare_codes
from moot.offchain.errors import UsageError
from moot.offchain.parties.context import open_keys, opened_chain
from moot.offchain.parties.events import Tell
from moot.offchain.parties.settings import Settings


def deploy(settings: Settings, tell: Tell) -> Address:
    """Deploy the referee of programs of the settings' arithmetic, and return its address.

    Raises:
        UsageError: a setting is missing or wrong, or there is no such arithmetic.
        ChainError: the chain refuses, or fails.
    """
    arithmetic = find_arithmetic(settings.arithmetic)
    settings.require("chain", "key")
    signers = open_keys(settings, tell)
    with opened_chain(settings, tell, signers) as chain:
        contract = deploy_referee(chain, signers[0].address, arithmetic)
    return Address(contract.address)


@dataclass(frozen=True, slots=True)
class Recognised:
    """What a referee is found to be.

    Attributes:
        decides: the arithmetics of which its contracts compute a scalar operation.
        rules: those whose disputes it takes to an operator, which a verifier decides.
        problem: what is wrong with it in one line, where it is none of this version's.
    """

    decides: tuple[str, ...]
    rules: tuple[str, ...]
    problem: str | None


def recognise(chain: Chain, address: Address) -> Recognised:
    """Compare the code at an address, and the contracts that it asks, with those of this version.

    Raises:
        ChainError: the chain fails.
    """
    problems = {name: find_problem(chain, address, it) for name, it in ARITHMETICS.items()}
    fitting = [it for name, it in ARITHMETICS.items() if problems[name] is None]
    decides = tuple(it.name for it in fitting if it.ends_on_chain)
    first = None if fitting else next(iter(problems.values()))
    return Recognised(decides, tuple(it.name for it in fitting), first)


def find_problem(chain: Chain, address: Address, arithmetic: Arithmetic) -> str | None:
    """Return why a referee is not this version's for programs of an arithmetic, if it is not."""
    codes = compare_codes(chain, address, arithmetic)
    return next((problem for _, problem in codes if problem is not None), None)


def require_decidable(chain: Chain, address: Address, arithmetic: Arithmetic) -> None:
    """Refuse a referee that can't decide programs of an arithmetic (`UsageError`)."""
    if problem := find_problem(chain, address, arithmetic):
        others = recognise(chain, address).rules
        known = f"; that one is for {' and '.join(others)}" if others else ""
        raise UsageError(
            f"{problem}{known}; choose another --referee, or make one by `moot referee deploy "
            f"--arithmetic {arithmetic.name}`"
        )
