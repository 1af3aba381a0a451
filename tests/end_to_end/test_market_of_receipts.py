"""Markets of answers by receipt from the command line: a preset, and where lying ceases to pay."""

import json

from tests.end_to_end.command import moot

SMALL = ("--set", "jobs=400", "--reps", "1", "-j", "1", "--json")


def test_a_preset_tells_of_receipts() -> None:
    """What is printed has the receipts of each strategy, and the gas of an answer."""
    told = moot("market", "exit-scam", "--jobs", "600")
    assert "answers by receipt" in told.stdout
    assert "gas an answer" in told.stdout
    assert "answers by receipt" not in moot("market", "baseline", "--jobs", "50").stdout


def test_a_closed_form_stands_beside_what_is_simulated() -> None:
    """The break-even of an attack on receipts has its closed form, and that of another none."""
    key = "service.sample_rate=0.000001:0.0001"
    found = moot("answers", "break-even", "inference", key, "--strategy", "lazy", *SMALL)
    assert 3e-6 < json.loads(found.stdout)["closed_form"] < 6e-6
    other = moot(
        "answers", "break-even", "weak-audit", "bond.eth=0.1:2", "--strategy", "lazy", *SMALL
    )
    assert "closed_form" not in json.loads(other.stdout)
