"""Anvil, a node for tests, on loopback, with the requests that other nodes do not answer."""

import subprocess
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from moot.offchain.chain.jsonrpc import JsonRpc
from moot.offchain.chain.receipts import Mined, Transaction
from moot.offchain.chain.transports import open_transport
from moot.offchain.errors import ChainError

MNEMONIC = "test test test test test test test test test test test junk"
ACCOUNTS = 12
BALANCE_ETHER = 10**9
CHAIN_ID = 131277322940537
"""eth-tester's own, so that commitments, which bind it, are the same bytes on both chains."""
KEPT_STATES = 100_000
"""More than any test makes: a state that anvil has moved to the disk cannot be rolled back to."""
START_S = 60.0
LISTENING = "Listening on "
PATIENCE_S = 60.0


@dataclass(frozen=True, slots=True)
class Sent:
    """A transaction in a block."""

    block: int
    sender: str
    transaction_hash: str


class Anvil:
    """A running node, which listens at `url`."""

    def __init__(self, url: str) -> None:
        self.url = url
        self._transport = open_transport(url)

    def ask(self, method: str, *params: Any) -> Any:
        """Ask the node, and return what it answers."""
        answer = self._transport.ask(method, params)
        assert "error" not in answer, f"{method}: {answer['error']}"
        return answer["result"]

    def replace_blocks(self, depth: int, transactions: Sequence[tuple[str, int]]) -> None:
        """Replace the latest blocks by as many that hold these raw transactions only.

        Args:
            depth: how many blocks.
            transactions: each with the place of its block among the new ones.
        """
        self.ask("anvil_reorg", depth, transactions)

    def drop_blocks(self, depth: int) -> None:
        """Take back the latest blocks."""
        self.ask("anvil_rollback", depth)

    def get_height(self) -> int:
        """Return the number of the latest block."""
        return int(self.ask("eth_blockNumber"), 16)

    def list_transactions(self, first_block: int) -> list[Sent]:
        """Return all transactions from a block on, in order."""
        blocks = range(first_block, self.get_height() + 1)
        found = [self.ask("eth_getBlockByNumber", hex(n), True)["transactions"] for n in blocks]
        return [
            Sent(number, sent["from"].lower(), sent["hash"])
            for number, block in zip(blocks, found, strict=True)
            for sent in block
        ]

    def get_raw(self, transaction_hash: str) -> str:
        """Return a transaction as it was signed."""
        return str(self.ask("eth_getRawTransactionByHash", transaction_hash))


class GatheringNode(JsonRpc):
    """A connection to an anvil that puts calls sent together into one block, as eth-tester does.

    Left alone, it makes a block of every transaction as soon as it has it.
    """

    def __init__(self, url: str) -> None:
        super().__init__(url, PATIENCE_S)

    def send(self, transactions: Sequence[Transaction]) -> list[Mined | ChainError]:
        """See Node."""
        self._ask("evm_setAutomine", False)
        try:
            return super().send(transactions)
        finally:
            self._ask("evm_setAutomine", True)

    def _await_all(self, queues: Any) -> dict[int, Mined | ChainError]:
        self._ask("evm_mine")
        return super()._await_all(queues)


@contextmanager
def run_anvil(program: Path, folder: Path) -> Iterator[Anvil]:
    """Run a new chain, with its log in a folder, for as long as the context lasts."""
    command = [str(program), "--host", "127.0.0.1", "--port", "0", "--hardfork", "prague"]
    command += ["--mnemonic", MNEMONIC, "--accounts", str(ACCOUNTS)]
    command += ["--balance", str(BALANCE_ETHER), "--chain-id", str(CHAIN_ID)]
    command += ["--order", "fifo", "--disable-default-create2-deployer"]
    command += ["--prune-history", str(KEPT_STATES)]
    log = folder / "anvil.log"
    with (
        log.open("w") as output,
        subprocess.Popen(command, stdout=output, stderr=output) as process,  # noqa: S603 - ours
    ):
        try:
            yield Anvil(_await_url(process, log))
        finally:
            process.terminate()


def _await_url(process: subprocess.Popen[bytes], log: Path) -> str:
    """Return where the node listens, once it does: the system has chosen the port."""
    deadline = time.monotonic() + START_S
    while process.poll() is None and time.monotonic() < deadline:
        _, found, rest = log.read_text().partition(LISTENING)
        if found and "\n" in rest:
            return f"http://{rest.split()[0]}"
        time.sleep(0.01)
    raise AssertionError(f"anvil does not start: {log.read_text()}")
