"""A provider whose store lacks parts of a job gets them from the chain, and wins with them."""

import time
from pathlib import Path
from threading import Thread
from typing import Any

import pytest

from moot.contracts.deployment import bind_referee
from moot.contracts.model.abi import unpack_job
from moot.offchain.chain import Address, connect
from moot.offchain.parties import testnet
from tests.parties.nets import EASY, PATIENCE_S, Heard, call_client, post

pytestmark = pytest.mark.slow

TERMS = (
    *("--reveal-blocks", "24", "--window-blocks", "16", "--commit-blocks", "800"),
    *("--promise-bond", "1", "--reward", "1"),
)
CHUNKS, KILLS = 3, 2


def await_client(net: testnet.Testnet) -> tuple[Thread, list[dict[str, Any]]]:
    """Let the client show what is demanded, in the background, until the job is over."""
    told: list[dict[str, Any]] = []
    thread = Thread(target=lambda: told.extend(call_client(net, "await", "0")))
    thread.start()
    return thread, told


def skip_commits(net: testnet.Testnet) -> None:
    """Let the time pass in which one may commit."""
    with connect(str(net.common["chain"])) as chain:
        job = unpack_job(bind_referee(chain, Address(str(net.common["referee"]))).call("jobs", 0))
        blocks = job.commit_deadline + 1 - chain.block_number()
        chain.node._ask("anvil_mine", hex(blocks))  # type: ignore[attr-defined] # of JSON-RPC


def count_made(events: list[dict[str, Any]], *names: str) -> int:
    """Return how many calls of some names were made."""
    return sum(bool(it.get("accepted")) and it.get("call") in names for it in events)


@pytest.mark.parametrize("is_killed", [False, True])
def test_a_job_with_gaps_is_put_together_and_won(
    is_killed: bool,  # noqa: FBT001 - a parameter of the test
    net: testnet.Testnet,
    heard: Heard,
    gaps: Path,
) -> None:
    """It demands, the client shows, it runs and wins; killed meanwhile, it pays nothing twice."""
    settings: dict[str, object] = {
        **EASY,
        "store": str(gaps),
        "demand_budget": 1.0,
        "demand_share": 1.0,
        "least_promise": 1.0,
    }
    net.add_provider("liar", cheat="wrong-output", **EASY)
    net.add_provider("provider", **settings)
    net.await_results(2, PATIENCE_S)
    post(net, *TERMS)
    thread, told = await_client(net)
    for _ in range(KILLS if is_killed else 0):
        made = count_made(heard.events, "demand")
        end = time.monotonic() + PATIENCE_S
        while count_made(heard.events, "demand") == made:
            assert time.monotonic() < end
            time.sleep(0.02)
        net.processes["provider"].kill()
        net.processes["provider"].wait()
        assert not [it for it in heard.events if it["event"] == "mended"]
        net.add_provider("provider", **settings)
    parts = heard.wait("mended", party="provider", job=0)["parts"]
    heard.wait("computed", party="provider", job=0)
    heard.wait("call", party="provider", call="commit", accepted=True)
    skip_commits(net)
    thread.join(PATIENCE_S)
    assert not thread.is_alive()
    assert told[-1]["status"] == "won"
    ended = heard.wait("ended", party="provider", job=0)
    assert (ended["status"], ended["is_defeated"]) == ("won", False)
    assert heard.wait("ended", party="liar", job=0)["is_defeated"]
    shown = count_made(told, "show_operator", "show_chunk")
    assert parts <= shown <= 60
    assert count_made(heard.events, "demand") == shown >= CHUNKS + 2
