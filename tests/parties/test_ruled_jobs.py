"""A job whose batches a rule makes, from the client's dataset to the provider's result."""

from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import save_file

from moot.offchain.parties import testnet
from tests.parties.nets import EASY, PATIENCE_S, Heard, call_client, post

pytestmark = pytest.mark.slow


def test_a_provider_runs_a_job_by_its_rule(
    net: testnet.Testnet, heard: Heard, tmp_path: Path
) -> None:
    """A provider fetches the dataset and the rule, no batches, and wins with what it computes."""
    draws = np.random.default_rng(0)
    images = draws.random((10, 1, 8, 8), dtype=np.float32)
    path = tmp_path / "digits.safetensors"
    save_file({"images": images, "labels": draws.integers(0, 10, 10)}, path)
    net.add_provider("provider", **EASY)
    net.await_results(1, PATIENCE_S)
    post(net, "--dataset", str(path), "--shuffle", "7", "--drop-last")
    heard.wait("computed", job=0)
    call_client(net, "await", "0")
    (rule,) = (net.folder / "store" / "rules").iterdir()
    assert not [*(net.folder / "store" / "batches").iterdir()]
    found = [*(net.folder / "provider").glob("*/job-0-*/rules/*")]
    assert [it.name for it in found] == [rule.name]
