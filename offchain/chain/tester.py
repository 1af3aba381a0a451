"""The whole chain in this process: eth-tester's funded accounts over py-evm, with Prague rules.

Transactions go to py-evm directly: past eth-tester's own validation and conversions, which cost
more than the EVM. Those that are sent together are in one block, or, where its gas is not enough,
in as few as have room. Block times are a fixed function of block numbers, so the same calls make
the same chain, block hashes included.
"""

from collections.abc import Sequence
from typing import Any, cast

from eth.abc import ComputationAPI, ReceiptAPI, SignedTransactionAPI, VirtualMachineAPI
from eth.chains.base import MiningChain
from eth.exceptions import InvalidInstruction, OutOfGas, PyEVMError, Revert, VMError
from eth.vm.forks.london.transactions import LondonTransactionBuilder
from eth.vm.forks.prague import PragueVM
from eth_tester import PyEVMBackend
from eth_typing import Address as RawAddress
from eth_typing import BlockNumber
from eth_utils.exceptions import ValidationError

from moot.offchain.chain.node import CALL_GAS_LIMIT
from moot.offchain.chain.receipts import Address, Log, Mined, Past, Transaction
from moot.offchain.chain.reverts import INVALID_INSTRUCTION, OUT_OF_GAS, decode_revert
from moot.offchain.errors import ChainError, ChainUnavailable, Reverted, TransactionRefused

GENESIS_TIME_S = 1_700_000_000
BLOCK_TIME_S = 12
BALANCE_WEI = 10**27
BLOCK_GAS = 30_029_122
"""Gas of a block to begin with: eth-tester's own."""

HD_PATH = "m/44'/60'/0'/0"
"""Where nodes for development look for their accounts below a mnemonic."""

# The tip equals the cap, so the price does not move with the base fee (7 wei to 1 gwei here) until
# many full blocks in a row have lifted that above it.
GAS_PRICE_WEI = 2 * 10**9

_NOBODY = RawAddress(bytes(20))
_CREATION = RawAddress(b"")


class Tester:
    """A chain in memory, with as many accounts as asked for, each holding `BALANCE_WEI`.

    They are eth-tester's own, or those that other nodes derive from the mnemonic.
    """

    def __init__(
        self,
        accounts: int,
        block_gas: int = BLOCK_GAS,
        vm: type[VirtualMachineAPI] = PragueVM,
        mnemonic: str | None = None,
        genesis_time: int = GENESIS_TIME_S,
    ) -> None:
        genesis = {"timestamp": genesis_time, "gas_limit": block_gas}
        self._backend = PyEVMBackend(
            vm_configuration=((0, vm),),
            genesis_parameters=PyEVMBackend.generate_genesis_params(genesis),
            genesis_state=PyEVMBackend.generate_genesis_state(
                {"balance": BALANCE_WEI}, accounts, mnemonic, HD_PATH
            ),
            mnemonic=mnemonic,
            hd_path=HD_PATH,
        )
        self._keys = {
            _show(key.public_key.to_canonical_address()): key for key in self._backend.account_keys
        }
        # The block that was looked at last, and its state: what was read of it once is at hand.
        self._looked_at: tuple[bytes, VirtualMachineAPI] | None = None
        self._set_time()

    def get_chain_id(self) -> int:
        """See Node."""
        return self._chain.chain_id

    def get_accounts(self) -> tuple[Address, ...]:
        """See Node."""
        return tuple(self._keys)

    def get_block_number(self) -> int:
        """See Node."""
        return self._chain.header.block_number - 1

    def get_balance(self, address: Address) -> int:
        """See Node."""
        return self._chain.get_vm().state.get_balance(_parse(address))

    def get_code(self, address: Address) -> bytes:
        """See Node."""
        return self._chain.get_vm().state.get_code(_parse(address))

    def get_block_hash(self, number: int) -> bytes | None:
        """See Node."""
        if number > self.get_block_number():
            return None
        return self._chain.get_canonical_block_header_by_number(BlockNumber(number)).hash

    def get_logs(
        self, address: Address, first: int, last: int, keys: Sequence[bytes] = ()
    ) -> tuple[Log, ...]:
        """See Node."""
        logs: list[Log] = []
        for number in range(first, min(last, self.get_block_number()) + 1):
            block = self._chain.get_canonical_block_by_number(BlockNumber(number))
            receipts = block.get_receipts(self._chain.chaindb)
            pairs = zip(block.transactions, receipts, strict=True)
            found = [(log, signed.hash) for signed, receipt in pairs for log in receipt.logs]
            logs += [read_log(log, (number, i), sent) for i, (log, sent) in enumerate(found)]
        chosen = set(keys)
        return tuple(
            log
            for log in logs
            if log.address == address and (not keys or chosen.intersection(log.topics[1:2]))
        )

    def get_past(self, transaction_hash: str, block: int) -> Past | None:
        """See Node."""
        if block > self.get_block_number():
            return None
        found = self._chain.get_canonical_block_by_number(BlockNumber(block))
        before = 0
        receipts = found.get_receipts(self._chain.chaindb)
        for signed, receipt in zip(found.transactions, receipts, strict=True):
            if "0x" + signed.hash.hex() == transaction_hash:
                return Past(
                    transaction_hash=transaction_hash,
                    sender=_show(signed.sender),
                    to=_show(signed.to) if signed.to else None,
                    data=signed.data,
                    gas_used=receipt.gas_used - before,
                    gas_price_wei=signed.max_fee_per_gas,
                )
            before = receipt.gas_used
        return None

    def view(
        self,
        call: str,
        to: Address,
        data: bytes,
        number: int | None = None,
        sender: Address | None = None,
        value_wei: int = 0,
    ) -> bytes:
        """See Node; after the block of this number and as this sender, if they are given."""
        head = self._chain.get_canonical_head()
        if number is not None:
            head = self._chain.get_canonical_block_header_by_number(BlockNumber(number))
        if self._looked_at is None or self._looked_at[0] != head.hash:
            self._looked_at = head.hash, self._chain.get_vm(head)
        _, vm = self._looked_at
        before = vm.state.snapshot()
        asker = _NOBODY if sender is None else _parse(sender)
        computation = vm.execute_bytecode(
            origin=asker,
            gas_price=0,
            gas=CALL_GAS_LIMIT,
            to=_parse(to),
            sender=asker,
            value=value_wei,
            data=data,
            code=vm.state.get_code(_parse(to)),
        )
        vm.state.revert(before)
        if computation.is_error:
            raise Reverted(_explain(computation), call)
        return computation.output

    def get_block_gas(self) -> int:
        """See Node."""
        return self._chain.get_canonical_head().gas_limit

    def send(self, transactions: Sequence[Transaction]) -> list[Mined | ChainError]:
        """See Node."""
        answers = [self._put_in_block(transaction) for transaction in transactions]
        if self._chain.header.gas_used:
            self._mine_block()
        return answers

    def _put_in_block(self, transaction: Transaction) -> Mined | ChainError:
        """Execute a transaction in the block that is being made, or the next if that is full."""
        header = self._chain.header
        if header.gas_used and header.gas_limit - header.gas_used < transaction.gas_limit:
            self._mine_block()
        number, before = self._chain.header.block_number, self._chain.header.gas_used
        try:
            signed = self._sign(transaction)
            receipt, computation = self._apply(signed)
        except (ValidationError, PyEVMError) as error:
            return TransactionRefused(transaction.call, str(error))
        except TransactionRefused as refusal:
            return refusal
        gas_used = receipt.gas_used - before
        if computation.is_error:
            spent = {"gas_used": gas_used, "price_wei": signed.max_fee_per_gas}
            return Reverted(_explain(computation), transaction.call, **spent)
        return Mined(
            transaction_hash="0x" + signed.hash.hex(),
            block=number,
            gas_used=gas_used,
            effective_gas_price=signed.max_fee_per_gas,
            contract=None if transaction.to else _show(computation.msg.storage_address),
            logs=tuple(
                read_log(log, (number, i), signed.hash) for i, log in enumerate(receipt.logs)
            ),
        )

    def _apply(self, signed: SignedTransactionAPI) -> tuple[ReceiptAPI, ComputationAPI]:
        """Execute a transaction in the block that is being made."""
        _, receipt, computation = self._chain.apply_transaction(signed)
        return receipt, computation

    def mine(self, blocks: int) -> None:
        """See Node."""
        for _ in range(blocks):
            self._mine_block()

    def snapshot(self) -> bytes:
        """See Node."""
        return cast("bytes", self._backend.take_snapshot())

    def revert(self, mark: Any) -> None:
        """See Node."""
        self._backend.revert_to_snapshot(mark)
        self._set_time()

    def distrust(self, problem: str) -> ChainUnavailable:
        """See Node."""
        return ChainUnavailable("tester", problem)

    def close(self) -> None:
        """See Node."""

    @property
    def _chain(self) -> MiningChain:
        # A revert to the genesis replaces the chain, so it is asked for every time.
        return cast("MiningChain", self._backend.chain)

    def _sign(self, transaction: Transaction) -> SignedTransactionAPI:
        nonce = self._chain.get_vm().state.get_nonce(_parse(transaction.sender))
        price_wei = max(GAS_PRICE_WEI, self._chain.header.base_fee_per_gas or 0)
        return self.sign_with(transaction, nonce, (price_wei, price_wei))

    def sign_with(
        self, transaction: Transaction, nonce: int, fees: tuple[int, int]
    ) -> SignedTransactionAPI:
        """Sign with a key of this chain's; the fees are the highest price and the tip, in wei."""
        key = self._keys.get(transaction.sender)
        if key is None:
            problem = f"{transaction.sender} is not an account of this chain"
            raise TransactionRefused(transaction.call, problem)
        vm = self._chain.get_vm()
        builder = cast("type[LondonTransactionBuilder]", vm.get_transaction_builder())
        unsigned = builder.new_unsigned_dynamic_fee_transaction(
            chain_id=transaction.chain_id,
            nonce=nonce,
            max_priority_fee_per_gas=fees[1],
            max_fee_per_gas=fees[0],
            gas=min(transaction.gas_limit, self._chain.header.gas_limit),
            to=_parse(transaction.to) if transaction.to else _CREATION,
            value=transaction.value_wei,
            data=transaction.data,
            access_list=(),
        )
        return unsigned.as_signed_transaction(key)

    def _mine_block(self) -> None:
        self._chain.mine_block(coinbase=_NOBODY, mix_hash=bytes(32), blob_gas_used=0)
        self._set_time()

    def _set_time(self) -> None:
        number = self._chain.header.block_number
        self._chain.set_header_timestamp(GENESIS_TIME_S + BLOCK_TIME_S * number)


def _show(raw: bytes) -> Address:
    return Address("0x" + raw.hex())


def _parse(address: Address) -> RawAddress:
    return RawAddress(bytes.fromhex(address.removeprefix("0x")))


def read_log(log: Any, place: tuple[int, int], transaction: bytes) -> Log:
    """Return a log of py-evm: its place is the block and its number there."""
    topics = tuple(topic.to_bytes(32, "big") for topic in log.topics)
    return Log(_show(log.address), place, topics, log.data, "0x" + transaction.hex())


def _explain(computation: ComputationAPI) -> str:
    error: VMError = computation.error
    if isinstance(error, Revert):
        return decode_revert(computation.output)
    if isinstance(error, OutOfGas):
        return OUT_OF_GAS
    if isinstance(error, InvalidInstruction):
        return INVALID_INSTRUCTION
    return str(error)
