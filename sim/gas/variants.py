"""Deploys referees: as the source has them, or compiled to open fewer levels in a move."""

import re
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from moot.contracts.compiler import SOURCE_DIR, Artifact, read_sources
from moot.contracts.deployment import deploy_referee
from moot.offchain.arithmetic.base import Arithmetic
from moot.offchain.arithmetic.ordered import ORDERED
from moot.offchain.chain import Address, Chain, Contract
from moot.offchain.commitments import tree
from moot.offchain.errors import CompileError

ARITY_LOG2 = tree.MAX_ARITY_LOG2
"""The levels of a tree that a move opens at most in the committed source."""
_MODULE = "merkle.vy"


@dataclass(frozen=True, slots=True)
class Deployment:
    """A contract that was put on the chain, what that cost in gas, and its size in bytes."""

    name: str
    gas: int
    runtime_size: int


def deploy(
    chain: Chain, arity_log2: int, arithmetic: Arithmetic = ORDERED
) -> tuple[Contract, tuple[Deployment, ...]]:
    """Deploy a referee whose moves open at most so many levels, and the contracts that it calls."""
    deployer = _Deployer(chain)
    with _open_sources(arity_log2) as folder:
        referee = deploy_referee(deployer, chain.accounts[0], arithmetic, folder)
    return referee, tuple(deployer.deployments)


@contextmanager
def agreeing(arity_log2: int) -> Iterator[None]:
    """Let players open at most so many levels in a move, as a referee of this arity expects."""
    before = tree.MAX_ARITY_LOG2
    tree.MAX_ARITY_LOG2 = arity_log2
    try:
        yield
    finally:
        tree.MAX_ARITY_LOG2 = before


class _Deployer:
    """A chain that remembers what was deployed."""

    def __init__(self, chain: Chain) -> None:
        self._chain = chain
        self.deployments: list[Deployment] = []

    def deploy(self, artifact: Artifact, *args: Any, sender: Address) -> Contract:
        """Deploy a contract."""
        contract = self._chain.deploy(artifact, *args, sender=sender)
        assert contract.deployment is not None
        gas = contract.deployment.gas_used
        self.deployments.append(Deployment(artifact.name, gas, artifact.runtime_size))
        return contract

    def at(self, artifact: Artifact, address: Address) -> Contract:
        """Return the contract that stands at an address already."""
        return self._chain.at(artifact, address)


@contextmanager
def _open_sources(arity_log2: int) -> Iterator[Path]:
    """Give a folder with the sources of a referee of this arity."""
    if arity_log2 == ARITY_LOG2:
        yield SOURCE_DIR
        return
    sources = read_sources(SOURCE_DIR)
    sources[_MODULE] = change_arity(sources[_MODULE], arity_log2)
    with tempfile.TemporaryDirectory() as folder:
        for path, text in sources.items():
            Path(folder, path).write_text(text, encoding="utf-8")
        yield Path(folder)


def change_arity(text: str, arity_log2: int) -> str:
    """Return the source of the trees' module for another arity.

    The fold of an opening is written for four levels, and stays so.

    Raises:
        CompileError: the source is not as it is expected here.
    """
    changes = (
        (rf"(ARITY_LOG2: constant\(uint256\) = ){ARITY_LOG2}\n", rf"\g<1>{arity_log2}\n"),
        (rf"(ARITY: constant\(uint256\) = ){1 << ARITY_LOG2}\n", rf"\g<1>{1 << arity_log2}\n"),
        (r"bytes32\[ARITY_LOG2\]", f"bytes32[{ARITY_LOG2}]"),
        (r"in range\(ARITY_LOG2\)", f"in range({ARITY_LOG2})"),
    )
    for pattern, replacement in changes:
        text, count = re.subn(pattern, replacement, text)
        if count != 1:
            raise CompileError(f"{pattern} is there {count} times, not once", file=_MODULE)
    return text
