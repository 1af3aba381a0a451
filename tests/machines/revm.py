"""A machine of revm, the EVM of other people's clients, by the bindings that Vyper's tests use.

It is some forty times as fast as py-evm, and nobody of it has had a hand in ours: what a contract
says on both is what the EVM says.
"""

import re
from collections.abc import Iterable, Iterator
from typing import Any

from pyrevm import EVM, AccountInfo, BlockEnv, CfgEnv, Env

from moot.contracts.compiler import EVM_VERSION, Artifact
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
    calculate_sent_gas,
    get_word,
    name_contract,
    read_address,
)

_ACCOUNT = re.compile(r"(0x[0-9a-f]{40}): Account \{ info: AccountInfo \{ balance: (\d+),")
_SLOT = re.compile(r"(\d+): StorageSlot \{[^}]*present_value: (\d+) \}")
_REVERTED = re.compile(r"Revert \{ gas_used: \d+, output: 0x([0-9a-f]*) \}")


class Revm(Machine):
    """A machine of revm: see `Machine`."""

    chain_id = CHAIN_ID

    def __init__(self, accounts: Iterable[str]) -> None:
        self._evm = EVM(env=Env(cfg=CfgEnv(chain_id=CHAIN_ID)), spec_id=EVM_VERSION.upper())
        self._contracts = 0
        self._known = {DEPLOYER, *map(read_address, accounts)}
        for address in self._known:
            self._evm.set_balance(_spell(address), BALANCE_WEI)

    def deploy(self, artifact: Artifact, *args: Any, sender: str = "") -> Deployed:
        """Run a deployment as a plain message, whose output is the code."""
        del sender
        codec = Codec(artifact.abi)
        raw = name_contract(self._contracts)
        address = _spell(raw)
        self._contracts += 1
        self._known.add(raw)
        code = artifact.bytecode + codec.encode_constructor(args)
        self._evm.insert_account_info(address, AccountInfo(code=code))
        result = self.call(raw, b"", sender=_spell(DEPLOYER), value_wei=0, block=0)
        assert result.reason is None, result.reason
        self._evm.insert_account_info(address, AccountInfo(code=result.output))
        return Deployed(address, raw, codec)

    def call(
        self, to: bytes, data: bytes, *, sender: str, value_wei: int, block: int, gas: int = GAS
    ) -> Result:
        """Send one message with so much gas; a refused one changes nothing."""
        evm = self._evm
        evm.set_block_env(BlockEnv(number=block))
        evm.reset_transient_storage()
        gas += calculate_sent_gas(data)
        try:
            output = evm.message_call(sender, _spell(to), data, value_wei, gas)
        except RuntimeError as error:
            return Result(b"", (), _explain(str(error)))
        found = evm.result.logs
        logs = tuple((tuple(int(word, 16) for word in it.topics), it.data[1]) for it in found)
        return Result(output, logs, None, tuple(read_address(it.address) for it in found))

    def answer(self, to: bytes, data: bytes, before: Words, **where: Any) -> tuple[Any, ...]:
        """Make a call on a storage, which stays as it is."""
        evm = self._evm
        mark = evm.snapshot()
        self._known |= {
            read_address(where["sender"]),
            *(it for it, slot in before if slot == BALANCE),
        }
        for address in self._known:
            evm.set_balance(_spell(address), before.get((address, BALANCE), BALANCE_WEI))
        for (address, slot), word in before.items():
            if slot != BALANCE:
                evm.insert_account_storage(_spell(address), slot, word)
        result = self.call(to, data, **where)
        now = [*self._list_words()] if result.reason is None else []
        evm.revert(mark)
        if result.reason is not None:
            return (result.reason,)
        changed = ((it, word) for it, word in now if word != get_word(before, it))
        return (result.output, result.logs, frozenset(changed))

    def storage(self, address: bytes, slot: int) -> int:
        """Return a word of a contract's storage."""
        return int(self._evm.storage(_spell(address), slot))

    def balance(self, address: str) -> int:
        """Return a balance in wei."""
        return int(self._evm.get_balance(address))

    def snapshot(self) -> Any:
        """Return a mark of the present state."""
        return self._evm.snapshot()

    def revert(self, mark: Any) -> None:
        """Go back to a mark."""
        self._evm.revert(mark)

    def _list_words(self) -> Iterator[tuple[tuple[bytes, int], int]]:
        """Yield all words and balances that calls may have touched: the journal shows as text."""
        for account in self._evm.journal_str.split("status: AccountStatus(")[:-1]:
            named = _ACCOUNT.search(account)
            assert named is not None
            address = read_address(named[1])
            paid = int(named[2])
            yield (address, BALANCE), paid + BALANCE_WEI * (address not in self._known)
            for slot, word in _SLOT.findall(account, account.rindex("storage: {")):
                yield (address, int(slot)), int(word)


def _spell(address: bytes) -> str:
    return "0x" + address.hex()


def _explain(error: str) -> str:
    """Return why a call was refused.

    Raises:
        AssertionError: it never was a call.
    """
    if error.startswith("Halt {"):
        return HALTED
    reverted = _REVERTED.fullmatch(error)
    assert reverted is not None, error
    return decode_revert(bytes.fromhex(reverted[1]))
