"""Providers of several jobs, watchers and verifiers as processes of their own, on a real node."""

import os
import signal
import subprocess
from collections.abc import Sequence
from pathlib import Path

import pytest

from moot.contracts.deployment import bind_referee
from moot.offchain.chain import connect
from moot.offchain.datastore.store import open_store
from moot.offchain.disputes.referee.on_chain import ChainReferee
from moot.offchain.disputes.referee.terms import Stakes, make_terms
from moot.offchain.errors import UsageError
from moot.offchain.parties import testnet
from moot.offchain.providers.agreement import make_task
from moot.offchain.providers.publication import put_task
from moot.offchain.providers.setting import Setting
from tests.parties.nets import EASY, MOOT, PATIENCE_S, Heard, call_client, compute_result, post
from tests.training_helpers import encode

pytestmark = pytest.mark.slow
COMMIT_BLOCKS = 200


def name_claims(heard: Heard, party: str) -> set[bool]:
    """Return what a watcher has said of claims."""
    told = [e for e in heard.events if e["event"] == "claim" and e["party"] == party]
    return {e["is_right"] for e in told}


def open_at_once(net: testnet.Testnet, count: int) -> None:
    """Open jobs in successive blocks, so that their matches begin at about the same time."""
    setting = Setting(program="mlp", steps=4, checkpoint_every=2, trust_capture=True)
    task = make_task(setting)
    put_task(open_store(str(net.folder / "store")), task)
    terms = make_terms(task, Stakes(commit_blocks=COMMIT_BLOCKS, clock_blocks=100))
    with connect(str(net.common["chain"])) as chain:
        referee = ChainReferee(chain, bind_referee(chain, str(net.common["referee"])), 0)
        for _ in range(count):
            referee.transact("open_job", terms, sender=chain.accounts[0], value_wei=10**17)


def test_a_provider_plays_several_matches_at_once(net: testnet.Testnet, heard: Heard) -> None:
    """Three jobs are disputed at a time, and the provider is killed meanwhile: it wins each."""
    jobs = range(3)
    net.add_provider("cheat", cheat="wrong-output", **EASY)
    honest = net.add_provider("honest", **EASY)
    net.await_results(2, PATIENCE_S)
    open_at_once(net, len(jobs))
    for job in jobs:
        heard.wait("call", call="enter_claimed", party="honest", job=job, accepted=True)
    os.kill(honest.pid, signal.SIGKILL)
    honest.wait()
    net.add_provider("honest", **EASY)
    for job in jobs:
        heard.wait("call", call="collect", party="honest", job=job, accepted=True)
    assert {e["party"] for e in heard.events if e.get("call") == "collect"} == {"honest"}
    first_end = min(i for i, e in enumerate(heard.events) if e["event"] == "ended")
    before = heard.events[:first_end]
    assert {e["job"] for e in before if e.get("call") == "enter_claimed"} == {*jobs}


def test_a_watcher_bonds_the_right_claim_where_all_are_wrong(
    net: testnet.Testnet, heard: Heard
) -> None:
    """A liar and no honest provider: a watcher says so, joins late, wins, and serves the state."""
    net.add_provider("cheat", cheat="wrong-output", **EASY)
    net.add_party("watcher", ("watch",), **EASY)
    urls = net.await_results(2, PATIENCE_S)
    post(net)
    assert call_client(net, "await", "0")[-1]["status"] == "won"
    heard.wait("call", call="join", party="watcher", accepted=True)
    assert name_claims(heard, "watcher") == {True, False}
    folder = net.folder / "result"
    fetched = call_client(net, "fetch", "0", str(folder), "--results", ",".join(urls))[-1]
    state = open_store(str(folder)).get_state(bytes.fromhex(fetched["state"]))
    assert encode(state) == compute_result()


def play_before_the_verifier(
    net: testnet.Testnet, heard: Heard, urls: Sequence[str] | None
) -> list[str]:
    """Let a verifier rule on a liar's match; return what it has said of its request and its run.

    Args:
        net: the net.
        heard: its events.
        urls: the places that the verifier is told; those of both members if it is None.
    """
    net.name_verifier()
    net.add_provider("cheat", cheat="wrong-output", **EASY)
    net.add_provider("honest", **EASY)
    found = net.await_results(2, PATIENCE_S)
    net.add_verifier(found if urls is None else urls)
    net.await_results(1, PATIENCE_S)
    post(net, "--leaf", "operator")
    assert call_client(net, "await", "0")[-1]["status"] == "won"
    heard.wait("call", call="rule", party="verifier", accepted=True)
    heard.wait("call", call="collect", party="honest", accepted=True)
    assert not [e for e in heard.events if e.get("call") == "collect" and e["party"] == "cheat"]
    told = [e["event"] for e in heard.events if e.get("party") == "verifier"]
    return [event for event in told if event in {"heard", "unheard", "running"}]


def test_the_verifier_rules_by_what_members_hand_over(net: testnet.Testnet, heard: Heard) -> None:
    """A match stops at an operator: members serve what it reads, and no job is run for a ruling."""
    assert play_before_the_verifier(net, heard, None) == ["heard"]
    assert [e["event"] for e in heard.events].count("handed") >= 1
    assert not [*(net.folder / "verifier").rglob("heard")]


@pytest.mark.parametrize("urls", [[], ["http://127.0.0.1:9"]])
def test_the_verifier_runs_the_job_where_nobody_hands_over(
    net: testnet.Testnet, heard: Heard, urls: list[str]
) -> None:
    """Without places, or where none has anything, the verifier named by the job runs it."""
    assert play_before_the_verifier(net, heard, urls) == ["unheard"] * len(urls) + ["running"]


def test_a_published_folder_is_posted_and_settled_by_hand(
    net: testnet.Testnet, tmp_path: Path
) -> None:
    """What `program publish` wrote is posted as it is; `settle` ends the job once it may."""
    job = tmp_path / "job"
    words = [*MOOT, "program", "publish", "mlp", str(job), "--steps", "4", "--trust-capture"]
    subprocess.run(words, check=True, timeout=PATIENCE_S)  # noqa: S603 - ours
    windows = [w for it in ("commit", "reveal", "window") for w in (f"--{it}-blocks", "10")]
    (opened,) = call_client(net, "post", str(job), *windows)
    assert opened["job"] == 0
    call_client(net, "await", "0", status=3)
    *calls, told = call_client(net, "settle", "0")
    assert (calls, told["status"]) == ([], "empty")
    for entry in (job / "programs").iterdir():
        entry.with_name("ab" * 32).write_bytes(b"")
    refused = [*MOOT, "client", "post", str(job), "--config", str(net.folder / "client.toml")]
    done = subprocess.run(refused, capture_output=True, text=True, timeout=60, check=False)  # noqa: S603 - ours
    assert done.returncode == 2
    assert "several programs" in done.stderr


def test_a_folder_of_an_older_net_is_used_again(tmp_path: Path, heard: Heard) -> None:
    """Keys of a net that is no more are given money on the new chain; its jobs are not mixed up."""
    for _ in range(2):
        with testnet.Testnet(tmp_path / "net", MOOT, heard, block_seconds=0.2) as net:
            net.add_provider("provider", **EASY)
            net.await_results(1, PATIENCE_S)
            post(net)
            heard.wait("call", call="commit", party="provider", accepted=True)
            heard.events.clear()


def test_a_provider_without_means_says_so_and_waits(net: testnet.Testnet, heard: Heard) -> None:
    """With a budget below a dispute's gas no job is taken; a job that goes on is not settled."""
    net.add_provider("provider", gas_budget=0.01, **EASY)
    net.await_results(1, PATIENCE_S)
    post(net, "--commit-blocks", "2000")
    assert "raise the budget" in heard.wait("passed", party="provider")["problem"]
    (told,) = call_client(net, "settle", "0", status=3)
    assert told["status"] == "open"


def test_no_net_is_in_an_empty_folder(tmp_path: Path) -> None:
    """A party is added to a net only."""
    with pytest.raises(UsageError, match="no net is in"):
        testnet.read_common(tmp_path)
