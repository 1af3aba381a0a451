"""Clients and providers as processes of their own, on a real node: paid, killed, refused."""

import os
import signal
import subprocess

import pytest

from moot.offchain.datastore.store import open_store
from moot.offchain.parties import testnet
from tests.end_to_end.command import split_lines
from tests.parties.nets import EASY, LENGTH, MOOT, PATIENCE_S, Heard, call_client, compute_result
from tests.training_helpers import encode

pytestmark = pytest.mark.slow


def test_a_cheat_loses_and_the_client_has_the_result(net: testnet.Testnet, heard: Heard) -> None:
    """Of three providers one lies: a dispute, a verdict, and the state that is the right one."""
    for number in range(3):
        net.add_provider(f"provider-{number}", cheat="wrong-output" if number == 0 else "", **EASY)
    urls = net.await_results(3, PATIENCE_S)
    call_client(net, "post", "--program", "mlp", *LENGTH)
    assert call_client(net, "await", "0")[-1]["status"] == "won"
    heard.wait("call", call="leaf", accepted=True)
    folder = net.folder / "result"
    fetched = call_client(net, "fetch", "0", str(folder), "--results", ",".join(urls))[-1]
    state = open_store(str(folder)).get_state(bytes.fromhex(fetched["state"]))
    assert encode(state) == compute_result()
    assert len([e for e in heard.events if e["event"] == "computed"]) == 3
    liar = heard.wait("serving", party="provider-0")["url"]
    call_client(net, "fetch", "0", str(net.folder / "other"), "--results", liar, status=1)


@pytest.mark.parametrize("moment", ["running", "computed", "commit", "reveal", "enter_claimed"])
def test_a_provider_that_is_killed_goes_on_and_wins(
    net: testnet.Testnet, heard: Heard, moment: str
) -> None:
    """Killed at any moment, it goes on from its folder and the chain alone."""
    net.add_provider("cheat", cheat="wrong-output", **EASY)
    honest = net.add_provider("honest", **EASY)
    net.await_results(2, PATIENCE_S)
    call_client(net, "post", "--program", "mlp", *LENGTH)
    client = net.start(
        "client", [*MOOT, "client", "await", "0", "--config", str(net.folder / "client.toml")]
    )
    is_call = moment not in {"running", "computed"}
    heard.wait(
        *(("call",) if is_call else (moment,)),
        party="honest",
        **({"call": moment} if is_call else {}),
    )
    os.kill(honest.pid, signal.SIGKILL)
    honest.wait()
    net.add_provider("honest", **EASY)
    client.communicate(timeout=PATIENCE_S)
    assert client.returncode == 0
    heard.wait("call", call="collect", party="honest", accepted=True)
    assert not [e for e in heard.events if e.get("call") == "collect" and e["party"] == "cheat"]


def test_a_second_copy_refuses(net: testnet.Testnet) -> None:
    """Two providers with one key: the second says so in one line, and the first goes on."""
    first = net.add_provider("provider")
    net.await_results(1, PATIENCE_S)
    words = [*MOOT, "provider", "run", "--config", str(net.folder / "provider.toml")]
    done = subprocess.run(words, capture_output=True, text=True, timeout=PATIENCE_S, check=False)  # noqa: S603 - ours
    assert done.returncode == 1
    (line,) = split_lines(done.stderr)[1].splitlines()
    assert line.startswith("moot: another program (process ")
    assert first.poll() is None


def test_a_job_without_its_program_is_not_taken(net: testnet.Testnet, heard: Heard) -> None:
    """A provider commits to nothing that it does not have."""
    call_client(net, "post", "--program", "mlp", *LENGTH)
    for path in (net.folder / "store" / "programs").iterdir():
        path.unlink()
    net.add_provider("provider")
    passed = heard.wait("passed", party="provider")
    assert "ask its owner to publish it" in passed["problem"]
    assert not [e for e in heard.events if e["event"] == "call"]
