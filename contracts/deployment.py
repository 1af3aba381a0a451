"""The deployment of the referee, and before it of the contracts that the referee calls."""

from pathlib import Path
from typing import Any, Protocol, TypeVar

from moot.contracts.compiler import SOURCE_DIR, Artifact, compile_contract
from moot.offchain.arithmetic.base import Arithmetic
from moot.offchain.arithmetic.ordered import ORDERED


class Deployed(Protocol):
    """A contract on a chain."""

    @property
    def address(self) -> Any:
        """Where it stands."""


ContractT_co = TypeVar("ContractT_co", bound=Deployed, covariant=True)


class Deployer(Protocol[ContractT_co]):
    """A chain that can deploy contracts, such as `moot.offchain.chain.Chain`."""

    def deploy(self, artifact: Artifact, *args: Any, sender: Any) -> ContractT_co:
        """Deploy a contract with these constructor arguments."""

    def at(self, artifact: Artifact, address: Any) -> ContractT_co:
        """Return the contract that stands at an address already."""


def deploy_referee(
    chain: Deployer[ContractT_co],
    sender: str,
    arithmetic: Arithmetic = ORDERED,
    source_dir: Path = SOURCE_DIR,
) -> ContractT_co:
    """Deploy the referee of programs of an arithmetic, and first the contracts that it trusts.

    Raises:
        CompileError: a source does not compile.
        ChainError: as the chain's own `deploy`.
    """
    functions = chain.deploy(compile_contract("transcendental", source_dir), sender=sender)
    leaf = chain.deploy(compile_contract("leaf", source_dir), functions.address, sender=sender)
    name = arithmetic.contracts
    if name != ORDERED.name:
        # It leaves to the other one what means the same in both.
        own = compile_contract("leaf", source_dir, name)
        leaf = chain.deploy(own, leaf.address, sender=sender)
    legality = compile_contract("legality", source_dir, name)
    trusted = (leaf.address, chain.deploy(legality, leaf.address, sender=sender).address)
    return chain.deploy(compile_contract("referee", source_dir, name), *trusted, sender=sender)


def deploy_availability(
    chain: Deployer[ContractT_co], sender: str, source_dir: Path = SOURCE_DIR
) -> ContractT_co:
    """Deploy the contract that takes clients' promises about jobs of any referee.

    Raises:
        CompileError: the source does not compile.
        ChainError: as the chain's own `deploy`.
    """
    return chain.deploy(compile_contract("availability", source_dir), sender=sender)


def deploy_delivery(
    chain: Deployer[ContractT_co], sender: str, source_dir: Path = SOURCE_DIR
) -> ContractT_co:
    """Deploy the contract that takes premiums for the results of jobs of any referee.

    Raises:
        CompileError: the source does not compile.
        ChainError: as the chain's own `deploy`.
    """
    return chain.deploy(compile_contract("delivery", source_dir), sender=sender)


def bind_referee(
    chain: Deployer[ContractT_co], address: str, arithmetic: Arithmetic = ORDERED
) -> ContractT_co:
    """Return the referee of programs of an arithmetic that stands at an address already."""
    return chain.at(compile_contract("referee", arithmetic=arithmetic.contracts), address)
