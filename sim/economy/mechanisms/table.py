"""The table of a market's rules: one row for each that is built in; a user's own is a file."""

from collections.abc import Mapping
from typing import Any

from moot.sim.economy.mechanisms.checked import Checked
from moot.sim.economy.plugins import make_plugin

MECHANISMS: Mapping[str, Mapping[str, str]] = {
    "pricing": {
        "posted": "moot.sim.economy.mechanisms.posted:Posted",
        "second-price": "moot.sim.economy.mechanisms.second_price:SecondPrice",
    },
    "matching": {
        "random": "moot.sim.economy.mechanisms.random_matching:RandomMatching",
        "stake-weighted": "moot.sim.economy.mechanisms.stake_weighted:StakeWeighted",
        "by-reputation": "moot.sim.economy.mechanisms.by_reputation:ByReputation",
    },
    "bond": {
        "constant": "moot.sim.economy.mechanisms.constant_bond:ConstantBond",
        "proportional": "moot.sim.economy.mechanisms.proportional_bond:ProportionalBond",
    },
    "audit": {
        "constant": "moot.sim.economy.mechanisms.constant_audits:ConstantAudits",
        "by-reputation": "moot.sim.economy.mechanisms.audits_by_reputation:AuditsByReputation",
        "volunteers": "moot.sim.economy.mechanisms.volunteers:Volunteers",
        "forced-errors": "moot.sim.economy.mechanisms.forced_errors:ForcedErrors",
        "from-bonds": "moot.sim.economy.mechanisms.audits_from_bonds:AuditsFromBonds",
    },
    "reputation": {"decaying": "moot.sim.economy.mechanisms.decaying:Decaying"},
}
"""Each rule's module and class, by its kind and its name."""


def make_mechanism(kind: str, values: Mapping[str, str | float | bool]) -> Any:
    """Return a rule of a kind.

    Args:
        kind: a key of `MECHANISMS`.
        values: its `name`, or `path/to/file.py:Class`, and its parameters.

    Raises:
        UsageError: there is no such rule or parameter, or the parameter is impossible.
    """
    parameters = dict(values)
    name = parameters.pop("name", None)
    rule = make_plugin(f"{kind} rule", name, MECHANISMS[kind], parameters)
    return rule if name in MECHANISMS[kind] else Checked(kind, str(name), rule)
