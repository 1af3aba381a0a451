"""Puts the referee on a chain, with its ABI bound: the leaf contract first, which it asks."""

from typing import Any, Protocol, TypeVar

from contracts.compiler import Artifact, compile_contract


class Deployed(Protocol):
    """A contract on a chain."""

    @property
    def address(self) -> Any:
        """Where it stands."""


ContractT_co = TypeVar("ContractT_co", bound=Deployed, covariant=True)


class Deployer(Protocol[ContractT_co]):
    """What is needed of a chain here; `offchain.chain.Chain` has it."""

    def deploy(self, artifact: Artifact, *args: Any, sender: Any) -> ContractT_co:
        """Deploy a contract with these constructor arguments."""

    def at(self, artifact: Artifact, address: Any) -> ContractT_co:
        """Return the contract that stands at an address already."""


def deploy_referee(chain: Deployer[ContractT_co], sender: str) -> ContractT_co:
    """Deploy the leaf contract and the referee; return the referee.

    Raises:
        CompileError: a source does not compile.
        ChainError: as the chain's own `deploy`.
    """
    leaf = chain.deploy(compile_contract("leaf"), sender=sender)
    return chain.deploy(compile_contract("referee"), leaf.address, sender=sender)


def bind_referee(chain: Deployer[ContractT_co], address: str) -> ContractT_co:
    """Return the referee that stands at an address already."""
    return chain.at(compile_contract("referee"), address)
