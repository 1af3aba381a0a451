"""The provenance of results: what decides them is in the digest of the code."""

from pathlib import Path

import pytest

from moot.sim.experiments import provenance


@pytest.mark.parametrize(
    ("file", "decides"),
    [
        ("contracts/source/referee.vy", True),
        ("sim/economy/gas_tables.json", True),
        ("sim/economy/market.py", True),
        ("sim/chains/op-mainnet.toml", True),
        ("sim/traces/day-of-jobs.csv", True),
        ("sim/experiments/presets/baseline.toml", False),
        ("sim/theory/prt.py", False),
        ("sim/report/disputes.json", False),
        ("sim/notes.txt", False),
    ],
)
def test_what_decides_results_is_in_the_digest(
    file: str, *, decides: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A byte more in a contract, in the gas of calls or in a rule is another code; else it is not.

    What only reads results may change.
    """
    path = tmp_path / file
    path.parent.mkdir(parents=True)
    path.write_text("1")
    monkeypatch.setattr(provenance, "_ROOT", tmp_path)
    before = provenance.describe_versions()["code"]
    path.write_text("2")
    assert (provenance.describe_versions()["code"] != before) is decides
