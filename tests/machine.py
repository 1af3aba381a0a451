"""The deployed referee in a bare EVM: real bytecode in py-evm, without transactions or blocks.

A call is one message in a block whose number the caller says. It skips signing, fees and mining,
which cost more than the EVM, and what it leaves out is tested on whole chains elsewhere.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from eth.abc import ComputationAPI
from eth.vm.message import Message
from eth_tester import PyEVMBackend
from eth_typing import Address as EthAddress

from moot.contracts.compiler import Artifact
from moot.offchain.chain.codec import Codec
from moot.offchain.chain.receipts import Address, Log
from moot.offchain.chain.reverts import decode_revert

BALANCE_WEI = 10**30
"""More than any amount that a call may bring."""
_GAS = 1 << 24
_DEPLOYER = b"\xdd" * 20
_BALANCE = -1
_JUMPDEST = 0x5B


@dataclass(frozen=True, slots=True)
class Result:
    """The result of a call: its logs as (topics, data), or the reason for which it was refused.

    `emitters` are the contracts of which the logs are; `fees` is what whom it has cost, in wei.
    """

    output: bytes
    logs: tuple[tuple[tuple[int, ...], bytes], ...]
    reason: str | None
    emitters: tuple[bytes, ...] = ()
    fees: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Deployed:
    """A contract: its address, in both spellings, and its codec."""

    address: str
    raw: bytes
    codec: Codec


Words = Mapping[tuple[bytes, int], int]
"""The storage of contracts: words by contract and slot, and under -1 an address's balance."""


@dataclass(slots=True)
class Memory:
    """The storage of contracts, in place of the machine's own state.

    Attributes:
        storage: the words that were there before.
        written: the words that have been written since; they are not in `storage`.
    """

    storage: Words
    written: dict[tuple[bytes, int], int] = field(default_factory=dict)

    def get_storage(self, address: bytes, slot: int, from_journal: bool = True) -> int:  # noqa: FBT001, FBT002 - py-evm's
        """Return a word."""
        old = self.storage.get((address, slot), 0)
        return self.written.get((address, slot), old) if from_journal else old

    def set_storage(self, address: bytes, slot: int, value: int) -> None:
        """Write a word."""
        self.written[address, slot] = value

    def get_balance(self, address: bytes) -> int:
        """Return a balance in wei; an account that was never paid has BALANCE_WEI."""
        place = (address, _BALANCE)
        return self.written.get(place, self.storage.get(place, BALANCE_WEI))

    def set_balance(self, address: bytes, balance: int) -> None:
        """Change a balance."""
        self.written[address, _BALANCE] = balance

    def list_changes(self) -> frozenset[tuple[tuple[bytes, int], int]]:
        """Return all words that have changed."""
        return frozenset(
            (place, word)
            for place, word in self.written.items()
            if self.storage.get(place, 0) != word
        )


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
        address = bytes([0xC0 + nonce]) * 20
        self._state.set_nonce(_DEPLOYER, nonce + 1)
        # As a plain message, whose output is the code: so that no limit holds for its size.
        code = artifact.bytecode + codec.encode_constructor(args)
        message = Message(_GAS, EthAddress(address), EthAddress(_DEPLOYER), 0, b"", code)
        kind = self._state.computation_class
        computation = kind.apply_message(self._state, message, self._context(_DEPLOYER))
        assert not computation.is_error, computation.error
        self._state.set_code(address, computation.output)
        return Deployed("0x" + address.hex(), address, codec)

    def at(self, artifact: Artifact, address: str) -> "Deployed":
        """Return the contract that stands at an address already."""
        return Deployed(address, _raw(address), Codec(artifact.abi))

    def call(
        self, to: bytes, data: bytes, *, sender: str, value_wei: int, block: int, gas: int = _GAS
    ) -> Result:
        """Send one message with so much gas; a refused one changes nothing."""
        self._state.execution_context._block_number = block
        origin = _raw(sender)
        code = self._state.get_code(to)
        message = Message(gas, EthAddress(to), EthAddress(origin), value_wei, data, code)
        kind = self._state.computation_class
        found = kind.apply_message(self._state, message, self._context(origin))
        if found.is_error:
            return Result(b"", (), _explain(found))
        entries = found.get_log_entries()
        logs = tuple((tuple(topics), data) for _, topics, data in entries)
        return Result(found.output, logs, None, tuple(emitter for emitter, _, _ in entries))

    def answer(self, to: bytes, data: bytes, before: Words, **where: Any) -> tuple[Any, ...]:
        """Make a call on a storage, which stays as it is.

        Returns:
            The reason for a refusal, or output, logs and all that is written.
        """
        memory = Memory(before)
        self.remember_in(memory)
        result = self.call(to, data, **where)
        if result.reason is not None:
            return (result.reason,)
        return (result.output, result.logs, memory.list_changes())

    def remember_in(self, memory: Memory) -> None:
        """Let contracts read and write this storage, until this is called with another one."""
        for name in ("get_storage", "set_storage", "get_balance", "set_balance"):
            setattr(self._state, name, getattr(memory, name))

    def watch_jumps(self, note: Callable[[bytes, int], object]) -> None:
        """Report where every jump arrives: in which contract, at which byte of its code.

        It holds for every machine of this process.
        """
        opcodes = self._state.computation_class.opcodes
        arrive = opcodes[_JUMPDEST]

        def watch(computation: ComputationAPI) -> None:
            note(computation.msg.code_address, computation.code.program_counter - 1)
            arrive(computation)

        opcodes[_JUMPDEST] = watch

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
    return Log(Address("0x" + address.hex()), (block, 0), words, data)


def _raw(address: str) -> bytes:
    return bytes.fromhex(address.removeprefix("0x"))


def _explain(computation: ComputationAPI) -> str:
    return decode_revert(computation.output) or str(computation.error)
