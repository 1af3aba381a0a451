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
    leaf, name = _deploy_leaf(chain, sender, arithmetic, source_dir), arithmetic.contracts
    legality = compile_contract("legality", source_dir, name)
    trusted = (leaf.address, chain.deploy(legality, leaf.address, sender=sender).address)
    return chain.deploy(compile_contract("referee", source_dir, name), *trusted, sender=sender)


def deploy_service(
    chain: Deployer[ContractT_co],
    sender: str,
    arithmetic: Arithmetic = ORDERED,
    source_dir: Path = SOURCE_DIR,
    *,
    leaf: str | None = None,
) -> tuple[ContractT_co, ContractT_co]:
    """Deploy a service of receipts of programs of an arithmetic, and first its challenges.

    Args:
        chain: the chain.
        sender: who deploys.
        arithmetic: of the receipts' programs.
        source_dir: where the sources are.
        leaf: the address of the leaf contract of a referee of that arithmetic, which serves
            challenges as well; without it another one is deployed.

    Returns:
        The contract in which receipts are challenged, and the service.

    Raises:
        CompileError: a source does not compile.
        ChainError: as the chain's own `deploy`.
    """
    trusted = leaf or _deploy_leaf(chain, sender, arithmetic, source_dir).address
    source = compile_contract("challenges", source_dir, arithmetic.contracts)
    challenges = chain.deploy(source, trusted, sender=sender)
    service = compile_contract("service", source_dir)
    return challenges, chain.deploy(service, challenges.address, sender=sender)


def _deploy_leaf(
    chain: Deployer[ContractT_co], sender: str, arithmetic: Arithmetic, source_dir: Path
) -> ContractT_co:
    """Deploy the contract that computes leaves, and first those that it asks."""
    functions = chain.deploy(compile_contract("transcendental", source_dir), sender=sender)
    leaf = chain.deploy(compile_contract("leaf", source_dir), functions.address, sender=sender)
    if arithmetic.contracts == ORDERED.name:
        return leaf
    # It leaves to the other one what means the same in both.
    own = compile_contract("leaf", source_dir, arithmetic.contracts)
    return chain.deploy(own, leaf.address, sender=sender)


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
