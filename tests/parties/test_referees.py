"""Referees are deployed, recognised, and asked for nothing that they can't decide."""

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from moot.contracts.deployment import deploy_availability, deploy_referee
from moot.contracts.model.types import Address, Job
from moot.contracts.reasons import Status
from moot.offchain.arithmetic.base import Arithmetic
from moot.offchain.arithmetic.table import ARITHMETICS
from moot.offchain.chain import connect
from moot.offchain.chain.devnode.server import DevNode, serve
from moot.offchain.disputes.referee.terms import make_terms
from moot.offchain.errors import UsageError
from moot.offchain.parties import testnet
from moot.offchain.parties.challenger import require_about
from moot.offchain.parties.referees import recognise
from moot.offchain.providers.agreement import make_plain_task
from moot.offchain.providers.setting import Setting
from moot.offchain.training.claim import Claim
from tests.end_to_end.command import complaint
from tests.end_to_end.command import moot as run_moot
from tests.parties.nets import EASY, MOOT, PATIENCE_S, Heard, call_client
from tests.store_helpers import serving

ACCOUNTS = 8
EVERY_RULE = {
    "ordered": ("ordered", "logged"),
    **{name: (name,) for name in ("exact", "hopper", "ampere")},
}


@pytest.fixture(scope="module")
def node() -> Iterator[str]:
    """The URL of a node."""
    with serve(DevNode(ACCOUNTS)) as url:
        yield url


@pytest.fixture
def config(node: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The settings of a client with money, without a referee."""
    monkeypatch.setenv("MOOT_STATE", str(tmp_path / "state"))
    (tmp_path / "password").write_text(testnet.PASSWORD + "\n")
    common = {
        "chain": node,
        "store": str(tmp_path / "store"),
        "password_from": f"file:{tmp_path / 'password'}",
        "confirmations": 1,
    }
    return testnet.configure(tmp_path, common, "client")


@pytest.mark.parametrize("arithmetic", ARITHMETICS.values(), ids=str)
def test_each_is_recognised(node: str, arithmetic: Arithmetic) -> None:
    """What stands is this version's for programs of its own arithmetic, and for no others."""
    with connect(node) as chain:
        contract = deploy_referee(chain, chain.accounts[0], arithmetic)
        found = recognise(chain, contract.address)
        other = recognise(chain, deploy_availability(chain, chain.accounts[0]).address)
    assert found.decides == (arithmetic.contracts,)
    assert found.rules == EVERY_RULE[arithmetic.contracts]
    assert found.problem is None
    assert (other.decides, other.rules) == ((), ())
    assert other.problem is not None


def test_nothing_is_posted_that_nobody_can_decide(node: str, config: Path, tmp_path: Path) -> None:
    """A program of another arithmetic, or a leaf that nobody decides, costs nothing."""
    deployed = run_moot("referee", "deploy", "--config", str(config), "--json")
    assert deployed.status == 0, deployed.stderr
    referee = json.loads(deployed.stdout)["referee"]
    known = run_moot("referee", "check", referee, "--chain", node, "--json")
    assert json.loads(known.stdout)["rules"] == ["ordered", "logged"]
    place = ("--config", str(config), "--referee", referee, "--trust-capture")
    wrong = {
        ("--arithmetic", "exact"): "that one is for ordered and logged",
        ("--arithmetic", "logged", "--leaf", "scalar"): "no contract computes a scalar operation",
        ("--arithmetic", "logged"): "`verifier` is not set",
        ("--trained", str(tmp_path)): "programs in `ordered` have no logs; leave --trained out",
        ("--arithmetic", "logged", "--trained", str(tmp_path)): "holds no finished training",
    }
    with connect(node) as chain:
        client = json.loads((tmp_path / "client.json").read_text())["address"]
        before = chain.balance(f"0x{client.removeprefix('0x')}")
        for more, line in wrong.items():
            done = run_moot("client", "post", *place, "--steps", "1", *more)
            assert line in complaint(done, status=2)
        assert chain.balance(f"0x{client.removeprefix('0x')}") == before
    assert not (tmp_path / "store" / "programs").exists()
    checked = run_moot(
        *("provider", "check", "0", str(tmp_path), "--arithmetic", "exact"),
        *("--chain", node, "--referee", referee),
    )
    assert "that one is for ordered and logged" in complaint(checked, status=2)


def test_who_is_no_referee_is_named(node: str) -> None:
    """An address without code, and one that is no address, have their lines."""
    done = run_moot("referee", "check", "0x" + "11" * 20, "--chain", node)
    assert done.status == 3
    assert "is no referee of this version" in done.stdout
    assert "is not an address" in complaint(
        run_moot("referee", "check", "0x11", "--chain", node), status=2
    )


@pytest.mark.slow
def test_an_audit_takes_what_differs_to_the_chain(
    tmp_path: Path, net: testnet.Testnet, heard: Heard
) -> None:
    """A trainer that has claimed a tampered training loses its bond to the auditor's claim."""
    cheat, folder = "skipped-step:step=5", str(tmp_path / "liar")
    words = ("--steps", "8", "--checkpoint-every", "4", "--trust-capture")
    assert run_moot("train", folder, *words, "--cheat", cheat).status == 0
    client, auditor = (str(net.folder / f"{name}.toml") for name in ("client", "auditor"))
    net.configure("auditor")
    about = ("--commit-blocks", "250", "--window-blocks", "80", "--clock-blocks", "100")
    posted = run_moot("client", "post", folder, "--config", client, *about)
    assert posted.status == 0, posted.stderr
    net.add_provider("trainer", cheat=cheat)
    heard.wait("computed", party="trainer")
    done = run_moot("audit", folder, "--challenge", "0", "--config", auditor)
    assert done.status == 3
    assert "this auditor has won" in done.stderr
    assert heard.wait("ended", party="trainer")["is_defeated"]
    closed = run_moot("audit", folder, "--challenge", "0", "--config", auditor)
    assert "job 0 is won already" in closed.stderr


@pytest.mark.slow
def test_a_training_in_logged_is_delegated(
    tmp_path: Path, heard: Heard, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A provider has trained, and its logs are in the terms of a client that runs nothing."""
    monkeypatch.setenv("MOOT_STATE", str(tmp_path / "state"))
    folder, words = str(tmp_path / "run"), ("--program", "mlp", "--steps", "4", "--trust-capture")
    wanted = (*words, "--arithmetic", "logged")
    assert run_moot("train", folder, *wanted, "--engine", "numpy").status == 0
    with (
        testnet.Testnet(tmp_path / "net", MOOT, heard, 0.4, "logged") as net,
        serving(Path(folder)) as at,
    ):
        net.name_verifier()
        net.add_provider("trainer", engine="numpy", **EASY)
        net.add_provider("liar", cheat="wrong-output:step=1", **EASY)
        net.add_verifier(net.await_results(2, PATIENCE_S))
        about = ("--leaf", "operator", "--commit-blocks", "80", "--trained", at.url)
        call_client(net, "post", *words, *about)
        assert call_client(net, "await", "0")[-1]["status"] == "won"
        assert heard.wait("ended", party="liar")["is_defeated"]
        assert not heard.wait("ended", party="trainer")["is_defeated"]


def test_a_job_about_something_else_is_refused() -> None:
    """Each root and count of a claim is compared with a job's terms before anything is bonded."""
    task = make_plain_task(Setting("mlp", steps=4, checkpoint_every=2, trust_capture=True))
    roots = task.commitment.header.root, task.start_root, task.data_root
    claim = Claim(*roots, 4, 2, bytes(32))
    job = Job(Address("0x" + "00" * 20), make_terms(task), 0, 1, 2)
    require_about(3, job, claim)
    wrong = {
        "program": replace(claim, program=bytes(32)),
        "start": replace(claim, start=bytes(32)),
        "data": replace(claim, data=bytes(32)),
        "number of steps": replace(claim, steps=5),
        "checkpoints": replace(claim, checkpoint_every=1),
    }
    for what, other in wrong.items():
        with pytest.raises(UsageError, match=f"job 3 is not about this training: its {what}"):
            require_about(3, job, other)
    with pytest.raises(UsageError, match="job 3 is won already"):
        require_about(3, replace(job, status=Status.WON), claim)
