"""Clients and providers as processes of their own, on a real node: paid, killed, refused."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from offchain.datastore.store import open_store
from offchain.disputes.session import Setting, make_task
from offchain.execution.executor import Executor
from offchain.parties import testnet
from tests.training_helpers import encode

MOOT = (sys.executable, "-c", "from sim.command import main; main()")
LENGTH = (
    "--steps",
    "4",
    "--checkpoint-every",
    "2",
    "--commit-blocks",
    "100",
    "--clock-blocks",
    "40",
)
PATIENCE_S = 240

pytestmark = pytest.mark.slow


class Heard:
    """The events of a net, as they are told."""

    def __init__(self) -> None:
        self.events: list[dict[str, Any]] = []

    def __call__(self, event: str, line: str, **about: object) -> None:
        """Keep an event."""
        self.events.append({"event": event, "line": line, **about})

    def wait(self, event: str, **about: object) -> dict[str, Any]:
        """Return the first event of a name that is about this, when it is told."""
        end = time.monotonic() + PATIENCE_S
        while time.monotonic() < end:
            for found in self.events:
                if found["event"] == event and about.items() <= found.items():
                    return found
            time.sleep(0.05)
        raise AssertionError((event, about, self.events[-5:]))


@pytest.fixture
def heard() -> Heard:
    """Return what hears the net."""
    return Heard()


@pytest.fixture
def net(tmp_path: Path, heard: Heard, monkeypatch: pytest.MonkeyPatch) -> Iterator[testnet.Testnet]:
    """Yield a net whose journals are its own."""
    monkeypatch.setenv("MOOT_STATE", str(tmp_path / "state"))
    with testnet.Testnet(tmp_path / "net", MOOT, heard, block_seconds=0.3) as found:
        yield found


def call_client(net: testnet.Testnet, *verb: str, status: int = 0) -> list[dict[str, Any]]:
    """Return the events of a client's verb."""
    words = [*MOOT, "client", *verb, "--config", str(net.folder / "client.toml"), "--json"]
    done = subprocess.run(words, capture_output=True, text=True, timeout=PATIENCE_S, check=False)  # noqa: S603 - ours
    assert done.returncode == status, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()]


def compute_result() -> list[bytes]:
    """Return the final state of the job, as anybody can compute it."""
    task = make_task(Setting(program="mlp", steps=4, checkpoint_every=2, trust_capture=True))
    state = list(task.initial_state)
    for step in range(task.steps):
        state = Executor(task.program).run(state, task.batch(step), step)
    return encode(state)


def test_a_cheat_loses_and_the_client_has_the_result(net: testnet.Testnet, heard: Heard) -> None:
    """Of three providers one lies: a dispute, a verdict, and the state that is the right one."""
    for number in range(3):
        net.add_provider(f"provider-{number}", cheat="wrong-output" if number == 0 else "", crowd=4)
    urls = net.await_results(3, PATIENCE_S)
    call_client(net, "post", "--program", "mlp", *LENGTH)
    assert call_client(net, "await", "0")[-1]["status"] == "WON"
    heard.wait("call", call="leaf", accepted=True)
    folder = net.folder / "result"
    fetched = call_client(net, "fetch", "0", str(folder), "--results", ",".join(urls))[-1]
    state = open_store(str(folder)).get_state(bytes.fromhex(fetched["state"]))
    assert encode(state) == compute_result()
    claims = {e["claim"] for e in heard.events if e["event"] == "computed"}
    assert len(claims) == 2
    liar = heard.wait("serving", party="provider-0")["url"]
    call_client(net, "fetch", "0", str(net.folder / "other"), "--results", liar, status=1)


@pytest.mark.parametrize("moment", ["running", "computed", "commit", "reveal", "enter_claimed"])
def test_a_provider_that_is_killed_goes_on_and_wins(
    net: testnet.Testnet, heard: Heard, moment: str
) -> None:
    """Killed at any moment, it goes on from its folder and the chain alone."""
    net.add_provider("cheat", cheat="wrong-output", crowd=4)
    honest = net.add_provider("honest", crowd=4)
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
    net.add_provider("honest", crowd=4)
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
    assert len(done.stderr.splitlines()) == 1
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
