"""A market's rules: a user's own are checked, and what no rule can be is refused in one line."""

from pathlib import Path
from typing import Any

import pytest

from moot.offchain.errors import UsageError
from moot.sim.economy import limit
from moot.sim.economy.mechanisms.table import MECHANISMS, make_mechanism
from moot.sim.economy.strategies.table import make_strategy
from tests.economy_helpers import make_config, play

HEAD = """
from dataclasses import dataclass
from moot.sim.economy.mechanisms.base import Audit, Sold

@dataclass(frozen=True)
class Mine{base}:
"""

GOOD = {
    "pricing": """    def count_bidders(self, seats): return seats
    def sell(self, bids, seats, value_gwei): return Sold(range(seats), max(bids))
""",
    "matching": "    def weigh(self, reputation, stake_gwei): return 1",
    "bond": "    def size(self, value_gwei, reputation): return 10**9",
    "audit": "    def choose_rate(self, reputation): return 0.5",
    "reputation": """    def begin(self): return 0.5
    def update(self, reputation, blocks, *, is_good): return reputation
""",
}

BAD = [
    ("pricing", "    def count_bidders(self, seats): return 0", "count_bidders returns 0"),
    ("pricing", "    def count_bidders(self, seats): return True", "count_bidders returns True"),
    ("pricing", "    def sell(self, *_): return Sold([0], -1)", "sell returns Sold(winners=[0], "),
    ("pricing", "    def sell(self, *_): return Sold([9], 1)", "sell returns Sold(winners=[9], "),
    ("pricing", "    def sell(self, *_): return Sold([-1], 1)", "sell returns Sold(winners=[-1]"),
    ("pricing", "    def sell(self, *_): return Sold([0, 0], 1)", "sell returns Sold(winners=[0,"),
    ("pricing", "    def sell(self, *_): return Sold([0], 1.5)", "sell returns Sold(winners=[0], "),
    ("pricing", "    def sell(self, *_): return Sold([0], 10**30)", "sell returns Sold(winners="),
    ("pricing", "    def sell(self, *_): return ([0], 1)", "sell returns ([0], 1)"),
    ("matching", "    def weigh(self, *_): return float('nan')", "weigh returns nan"),
    ("matching", "    def weigh(self, *_): return 2.0", "weigh returns 2.0"),
    ("bond", "    def size(self, *_): return -1", "size returns -1"),
    ("bond", "    def size(self, *_): return 10**19", "size returns 10000000000000000000"),
    ("bond", "    def size(self, *_): return 1e9", "size returns 1000000000.0"),
    ("bond", "    def size(self, *_): return {}[3]", "size raises KeyError: 3"),
    ("bond", "    def size(self, *_): raise SystemExit", "size raises SystemExit"),
    ("bond", "    def size(self): return 1", "size raises TypeError"),
    ("bond", "    def size(self, *_):\n        while True: pass", "size takes longer than"),
    ("bond", "    size = 3", "is no bond rule: it has no method size"),
    ("audit", "    def choose_rate(self, *_): return 2.0", "choose_rate returns 2.0"),
    ("audit", "    def choose_rate(self, *_): return 'x'", "choose_rate returns 'x'"),
    ("audit", "    def choose_fee(self, *_): return -5", "choose_fee returns -5"),
    ("audit", "    is_public = 3", "is_public is 3"),
    ("reputation", "    def begin(self): return 1.5", "begin returns 1.5"),
    ("reputation", "    def update(self, *_, is_good): return -0.1", "update returns -0.1"),
]


def write(folder: Path, kind: str, body: str) -> dict[str, str]:
    """Write a rule that is good but for what the body says; return its configuration."""
    head = HEAD.format(base="(Audit)" if kind == "audit" else "")
    (folder / "mine.py").write_text(f"{head}{GOOD[kind]}\n{body}\n")
    return {"name": f"{folder / 'mine.py'}:Mine"}


@pytest.mark.parametrize("kind", MECHANISMS)
def test_a_users_rule_is_used(tmp_path: Path, kind: str) -> None:
    """A rule in a file does what the built-in ones do."""
    kept, counts = play(make_config(**{kind: write(tmp_path, kind, "")}))
    assert counts.jobs == 200
    assert counts.unserved < 40
    if kind == "audit":
        assert 60 < sum(row["is_audited"] for row in kept.read("jobs")) < 140


@pytest.mark.parametrize(("kind", "body", "why"), BAD)
def test_a_rule_that_answers_nonsense_ends_the_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str, body: str, why: str
) -> None:
    """The error names the file, the method, and what it has answered."""
    monkeypatch.setattr(limit, "BUSY_SECONDS", 0.02)
    with pytest.raises(UsageError) as found:
        play(make_config(**{kind: write(tmp_path, kind, body)}))
    assert f"mine.py:Mine: {why}" in found.value.message.replace(" is no", ": is no")
    assert "\n" not in found.value.message


@pytest.mark.parametrize(
    ("kind", "values"),
    [
        ("pricing", {"name": "posted", "eth": -1.0}),
        ("pricing", {"name": "second-price", "bidders": 0}),
        ("pricing", {"name": "second-price", "bidders": True}),
        ("matching", {"name": "stake-weighted", "cap_eth": 0.0}),
        ("bond", {"name": "constant", "eth": 1e7}),
        ("bond", {"name": "proportional", "multiple": 1e300}),
        ("bond", {"name": "constant", "eth": 10**400}),
        ("audit", {"name": "constant", "rate": 1.5}),
        ("audit", {"name": "constant", "rate": "often"}),
        ("reputation", {"name": "decaying", "kept": 2.0}),
        ("bond", {"name": "constnat"}),
        ("bond", {"eth": 1.0}),
        ("bond", {"name": 3}),
        ("bond", {"name": "nowhere.py:Mine"}),
        ("bond", {"name": "constant", "ether": 1.0}),
    ],
)
def test_an_impossible_rule_is_refused(kind: str, values: dict[str, Any]) -> None:
    """What a parameter can't be is one line."""
    with pytest.raises(UsageError):
        make_mechanism(kind, values)


@pytest.mark.parametrize(
    ("role", "name", "values"),
    [
        ("providers", "opportunist", {"conduct": "nonsense"}),
        ("providers", "opportunist", {"weight": -4.0}),
        ("providers", "opportunist", {"curiosity": 2.0}),
        ("providers", "colluding-majority", {"conduct": "free-ride"}),
        ("providers", "reputation-farmer", {"conduct": "nonsense"}),
        ("providers", "reputation-farmer", {"scams": 0}),
        ("providers", "censoring-builder", {"power": 1.5}),
        ("providers", "delayer", {"reserve": -1.0}),
        ("providers", "lazy", {"rate": -0.1}),
        ("watchers", "griefer", {"rate": 1.1}),
        ("watchers", "rational-watcher", {"memory": 0.0}),
        ("watchers", "rational-watcher", {"weight": 0.0}),
        ("watchers", "lazy", {}),
    ],
)
def test_an_impossible_strategy_is_refused(role: str, name: str, values: dict[str, Any]) -> None:
    """A conduct that there is not, or a share above 1, is refused before the market begins."""
    with pytest.raises(UsageError):
        make_strategy(role, name, values)


def test_a_bond_above_all_money_is_refused() -> None:
    """Nobody could ever run a job under such a bond."""
    groups = [{"strategy": "honest", "count": 3, "capital_eth": 5.0}]
    with pytest.raises(UsageError, match="a bond is 6 ETH at least, and no provider has more than"):
        play(make_config(providers=groups, bond={"name": "constant", "eth": 6.0}))


def test_an_auction_with_too_few_bidders_is_refused() -> None:
    """An auction that could never be held is no market."""
    groups = [{"strategy": "honest", "count": 3}]
    with pytest.raises(UsageError, match="each job is offered to 4 providers, and there are 3"):
        play(make_config(providers=groups, pricing={"name": "second-price"}))
