"""Premiums for results: offered, promised, demanded and paid by processes on a real node."""

import os
import signal
import subprocess
import time

import pytest

from moot.offchain.chain.transports import open_transport
from moot.offchain.datastore.store import open_store
from moot.offchain.parties import testnet
from tests.parties.nets import EASY, MOOT, PATIENCE_S, Heard, call_client, compute_result, post
from tests.training_helpers import encode

pytestmark = pytest.mark.slow

WINDOWS = ("--reveal-blocks", "16", "--window-blocks", "16")
PREMIUM = ("--premium", "1", "--premium-window", "40")
NOWHERE = ("--results", "http://127.0.0.1:9")
"""A place that serves nothing: what a winner withholds from every store cannot be had there."""
BUDGET = ("--demand-budget", "5")
SETTLING_S, WAIT_S = 10.0, 40.0


def win(net: testnet.Testnet, *premium: str) -> None:
    """Let a job be won by those that are there."""
    post(net, *WINDOWS, *premium)
    told = call_client(net, "await", "0")
    assert [e["status"] for e in told if e["event"] == "closed"] == ["won"]


def kill(process: "subprocess.Popen[str]") -> None:
    """Kill a party, which gets no time to say or do anything."""
    os.kill(process.pid, signal.SIGKILL)
    process.wait()


def test_sharers_that_hand_a_result_over_share_the_premium(
    net: testnet.Testnet, heard: Heard
) -> None:
    """Two register before they collect, serve the result, and take half of the premium each."""
    for name in ("one", "two"):
        net.add_provider(name, **EASY)
    urls = net.await_results(2, PATIENCE_S)
    win(net, *PREMIUM)
    folder = net.folder / "result"
    fetched = call_client(net, "fetch", "0", str(folder), "--results", ",".join(urls))[-1]
    state = open_store(str(folder)).get_state(bytes.fromhex(fetched["state"]))
    assert encode(state) == compute_result()
    for name in ("one", "two"):
        heard.wait("call", call="take", party=name, accepted=True)
        made = [e["call"] for e in heard.events if e.get("party") == name and e.get("accepted")]
        assert made.index("register") < made.index("collect") < made.index("take")
    (line,) = (e["line"] for e in call_client(net, "status", "0") if e["event"] == "premium")
    assert "earned by 2" in line
    told = call_client(net, "settle", "0")
    assert not [e for e in told if e.get("call") in {"take", "withdraw", "call_for"}]


def test_winner_that_is_gone_earns_nothing(net: testnet.Testnet, heard: Heard) -> None:
    """What is demanded of it is not shown: the client has deposits and the premium back."""
    winner = net.add_provider("winner", **EASY)
    net.await_results(1, PATIENCE_S)
    win(net, *PREMIUM[:2], "--premium-window", "200")
    heard.wait("call", call="register", party="winner", accepted=True)
    kill(winner)
    told = call_client(net, "fetch", "0", str(net.folder / "result"), *NOWHERE, *BUDGET, status=1)
    made = [e["call"] for e in told if e.get("accepted")]
    assert made.count("break_promise") == made.count("take") == 1
    assert made.count("demand") == made.count("reclaim") > 1
    assert told[-1]["status"] == "broken"


def test_winner_that_withholds_is_made_to_show(net: testnet.Testnet, heard: Heard) -> None:
    """No store has the result: the client puts it together of what is shown on the chain.

    Both are killed in between, and go on from the chain and their folders alone.
    """
    winner = net.add_provider("winner", **EASY)
    net.await_results(1, PATIENCE_S)
    win(net, *PREMIUM[:2], "--premium-window", "400")
    folder = net.folder / "result"
    verb = ("fetch", "0", str(folder), *NOWHERE, *BUDGET)
    heard.wait("call", call="register", party="winner", accepted=True)
    call_client(net, "fetch", "0", str(folder), *NOWHERE, "--demand-budget", "0.03", status=1)
    command = [*MOOT, "client", *verb, "--config", str(net.folder / "client.toml"), "--json"]
    client = net.start("client", command)
    assert client.stdout is not None
    assert any('"demand"' in line for line in client.stdout)
    kill(client)
    kill(winner)
    net.add_provider("winner", **EASY)
    fetched = call_client(net, *verb)[-1]
    state = open_store(str(folder)).get_state(bytes.fromhex(fetched["state"]))
    assert encode(state) == compute_result()
    shown = [e for e in heard.events if e.get("call") == "show_chunk" and e["accepted"]]
    assert len(shown) > 3


def test_whoever_waits_for_demands_asks_little(net: testnet.Testnet, heard: Heard) -> None:
    """A provider that has promised a result asks the node for hardly more than one that is idle."""
    url = str(net.common["chain"])
    net.add_provider("winner", **EASY, chain=f"{url}/winner")
    net.await_results(1, PATIENCE_S)
    node = open_transport(url)

    def look() -> tuple[int, int]:
        requests, *_ = node.ask("moot_traffic", ())["result"]["/winner"]
        return requests, int(node.ask("eth_blockNumber", ())["result"], 16)

    def count_requests_a_block() -> float:
        (before, first), _ = look(), time.sleep(WAIT_S)
        after, last = look()
        return (after - before) / (last - first)

    idle = count_requests_a_block()
    win(net, *PREMIUM[:2], "--premium-window", "800")
    heard.wait("call", call="register", party="winner", accepted=True)
    heard.wait("call", call="collect", party="winner", accepted=True)
    time.sleep(SETTLING_S)
    assert count_requests_a_block() < idle + 1 / 2


def test_result_that_nobody_promises_is_called_for(net: testnet.Testnet, heard: Heard) -> None:
    """A winner that knows of no premium is paid its reward, and the client has its premium back."""
    net.add_provider("winner", **EASY, delivery="")
    net.await_results(1, PATIENCE_S)
    win(net, *PREMIUM[:2], "--premium-window", "12")
    heard.wait("call", call="collect", party="winner", accepted=True)
    told = call_client(net, "fetch", "0", str(net.folder / "result"), *NOWHERE, *BUDGET, status=1)
    made = [e["call"] for e in told if e.get("accepted")]
    assert made == ["call_for", "withdraw"]
    told = call_client(net, "settle", "0")
    assert [e["status"] for e in told if e["event"] == "premium"] == ["withdrawn"]
