"""Providers as processes of their own on unlike backends: one job, one root."""

import multiprocessing
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

import pytest

from moot.offchain.backends.cuda import driver
from moot.offchain.datastore.store import open_store
from moot.offchain.disputes.referee.terms import make_terms
from moot.offchain.parties import testnet
from moot.offchain.parties.computing import read_claim
from moot.offchain.providers.agreement import make_task
from moot.offchain.providers.publication import put_task
from moot.offchain.providers.setting import Setting
from moot.offchain.providers.store import Store
from tests.parties.claims import compute_claim
from tests.parties.nets import EASY, PATIENCE_S, Heard, call_client

CPU, EMULATOR, CUDA = "cpu", "cuda-emulator", "cuda"
JOB = (
    *("--program", "mlp", "--steps", "4", "--checkpoint-every", "2", "--trust-capture"),
    *("--commit-blocks", "80"),
)
on_device = pytest.mark.skipif(not driver.is_here(), reason="there is no NVIDIA driver")


def compute_claims(folder: Path, setting: Setting, backends: Sequence[str]) -> list[list[bytes]]:
    """Publish a job, and return what a process on each backend would claim of it."""
    task = make_task(setting)
    put_task(open_store(str(folder / "job")), task)
    terms, context = make_terms(task), multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(len(backends), context) as pool:
        asked = [pool.submit(compute_claim, folder, terms, backend) for backend in backends]
        return [each.result() for each in asked]


def test_a_process_on_an_emulated_device_comes_to_the_root_of_one_on_the_processor(
    tmp_path: Path,
) -> None:
    """Each fetches the job and runs it by itself; all their checkpoints have the same roots."""
    setting = Setting(program="mlp", steps=2, checkpoint_every=1, trust_capture=True)
    one, other = compute_claims(tmp_path, setting, (CPU, EMULATOR))
    assert len(one) == 2
    assert one == other


@pytest.mark.device
@on_device
@pytest.mark.parametrize(
    ("program", "size"),
    [("mlp", "tiny"), pytest.param("gpt2", "full", marks=pytest.mark.slow)],
)
def test_a_process_on_a_device_comes_to_the_root_of_one_on_the_processor(
    tmp_path: Path, program: str, size: str
) -> None:
    """The same on a device, with GPT-2 124M as well."""
    setting = Setting(program, size, steps=1, checkpoint_every=1, trust_capture=True)
    one, other = compute_claims(tmp_path, setting, (CPU, CUDA))
    assert one == other


def find_claim(net: testnet.Testnet, party: str) -> list[bytes] | None:
    """Return the roots that a provider has noted as its claim in the first job."""
    (folder,) = (net.folder / party).glob("*/job-0-*")
    return read_claim(Store(folder))


@pytest.mark.slow
@pytest.mark.parametrize(
    "device", [EMULATOR, pytest.param(CUDA, marks=[pytest.mark.device, on_device])]
)
def test_providers_on_unlike_backends_share_a_reward(
    net: testnet.Testnet, heard: Heard, device: str
) -> None:
    """Two providers of a net, of which one computes on a device, make one claim of a job."""
    for backend in (CPU, device):
        net.add_provider(backend, backend=backend, **EASY)
    net.await_results(2, PATIENCE_S)
    call_client(net, "post", *JOB)
    assert call_client(net, "await", "0")[-1]["status"] == "won"
    assert len([e for e in heard.events if e["event"] == "computed"]) == 2
    claim = find_claim(net, CPU)
    assert claim
    assert find_claim(net, device) == claim
