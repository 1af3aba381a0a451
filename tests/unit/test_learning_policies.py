"""Policies: what they see is finite, what they answer is a conduct, and any market takes them."""

from pathlib import Path

import numpy as np
import pytest

import moot
from moot.sim.economy.facts import Job, News, Own
from moot.sim.learning.acting import read_conducts
from moot.sim.learning.observing import FEATURES, HIGH, LOW, PLACES, Memory, observe

JOB = Job(0, 5, 10**9, 10**8, 2 * 10**9, 10**6, 0.1, 10**7, 0, 0)
OWN = Own("me-1", 10**10, 0, 10**7, 0.5, 0, 0)


def test_observations_are_within_their_bounds() -> None:
    """A hidden audit rate and huge amounts are finite numbers within the bounds; so is no job."""
    memory = Memory()
    seen = observe(JOB._replace(audit_rate=float("nan"), value_gwei=10**18), OWN, memory)
    assert seen[PLACES["audit_rate"]] == 0
    assert seen[PLACES["is_hidden"]] == 1
    assert seen[PLACES["value"]] == HIGH[PLACES["value"]]
    memory.hear(News(0, 9, "lazy", True, True, True, "right", -(10**18), True, 0))
    memory.hear(News(1, 9, "lazy", True, False, False, "wrong", -(10**18), True, 0))
    ruined = observe(None, OWN._replace(free_gwei=0, jobs=2, slashed=1), memory)
    for each in (seen, ruined):
        assert each.dtype == np.float32
        assert len(each) == len(FEATURES)
        assert ((each >= LOW) & (each <= HIGH)).all()
    named = {it.name: float(ruined[PLACES[it.name]]) for it in FEATURES}
    assert named["last_profit"] == -1000
    assert (named["checked"], named["caught"], named["slashed"]) == (0.5, 0.5, 0.5)
    assert (named["last_slashed"], named["last_wrong"]) == (0, 1)
    assert named["bond"] == named["value"] == 0
    plain = observe(JOB, OWN, Memory())
    assert plain[PLACES["bond"]] == 2
    assert plain[PLACES["audit_rate"]] == np.float32(0.1)


def test_conducts_are_read() -> None:
    """Names with commas and sequences of names are the same; nothing is no conduct."""
    assert read_conducts("honest, lazy") == read_conducts(["honest", "lazy"])
    for none in ("", [], "honest,", [3]):
        with pytest.raises(moot.UsageError):
            read_conducts(none)  # type: ignore[arg-type] # on purpose


def test_a_policy_is_a_strategy() -> None:
    """A function of an observation takes part in any market, and cheats where it says so."""
    rare = moot.PolicyStrategy(lambda seen: 2 if seen[PLACES["audit_rate"]] < 0.05 else 1)
    for rate, cheats in ((0.01, True), (0.2, False)):
        results = moot.simulate(
            "weak-audit", providers=[("honest", 3), (rare, 2)], jobs=40, audit_rate=rate
        )
        rows = {row["strategy"]: row for row in results.sum_strategies()}
        assert rows["PolicyStrategy"]["cheated"] == cheats * rows["PolicyStrategy"]["jobs"]
        assert rows["PolicyStrategy"]["jobs"]
        assert rows["PolicyStrategy"]["forfeits"] == 0


def test_a_policy_that_answers_nothing_forfeits() -> None:
    """NaN of a policy, an error of it, and the lack of one are forfeits with their reasons."""
    for policy, says in (
        (lambda _: float("nan"), "answers nan, which is no action"),
        (lambda _: 1 // 0, "raises ZeroDivisionError"),
        (None, "a policy is lacking"),
    ):
        own = moot.PolicyStrategy(policy)
        results = moot.simulate("baseline", providers=[("honest", 3), (own, 1)], jobs=30)
        details = [it["detail"] for it in results.to_arrow("events").to_pylist()]
        assert details
        assert all(says in detail for detail in details)


FILE = """
from dataclasses import dataclass
import moot

@dataclass
class Mine(moot.PolicyStrategy):
    conducts: str = "honest,lazy"
    most: float = 0.5

    def act(self, observation, stream):
        return 2 if stream.draw() < self.most else 1
"""


def test_a_policy_of_a_file_is_a_strategy(tmp_path: Path) -> None:
    """A subclass in a user's file has parameters, and may draw from its agent's stream."""
    path = tmp_path / "my.py"
    path.write_text(FILE)
    name = f"{path}:Mine"
    key = f"providers.{name}"
    results = moot.simulate("baseline", set={f"{key}.count": 4, f"{key}.most": 0.25}, jobs=300)
    rows = {row["strategy"]: row for row in results.sum_strategies()}
    assert 0.05 < rows[name]["cheated"] / rows[name]["jobs"] < 0.6


@pytest.mark.slow
def test_a_policy_passes_the_kit() -> None:
    """A policy in memory passes the conformance kit of strategies."""
    policy = moot.PolicyStrategy(lambda seen: 1 + int(seen[PLACES["reputation"]] > 0.6))
    assert all(finding.is_met for finding in moot.check_strategy(policy))
