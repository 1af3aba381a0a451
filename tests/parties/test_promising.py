"""Promises that a job can be had, made and demanded by processes on a real node."""

import shutil
from pathlib import Path

import pytest

from offchain.parties import testnet
from tests.parties.nets import EASY, PATIENCE_S, Heard, call_client, post

pytestmark = pytest.mark.slow

WINDOWS = ("--reveal-blocks", "16", "--window-blocks", "16")
PROMISE = ("--promise-bond", "1")


@pytest.fixture
def lacking(net: testnet.Testnet, tmp_path: Path) -> testnet.Testnet:
    """Let a provider look for jobs where there are none; it may demand five parts."""
    empty = tmp_path / "empty"
    empty.mkdir()
    net.add_provider("provider", store=str(empty), demand_budget=0.05, least_promise=1.0, **EASY)
    net.await_results(1, PATIENCE_S)
    return net


def test_what_is_demanded_is_shown(lacking: testnet.Testnet, heard: Heard) -> None:
    """A client that waits shows what is demanded, within the asker's budget, and gets its bond."""
    post(lacking, *WINDOWS, *PROMISE)
    told = call_client(lacking, "await", "0", status=3)
    calls = [event.get("call") for event in told if event.get("accepted")]
    assert calls.count("show_operator") == 5
    assert calls.count("withdraw") == 1
    demands = [e for e in heard.events if e.get("call") == "demand"]
    assert [e["accepted"] for e in demands] == [True] * 5


def test_a_promise_that_is_not_kept_is_broken(lacking: testnet.Testnet, heard: Heard) -> None:
    """Where nobody answers, the asker ends the promise, and has its deposits and the prize."""
    post(lacking, *WINDOWS, *PROMISE)
    heard.wait("call", call="break_promise", party="provider", accepted=True)
    heard.wait("call", call="reclaim", party="provider", accepted=True)
    call_client(lacking, "settle", "0", status=3)


def test_demands_outlive_who_made_them(lacking: testnet.Testnet, heard: Heard) -> None:
    """Killed and without its folder, the asker takes its demands up again, from the chain alone."""
    post(lacking, *WINDOWS, *PROMISE)
    heard.wait("call", call="demand", party="provider", accepted=True)
    lacking.processes["provider"].kill()
    lacking.processes["provider"].wait()
    assert not [e for e in heard.events if e.get("call") in {"break_promise", "reclaim"}]
    shutil.rmtree(lacking.folder / "provider")
    lacking.add_provider("provider", **EASY, demand_budget=0.0, least_promise=1.0)
    heard.wait("call", call="break_promise", party="provider", accepted=True)
    heard.wait("call", call="reclaim", party="provider", accepted=True)


def test_a_job_without_a_promise_is_not_taken(lacking: testnet.Testnet, heard: Heard) -> None:
    """A provider that wants a promise says so, and how high its bond has to be."""
    post(lacking)
    assert "has not promised" in heard.wait("passed", job=0)["problem"]
    post(lacking, "--promise-bond", "0.5")
    bond_wei, least_wei = 10**18 // 2, 10**18
    heard.wait("passed", job=1, problem=f"its bond is {bond_wei} wei, below {least_wei}")
