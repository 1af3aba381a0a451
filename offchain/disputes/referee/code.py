"""The comparison of contracts' code on a chain with the code of this version."""

from collections.abc import Iterator
from functools import cache
from typing import Any

from moot.contracts.compiler import Artifact
from moot.contracts.deployment import deploy_referee, deploy_service
from moot.contracts.model.types import Address
from moot.offchain.arithmetic.base import Arithmetic
from moot.offchain.arithmetic.ordered import ORDERED
from moot.offchain.chain import Address as ChainAddress
from moot.offchain.chain import Chain, Contract
from moot.offchain.chain.connection import TESTER, connect


class _Recorder:
    """Deploys contracts on a chain, and remembers which of them stands where."""

    def __init__(self, chain: Chain) -> None:
        self._chain = chain
        self.addresses: dict[str, ChainAddress] = {}

    def deploy(self, artifact: Artifact, *args: Any, sender: ChainAddress) -> Contract:
        """Deploy a contract; one that stands on another of its name takes that name over."""
        contract = self._chain.deploy(artifact, *args, sender=sender)
        below = f"{artifact.name} below"
        self.addresses = {
            below if name == artifact.name else name: it for name, it in self.addresses.items()
        }
        self.addresses[artifact.name] = contract.address
        return contract

    def at(self, artifact: Artifact, address: ChainAddress) -> Contract:
        """Return a contract that stands there already."""
        return self._chain.at(artifact, address)


REFEREE, CHALLENGES, SERVICE = "referee", "challenges", "service"
"""The contracts that are looked at with those that they ask."""


@cache
def _get_own_codes(
    arithmetic: Arithmetic = ORDERED, kind: str = REFEREE
) -> dict[str, tuple[bytes, bytes]]:
    """Return the address and the code of each contract of this version, on a chain in memory.

    They are the one of a kind, which is the last, and those that it asks.
    """
    with connect(TESTER) as memory:
        recorder = _Recorder(memory)
        if kind == REFEREE:
            deploy_referee(recorder, memory.accounts[0], arithmetic)
        else:
            deploy_service(recorder, memory.accounts[0], arithmetic)
        if kind == CHALLENGES:
            del recorder.addresses[SERVICE]
        return {
            name: (bytes.fromhex(address.removeprefix("0x")), memory.node.get_code(address))
            for name, address in recorder.addresses.items()
        }


def compare_codes(
    chain: Chain, referee: Address, arithmetic: Arithmetic, kind: str = REFEREE
) -> Iterator[tuple[str, str | None]]:
    """Compare the code of a referee, and of the contracts that it asks, with our own.

    So it does for the other two kinds, a service and the contract of its challenges.

    Yields the name of each contract, with one line about the problem, or None if there is none.
    The first with a problem is the last.

    Our own are those that referee programs of the arithmetic: the job's terms bind the arithmetic
    with the program, and no referee compares it with its own.

    A contract's code holds the addresses of those that it asks, which depend on the chain: where
    our own code has the address of one, the code found has to have the address of the same code.
    """
    codes, places = _get_own_codes(arithmetic, kind), {kind: referee}
    for name in reversed(codes):  # whoever asks is deployed after those that it asks
        address = ChainAddress(places[name])
        own, found = codes[name][1], chain.node.get_code(address)
        expected = bytearray(own)  # an address put in may be, by chance, that of another of ours
        for other, (known, _) in codes.items():
            if (start := own.find(known)) >= 0:
                end = start + len(known)
                # Two that ask the same contract have to ask it at the same address.
                place = places.setdefault(other, "0x" + found[start:end].hex())
                expected[start:end] = bytes.fromhex(place.removeprefix("0x"))
        problem = f"the code at {address} is not this version's for programs in {arithmetic.name}"
        if expected != found:
            yield name, problem
            return
        yield name, None
