"""Opens a chain, and plays contracts on it."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Self

from moot.offchain.chain.gas import split_gas
from moot.offchain.chain.node import Node
from moot.offchain.chain.receipts import (
    GAS_LIMIT,
    Address,
    Event,
    Log,
    Mined,
    Receipt,
    Transaction,
)
from moot.offchain.errors import BadCall, ChainError, ChainIdChanged, UsageError

if TYPE_CHECKING:
    from moot.contracts.compiler import Artifact
    from moot.offchain.chain.codec import Codec

TESTER = "tester"
DEFAULT_ACCOUNTS = 32
DEFAULT_PATIENCE_S = 120.0


def connect(
    url: str | None = TESTER,
    *,
    accounts: int = DEFAULT_ACCOUNTS,
    chain_id: int | None = None,
    patience_seconds: float = DEFAULT_PATIENCE_S,
) -> "Chain":
    """Open the chain at `url`: `tester` (or None), or an http(s) or ws(s) JSON-RPC address.

    The tester is a new chain in this process with this many funded accounts, the same ones
    every time; a node brings its own. `chain_id`, if given, is the one that it must have. A
    node is given `patience_seconds` to put a transaction, or nothing, into its next block.

    Raises:
        ChainUnavailable: nothing answers there as a node does.
        ChainIdChanged: the chain has another id.
        UsageError: the address is of no kind that we know.

    Example:
        >>> import moot
        >>> chain = moot.connect("tester", accounts=5)
        >>> len(chain.accounts), chain.balance(chain.accounts[0]) > 10**18
        (5, True)
    """
    # Each brings a library that is slow to import, and that the other has no need of.
    if url in {None, TESTER}:
        from moot.offchain.chain.tester import Tester  # noqa: PLC0415

        return Chain(Tester(accounts), chain_id)
    from moot.offchain.chain.jsonrpc import JsonRpc  # noqa: PLC0415

    return Chain(JsonRpc(str(url), patience_seconds), chain_id)


def find_genesis(node: Node) -> bytes:
    """Return the hash of a chain's first block, by which what is kept on a disk is named.

    It is asked for twice: an error here would hide all that was signed before.

    Raises:
        ChainUnavailable: there is none, or another one the second time.
    """
    found = node.get_block_hash(0)
    if found is None or found != node.get_block_hash(0):
        raise node.distrust("it has no first block, or two")
    return found


class Chain:
    """A chain, under one chain id for as long as it is open; a context manager that closes it.

    Example:
        >>> import moot
        >>> with moot.connect("tester") as chain:
        ...     chain.mine(3)
        ...     chain.block_number() >= 3
        True
    """

    def __init__(self, node: Node, chain_id: int | None) -> None:
        self.node = node
        self.chain_id: int = node.get_chain_id() if chain_id is None else chain_id
        self._check_chain_id()
        self.accounts: tuple[Address, ...] = node.get_accounts()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Give up the connection."""
        self.node.close()

    def block_number(self) -> int:
        """Return the number of the latest block."""
        return self.node.get_block_number()

    def block_hash(self, number: int) -> bytes | None:
        """Return the hash of a block; None if the chain has none of this number."""
        return self.node.get_block_hash(number)

    def balance(self, address: Address) -> int:
        """Return a balance in wei."""
        return self.node.get_balance(address)

    def mine(self, blocks: int = 1) -> None:
        """Let the chain grow by this many blocks: mine them, or wait where nobody may."""
        self.node.mine(blocks)

    def snapshot(self) -> Any:
        """Return a mark of the present state, for one `revert`."""
        return self.node.snapshot()

    def revert(self, mark: Any) -> None:
        """Put the whole chain, blocks included, back to a mark."""
        self.node.revert(mark)

    def deploy(self, artifact: "Artifact", *args: Any, sender: Address) -> "Contract":
        """Deploy a contract with these constructor arguments; its `deployment` is the receipt.

        Raises:
            BadCall: the arguments do not fit the constructor.
            ChainError: as `Contract.transact`.
        """
        from moot.offchain.chain.codec import CONSTRUCTOR, Codec  # noqa: PLC0415 - imports eth_abi

        codec = Codec(artifact.abi)
        data = artifact.bytecode + codec.encode_constructor(args)
        transaction = Transaction(self.chain_id, CONSTRUCTOR, sender, None, data, 0)
        (mined,) = self.send([transaction])
        if isinstance(mined, ChainError):
            raise mined
        assert mined.contract is not None
        receipt = _make_receipt(transaction, mined, mined.contract, codec)
        return Contract(self, mined.contract, codec, receipt)

    def at(self, artifact: "Artifact", address: Address) -> "Contract":
        """Return the contract that stands at an address already, or raise UsageError."""
        from moot.offchain.chain.codec import Codec  # noqa: PLC0415 - imports eth_abi

        if not self.node.get_code(address):
            raise UsageError(f"no contract at {address}; check the address and the chain")
        return Contract(self, address, Codec(artifact.abi), None)

    def _check_chain_id(self) -> None:
        found = self.node.get_chain_id()
        if found != self.chain_id:
            raise ChainIdChanged(self.chain_id, found)

    def send(self, transactions: Sequence[Transaction]) -> list[Mined | ChainError]:
        """Send transactions, unless the chain id has changed; see `Node.send`."""
        self._check_chain_id()
        return self.node.send(transactions)


class Contract:
    """A contract on a chain; `deployment` is its receipt if it was deployed here."""

    def __init__(
        self, chain: Chain, address: Address, codec: "Codec", deployment: Receipt | None
    ) -> None:
        self.address = address
        self.deployment = deployment
        self._chain = chain
        self._codec = codec

    def call(self, name: str, *args: Any) -> Any:
        """Return what a function would return after the latest block; changes nothing.

        A single result is not wrapped in a tuple; structs are tuples.

        Raises:
            UsageError: there is no such function.
            BadCall: the arguments, or what came back, do not fit the ABI.
            Reverted: the contract rejected the call.
        """
        data = self._codec.encode_call(name, args)
        result = self._chain.node.view(name, self.address, data)
        return self._codec.decode_result(name, args, result)

    def ask_for(self, name: str, *args: Any) -> tuple[str, list[Any]]:
        """Return the question that `call` asks, to be asked together with others."""
        data = "0x" + self._codec.encode_call(name, args).hex()
        return "eth_call", [{"to": self.address, "data": data}, "latest"]

    def read_result(self, name: str, args: Sequence[Any], result: bytes) -> Any:
        """Return what the answer to such a question says, or raise BadCall."""
        return self._codec.decode_result(name, args, result)

    def read_log(self, log: Log) -> Event:
        """Return the event of a log of this contract, or raise BadCall."""
        return self._codec.decode_log(log)

    def transact(
        self,
        name: str,
        *args: Any,
        sender: Address,
        value: int = 0,
        through: "Contract | None" = None,
    ) -> Receipt:
        """Call a function in a transaction that carries `value` wei, and wait for its block.

        The function may be that of another contract, `through` which this one is called; the
        receipt's events are this one's all the same.

        Raises:
            UsageError: there is no such function.
            BadCall: the arguments do not fit the ABI, or the value is negative.
            ChainIdChanged: the node serves another chain by now; nothing was sent.
            TransactionRefused: the node did not take it: unknown sender, too little balance.
            Reverted: the contract rejected the call, with its reason.
            TransactionLost: no block has it in time.
            ChainUnavailable: the connection broke; the transaction may be mined all the same.
        """
        transaction = self.prepare(name, *args, sender=sender, value=value, through=through)
        (receipt,) = self.send([transaction])
        if isinstance(receipt, ChainError):
            raise receipt
        return receipt

    def prepare(
        self,
        name: str,
        *args: Any,
        sender: Address,
        value: int = 0,
        through: "Contract | None" = None,
        gas_limit: int = GAS_LIMIT,
    ) -> Transaction:
        """Return the transaction of a call, for `send`.

        Raises:
            UsageError: there is no such function.
            BadCall: the arguments do not fit the ABI, or the value is negative.
        """
        if value < 0:
            raise BadCall(name, f"it cannot carry {value} wei")
        called = through or self
        data = called._codec.encode_call(name, args)  # noqa: SLF001 - of this class
        chain_id = self._chain.chain_id
        return Transaction(chain_id, name, sender, called.address, data, value, gas_limit)

    def send(self, transactions: Sequence[Transaction]) -> list[Receipt | ChainError]:
        """Send many calls at once, and wait for their blocks.

        Each has its receipt in the result, or the error that `transact` would have raised.

        Raises:
            ChainIdChanged: the node serves another chain by now; nothing was sent.
            ChainUnavailable: the connection broke; the transactions may be mined all the same.
        """
        mined = self._chain.send(transactions)
        return [
            answer
            if isinstance(answer, ChainError)
            else _make_receipt(transaction, answer, self.address, self._codec)
            for transaction, answer in zip(transactions, mined, strict=True)
        ]

    def events(
        self, first_block: int, last_block: int, keys: Sequence[bytes] = ()
    ) -> list[tuple[tuple[int, int], Event]]:
        """Return this contract's events in some blocks, both ends included, in order.

        Each comes with its place: the block, and its number there. If there are keys, only events
        whose first indexed argument, as a word of 32 bytes, is one of them.
        """
        found = self.trace(first_block, last_block, keys)
        return [(log.place, event) for log, event in found]

    def trace(
        self, first_block: int, last_block: int, keys: Sequence[bytes] = ()
    ) -> list[tuple[Log, Event]]:
        """Return events as `events` does, each with the log that it was read from."""
        logs = self._chain.node.get_logs(self.address, first_block, last_block, keys)
        return [(log, self._codec.decode_log(log)) for log in logs]

    def read_call(self, data: bytes) -> tuple[str, tuple[Any, ...]] | None:
        """Return the function and the arguments of calldata; None if it is none of this one's."""
        return self._codec.decode_call(data)


def _make_receipt(
    transaction: Transaction, mined: Mined, contract: Address, codec: "Codec"
) -> Receipt:
    gas = split_gas(mined.gas_used, transaction.data)
    return Receipt(
        call=transaction.call,
        sender=transaction.sender,
        transaction_hash=mined.transaction_hash,
        block=mined.block,
        gas_used=mined.gas_used,
        calldata_bytes=len(transaction.data),
        gas_calldata=gas.calldata,
        gas_execution=gas.execution,
        effective_gas_price=mined.effective_gas_price,
        events=tuple(codec.decode_log(log) for log in mined.logs if log.address == contract),
        data=transaction.data,
    )
