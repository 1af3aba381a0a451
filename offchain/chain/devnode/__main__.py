"""The process: `python -m moot.offchain.chain.devnode --block-seconds 1 --port 8545`."""

import argparse
import signal
import sys
import threading

from moot.offchain.chain.devnode.server import DevNode, serve

LISTENING = "listening on "


def main() -> None:
    """Serve until SIGTERM or SIGINT; the first line of the output says where."""
    parser = argparse.ArgumentParser(prog="devnode", description=__doc__)
    parser.add_argument("--port", type=int, default=0)
    parser.add_argument("--accounts", type=int, default=8)
    parser.add_argument("--block-seconds", type=float, help="otherwise a block a transaction")
    chosen = parser.parse_args()
    ended = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: ended.set())
    with serve(DevNode(chosen.accounts, chosen.block_seconds), chosen.port) as url:
        sys.stdout.write(f"{LISTENING}{url}\n")
        sys.stdout.flush()
        ended.wait()


if __name__ == "__main__":
    main()
