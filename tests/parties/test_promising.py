"""Promises that a job can be had, made and demanded by processes on a real node."""

import shutil
from pathlib import Path

import pytest

from moot.offchain.parties import testnet
from tests.parties.nets import EASY, PATIENCE_S, Heard, call_client, post

pytestmark = pytest.mark.slow

WINDOWS = ("--reveal-blocks", "16", "--window-blocks", "16")
PROMISE = ("--promise-bond", "1", "--reward", "5")


@pytest.fixture
def lacking(net: testnet.Testnet, gaps: Path) -> testnet.Testnet:
    """Let a provider look for jobs where parts of them are missing; it may demand these."""
    net.add_provider("provider", store=str(gaps), demand_budget=1.0, least_promise=1.0, **EASY)
    net.await_results(1, PATIENCE_S)
    return net


def test_what_lacks_more_than_it_pays_is_not_demanded(
    lacking: testnet.Testnet, heard: Heard
) -> None:
    """The share of a low reward does not cover what is lacking: not one part of it is paid for."""
    post(lacking, *WINDOWS, "--promise-bond", "1", "--reward", "0.1")
    assert "demands at least" in heard.wait("undemanded", job=0)["problem"]
    told = call_client(lacking, "await", "0", status=3)
    assert not [event for event in told if event.get("call", "").startswith("show_")]
    assert not [event for event in heard.events if event.get("call") == "demand"]


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
