"""A machine of py-evm, the EVM that our chain in memory and our development node run."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

from eth.abc import ComputationAPI
from eth.exceptions import Revert
from eth.vm.message import Message
from eth_tester import PyEVMBackend
from eth_typing import Address as EthAddress

from moot.contracts.compiler import Artifact
from moot.offchain.chain.codec import Codec
from moot.offchain.chain.reverts import decode_revert
from tests.machines.base import (
    BALANCE,
    BALANCE_WEI,
    CHAIN_ID,
    DEPLOYER,
    GAS,
    HALTED,
    Deployed,
    Machine,
    Result,
    Words,
    get_word,
    name_contract,
    read_address,
)

_JUMPDEST = 0x5B


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
        old = get_word(self.storage, (address, slot))
        return self.written.get((address, slot), old) if from_journal else old

    def set_storage(self, address: bytes, slot: int, value: int) -> None:
        """Write a word."""
        self.written[address, slot] = value

    def get_balance(self, address: bytes) -> int:
        """Return a balance in wei; an account that was never paid has BALANCE_WEI."""
        place = (address, BALANCE)
        return self.written.get(place, get_word(self.storage, place))

    def set_balance(self, address: bytes, balance: int) -> None:
        """Change a balance."""
        self.written[address, BALANCE] = balance

    def list_changes(self) -> frozenset[tuple[tuple[bytes, int], int]]:
        """Return all words that have changed."""
        return frozenset(
            (place, word)
            for place, word in self.written.items()
            if get_word(self.storage, place) != word
        )


class PyEvm(Machine):
    """A machine of py-evm: see `Machine`."""

    def __init__(self, accounts: Iterable[str]) -> None:
        self._vm = PyEVMBackend().chain.get_vm()
        self._state = self._vm.state
        self.chain_id = self._state.execution_context.chain_id
        assert self.chain_id == CHAIN_ID
        for account in accounts:
            self._state.set_balance(read_address(account), BALANCE_WEI)

    def deploy(self, artifact: Artifact, *args: Any, sender: str = "") -> Deployed:
        """Run a deployment as a plain message, whose output is the code."""
        del sender
        codec = Codec(artifact.abi)
        nonce = self._state.get_nonce(DEPLOYER)
        address = name_contract(nonce)
        self._state.set_nonce(DEPLOYER, nonce + 1)
        code = artifact.bytecode + codec.encode_constructor(args)
        message = Message(GAS, EthAddress(address), EthAddress(DEPLOYER), 0, b"", code)
        kind = self._state.computation_class
        computation = kind.apply_message(self._state, message, self._context(DEPLOYER))
        assert not computation.is_error, computation.error
        self._state.set_code(address, computation.output)
        return Deployed("0x" + address.hex(), address, codec)

    def call(
        self, to: bytes, data: bytes, *, sender: str, value_wei: int, block: int, gas: int = GAS
    ) -> Result:
        """Send one message with so much gas; a refused one changes nothing."""
        self._state.execution_context._block_number = block
        origin = read_address(sender)
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
        """Make a call on a storage, which stays as it is."""
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

    def _context(self, origin: bytes) -> Any:
        return self._state.get_transaction_context_class()(gas_price=1, origin=origin)

    def storage(self, address: bytes, slot: int) -> int:
        """Return a word of a contract's storage."""
        return int(self._state.get_storage(address, slot))

    def balance(self, address: str) -> int:
        """Return a balance in wei."""
        return int(self._state.get_balance(read_address(address)))

    def snapshot(self) -> Any:
        """Return a mark of the present state."""
        return self._state.snapshot()

    def revert(self, mark: Any) -> None:
        """Go back to a mark."""
        self._state.revert(mark)


def _explain(computation: ComputationAPI) -> str:
    is_refused = isinstance(computation.error, Revert)
    return decode_revert(computation.output) if is_refused else HALTED


def watch_jumps(note: Callable[[bytes, int], object]) -> None:
    """Report where every jump arrives: in which contract, at which byte of its code.

    It holds for every machine of py-evm's in this process.
    """
    opcodes = PyEVMBackend().chain.get_vm().state.computation_class.opcodes
    arrive = opcodes[_JUMPDEST]

    def watch(computation: ComputationAPI) -> None:
        note(computation.msg.code_address, computation.code.program_counter - 1)
        arrive(computation)

    opcodes[_JUMPDEST] = watch
