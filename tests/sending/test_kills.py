"""A program that is killed at any step of its sending pays each payment once."""

from multiprocessing.context import ForkServerContext
from pathlib import Path
from random import Random

import pytest

from moot.offchain.chain import connect
from moot.offchain.chain.devnode.server import DevNode
from tests.quick import every
from tests.sending.payer import PAYER, Seat, find_payee, find_unpaid, pay
from tests.sending.proxy import open_proxy

KILLS_A_RUN = 8
MOST_STEPS = 14
"""A payment has about ten steps: two of them around each of writing, sending and noting."""


def play(processes: ForkServerContext, node: DevNode, url: str, seat: Seat, random: Random) -> int:
    """Run payers that are killed at drawn steps, then one that is not; return the kills."""
    kills = 0
    together = random.choice((1, 1, 3))
    for _ in range(KILLS_A_RUN):
        # Half of the time a block comes only after the process is dead.
        node.methods.is_automatic = random.random() < 0.5
        step = random.randint(1, MOST_STEPS)
        process = processes.Process(target=pay, args=(seat, step, together))
        process.start()
        process.join(0.7)
        if process.exitcode is None:  # it waits for a block: the kill is drawn by the clock
            process.kill()
            process.join()
        kills += process.exitcode == -9
        if random.random() < 0.5:
            with node.lock:
                node.methods.blocks.make_block()
    node.methods.is_automatic = True
    with node.lock:
        node.methods.blocks.make_block()
    process = processes.Process(target=pay, args=(seat, None, together))
    process.start()
    while process.exitcode is None:
        process.join(0.05)
        with node.lock:
            node.methods.blocks.make_block()
    assert process.exitcode == 0
    with connect(url) as chain:
        assert not find_unpaid(chain.balance, seat.payments)
        assert {chain.balance(find_payee(it)) for it in range(seat.payments)} == {1}
    count = node.methods.answer({"id": 1, "method": "eth_getTransactionCount", "params": [PAYER]})
    assert int(count["result"], 16) == seat.payments
    return kills


@pytest.mark.parametrize("seed", every(16, range(8)))
def test_killed_at_drawn_steps(
    processes: ForkServerContext, node: DevNode, url: str, tmp_path: Path, seed: int
) -> None:
    """Whatever it was doing when it was killed, the next one pays what is left, once."""
    kills = play(processes, node, url, Seat(url, (url,), tmp_path, 16), Random(seed))
    assert kills == KILLS_A_RUN


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(100, 150))
def test_killed_at_many_drawn_steps(
    processes: ForkServerContext, node: DevNode, url: str, tmp_path: Path, seed: int
) -> None:
    """The same many times, with every second way to the node through a proxy that errs."""
    random = Random(seed)
    with open_proxy(node, random, 0.2) as proxy:
        sent = proxy.url if seed % 2 else url
        play(processes, node, url, Seat(url, (sent,), tmp_path, 16), random)
