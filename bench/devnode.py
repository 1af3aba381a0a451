"""Requests and blocks a second of the node for development: `python -m moot.bench.devnode`."""

import multiprocessing
import sys
import time
from pathlib import Path
from subprocess import PIPE, Popen

from moot.offchain.chain.devnode.__main__ import LISTENING
from moot.offchain.chain.transports import open_transport

CLIENTS = 10
SECONDS = 5.0


def ask(url: str) -> int:
    """Ask for the number of the latest block and for an account, as often as there is time."""
    transport = open_transport(url)
    (account, *_) = transport.ask("eth_accounts", [])["result"]
    asked, end = 0, time.monotonic() + SECONDS
    while time.monotonic() < end:
        transport.ask("eth_blockNumber", [])
        transport.ask("eth_getBalance", [account, "latest"])
        asked += 2
    transport.close()
    return asked


def main() -> None:
    """Print the rates, with a block a second meanwhile, and then of blocks alone."""
    command = [sys.executable, "-m", "moot.offchain.chain.devnode", "--block-seconds", "1"]
    with (
        Popen(command, stdout=PIPE, text=True, cwd=Path(__file__).parents[2]) as node,  # noqa: S603 - ours
        multiprocessing.Pool(CLIENTS) as pool,
    ):
        assert node.stdout is not None
        url = node.stdout.readline().removeprefix(LISTENING).strip()
        asked = sum(pool.map(ask, [url] * CLIENTS))
        sys.stdout.write(f"{asked / SECONDS:,.0f} requests a second of {CLIENTS} clients\n")
        transport = open_transport(url)
        started = time.monotonic()
        transport.ask("anvil_mine", ["0x1f4"])
        sys.stdout.write(f"{500 / (time.monotonic() - started):,.0f} empty blocks a second\n")
        node.terminate()


if __name__ == "__main__":
    main()
