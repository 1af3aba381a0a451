"""The table of strategies: a row for each; cheats and tricks have theirs in `sim/strategies.py`."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

from moot.offchain.errors import UsageError
from moot.sim.economy.plugins import is_held, make_plugin
from moot.sim.strategies import GROUPS, STRATEGIES, is_conduct

if TYPE_CHECKING:
    from moot.sim.economy.strategies.base import Strategy


class Row(NamedTuple):
    """A strategy: what it does, in a few words, and where it is."""

    about: str
    place: str


def _row(about: str, name: str) -> Row:
    module = name[0].lower() + "".join(f"_{c.lower()}" if c.isupper() else c for c in name[1:])
    return Row(about, f"moot.sim.economy.strategies.{module}:{name}")


AGENTS: Mapping[str, Row] = {
    "opportunist": _row("cheats when it believes that this pays", "Opportunist"),
    "reputation-farmer": _row("is honest until its name is good", "ReputationFarmer"),
    "colluding-majority": _row("cheats where none but its friends look", "ColludingMajority"),
    "sybil-swarm": _row("lies with several claims from many names", "SybilSwarm"),
    "censoring-builder": _row("lies, and builds some of the blocks", "CensoringBuilder"),
    "exit-scam": _row("promises its bond many times over, lies, and leaves", "ExitScam"),
    "cartel": _row("lies where its friends are the watchers", "Cartel"),
    "delayer": _row("has much capital, and makes disputes last", "Delayer"),
}
"""Strategies of providers that choose what they do in each job."""

WATCHERS: Mapping[str, Row] = {
    "watcher": _row("checks whatever it is shown", "DiligentWatcher"),
    "rational-watcher": _row("checks as long as that pays", "RationalWatcher"),
    "free-riding-watcher": _row("says that all is well, and has not looked", "FreeRidingWatcher"),
    "sleeping-watcher": _row("does nothing", "SleepingWatcher"),
    "cartel": Row(
        "says that its friends' answers are right",
        "moot.sim.economy.strategies.cartel:CartelWatcher",
    ),
    "griefer": _row("joins honest jobs with a lie", "Griefer"),
}
"""Strategies of watchers."""

LEARNED: Mapping[str, Row] = {
    "linear": Row("does what `moot learn` has found", "moot.sim.learning.linear:Linear")
}
"""Strategies of providers whose parameters were learned."""

LISTED: Mapping[str, Mapping[str, Any]] = {
    **GROUPS,
    "Only in a CONFIG, providers that choose what they do in each job:": AGENTS,
    "Only in a CONFIG, providers that do what was learned:": LEARNED,
    "Only in a CONFIG, watchers:": WATCHERS,
}
"""All strategies by their names, below titles; each has an `about`."""

_PLACES: Mapping[str, Mapping[str, str]] = {
    "providers": {name: row.place for rows in (AGENTS, LEARNED) for name, row in rows.items()},
    "watchers": {name: row.place for name, row in WATCHERS.items()},
}
_AT_RATE = "moot.sim.economy.strategies.at_rate:AtRate"
_ASKING = "moot.sim.learning.asking:Asking"
_LEARNER = "learner"


def is_learner(name: str) -> bool:
    """Return whether a name is that of agents who are asked by an environment."""
    return name == _LEARNER or name.startswith(f"{_LEARNER}-")


def make_strategy(role: str, name: str, parameters: Mapping[str, str | float | bool]) -> "Strategy":
    """Return a strategy.

    Args:
        role: `providers` or `watchers`.
        name: of a row, or `path/to/file.py:Class`.
        parameters: of the strategy.

    Raises:
        UsageError: there is no such strategy or parameter, or the parameter is impossible.
    """
    from moot.sim.economy.strategies.base import Strategy  # noqa: PLC0415 - imports numpy

    rows = dict(_PLACES[role])
    if is_learner(name):
        rows[name] = _ASKING
    if role == "providers":
        rows |= dict.fromkeys(STRATEGIES, _AT_RATE)
    given = dict(parameters)
    if role == "providers" and name not in rows and not is_held(name) and is_conduct(name):
        rows[name] = _AT_RATE  # a trick or a cheat of a user's
    if rows.get(name) == _AT_RATE:
        given["conduct"] = name
    made = make_plugin(f"strategy of {role}", name, rows, given)
    if not isinstance(made, Strategy):
        raise UsageError(f"{name} is no strategy; write class {type(made).__name__}(Strategy)")
    share: object = made.censor_share
    if type(share) not in (int, float) or not 0 <= made.censor_share <= 1:
        raise UsageError(f"{name}: censor_share is {share!r}, and not a number from 0 to 1")
    return made
