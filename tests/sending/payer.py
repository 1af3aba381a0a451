"""A program that makes payments, each once, and may be killed at any of its steps.

Payment k is a wei to the k-th address. What is still to pay it reads from the chain alone, so that
a payment made twice shows in a balance.
"""

import os
import signal
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from unittest.mock import patch

from moot.offchain.chain import Address, connect
from moot.offchain.chain.accounts import FeePolicy, KeyAccount, open_chain
from moot.offchain.chain.accounts.journal import Journal
from moot.offchain.chain.accounts.opening import OwnChain
from moot.offchain.chain.accounts.sender import Sender
from moot.offchain.chain.receipts import Mined, Transaction
from moot.offchain.errors import ChainError

PATIENCE_S = 120.0
PAYMENT_GAS = 21_000
KEY = b"\x07" * 32
PAYER = KeyAccount(KEY).address
FUND_WEI = 10**20


@dataclass(frozen=True, slots=True)
class Seat:
    """Where a payer works: it reads here, sends there, and keeps its journal in a folder."""

    read_url: str
    send_urls: tuple[str, ...]
    folder: Path
    payments: int
    confirmations: int = 2


def find_payee(number: int) -> Address:
    """Return the address that a payment goes to."""
    return Address(f"0x{number + 0xC0FFEE:040x}")


def make_payment(chain_id: int, number: int) -> Transaction:
    """Return a payment."""
    return Transaction(chain_id, f"pay-{number}", PAYER, find_payee(number), b"", 1, PAYMENT_GAS)


def open_payer(seat: Seat, **options: Any) -> OwnChain:
    """Open the chain for the payer's account."""
    policy = FeePolicy(confirmations=seat.confirmations, stuck_blocks=2)
    options = {"patience_seconds": 5.0, "folder": seat.folder} | options
    return open_chain(seat.send_urls, [KeyAccount(KEY)], policy, **options)


def pay(seat: Seat, kill_at: int | None = None, together: int = 1) -> None:
    """Make all payments, and wait until they are final; die at the step of this number."""
    with dying(kill_at), connect(seat.read_url) as known:
        deadline = time.monotonic() + PATIENCE_S
        while True:
            assert time.monotonic() < deadline, "the payments are not made"
            try:
                with open_payer(seat) as chain:
                    while left := find_unpaid(known.balance, seat.payments):
                        work = [make_payment(chain.chain_id, it) for it in left[:together]]
                        answers = chain.node.send(work)
                        assert all(isinstance(it, Mined | ChainError) for it in answers)
                    if chain.settle(5.0):
                        return
            except ChainError:  # a node that can't be reached is tried again
                continue


def find_unpaid(balance: Callable[[Address], int], payments: int) -> list[int]:
    """Return the payments that the chain does not show."""
    return [number for number in range(payments) if not balance(find_payee(number))]


def make_step(kill_at: int | None) -> Callable[[], None]:
    """Return what counts its calls, and kills this process at the call of a number."""
    steps = 0

    def step() -> None:
        nonlocal steps
        steps += 1
        if steps == kill_at:
            os.kill(os.getpid(), signal.SIGKILL)

    return step


@contextmanager
def dying(kill_at: int | None) -> Iterator[None]:
    """Kill this process at a step: before and after each writing and each sending."""
    step = make_step(kill_at)
    append, send = Journal._append, Sender._send_raw

    def append_in_steps(self: Journal, record: dict[str, Any], *, is_urgent: bool = False) -> None:
        step()
        append(self, record, is_urgent=is_urgent)
        step()

    def send_in_steps(self: Sender, entries: Sequence[Any]) -> Any:
        step()
        answer = send(self, entries)
        step()
        return answer

    with (
        patch.object(Journal, "_append", append_in_steps),
        patch.object(Sender, "_send_raw", send_in_steps),
    ):
        yield
