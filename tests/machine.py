"""The deployed referee in a bare EVM: real bytecode in py-evm, without transactions or blocks.

A call is one message in a block whose number the caller says. It skips signing, fees and mining,
which cost more than the EVM, and what it leaves out is tested on whole chains elsewhere.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from eth.abc import ComputationAPI
from eth.vm.message import Message
from eth_tester import PyEVMBackend

from contracts.compiler import Artifact
from offchain.chain.codec import Codec
from offchain.chain.receipts import Address, Log
from offchain.chain.reverts import decode_revert

BALANCE_WEI = 10**27
_GAS = 1 << 24
_DEPLOYER = b"\xdd" * 20


@dataclass(frozen=True, slots=True)
class Result:
    """What came of a call: logs as (topics, data), or the reason for which it was refused."""

    output: bytes
    logs: tuple[tuple[tuple[int, ...], bytes], ...]
    reason: str | None


@dataclass(frozen=True, slots=True)
class Deployed:
    """A contract: its address, in both spellings, and its codec."""

    address: str
    raw: bytes
    codec: Codec


class Machine:
    """An EVM with funded accounts and one contract after another.

    Args:
        accounts: lower-case addresses that get BALANCE_WEI.
    """

    def __init__(self, accounts: Iterable[str]) -> None:
        self._vm = PyEVMBackend().chain.get_vm()
        self._state = self._vm.state
        self.chain_id = self._state.execution_context.chain_id
        for account in accounts:
            self._state.set_balance(_raw(account), BALANCE_WEI)

    def deploy(self, artifact: Artifact, *args: Any, sender: str = "") -> "Deployed":
        """Run a deployment; the sender does not matter."""
        del sender
        codec = Codec(artifact.abi)
        nonce = self._state.get_nonce(_DEPLOYER)
        address = nonce.to_bytes(20, "big")[:-20] + bytes([0xC0 + nonce]) * 20
        self._state.set_nonce(_DEPLOYER, nonce + 1)
        code = artifact.bytecode + codec.encode_constructor(args)
        message = Message(_GAS, b"", _DEPLOYER, 0, b"", code, create_address=address)
        kind = self._state.computation_class
        computation = kind.apply_create_message(self._state, message, self._context(_DEPLOYER))
        assert not computation.is_error, computation.error
        return Deployed("0x" + address.hex(), address, codec)

    def at(self, artifact: Artifact, address: str) -> "Deployed":
        """Return the contract that stands at an address already."""
        return Deployed(address, _raw(address), Codec(artifact.abi))

    def call(self, to: bytes, data: bytes, *, sender: str, value_wei: int, block: int) -> Result:
        """Send one message; a refused one changes nothing."""
        self._state.execution_context._block_number = block
        origin = _raw(sender)
        code = self._state.get_code(to)
        message = Message(_GAS, to, origin, value_wei, data, code)
        kind = self._state.computation_class
        found = kind.apply_message(self._state, message, self._context(origin))
        if found.is_error:
            return Result(b"", (), _explain(found))
        logs = tuple((tuple(topics), data) for _, topics, data in found.get_log_entries())
        return Result(found.output, logs, None)

    def _context(self, origin: bytes) -> Any:
        return self._state.get_transaction_context_class()(gas_price=1, origin=origin)

    def storage(self, address: bytes, slot: int) -> int:
        """Return a word of a contract's storage."""
        return int(self._state.get_storage(address, slot))

    def balance(self, address: str) -> int:
        """Return a balance in wei."""
        return int(self._state.get_balance(_raw(address)))

    def root(self) -> bytes:
        """Return the digest of the whole state."""
        self._state.lock_changes()
        return bytes(self._state.make_state_root())

    def snapshot(self) -> Any:
        """Return a mark of the present state."""
        return self._state.snapshot()

    def revert(self, mark: Any) -> None:
        """Go back to a mark."""
        self._state.revert(mark)


def make_log(address: bytes, block: int, topics: Sequence[int], data: bytes) -> Log:
    """Return a log as a chain would, to be decoded."""
    words = tuple(topic.to_bytes(32, "big") for topic in topics)
    return Log(Address("0x" + address.hex()), block, words, data)


def _raw(address: str) -> bytes:
    return bytes.fromhex(address.removeprefix("0x"))


def _explain(computation: ComputationAPI) -> str:
    return decode_revert(computation.output) or str(computation.error)
