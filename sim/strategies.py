"""The table of the strategies that a provider of a market can have; it imports nothing slow.

A strategy is a row of this table, and a module of a class if its accounts call otherwise than
honest ones: `moot market` has it, and its help says what it does.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from moot.offchain.errors import UsageError
from moot.offchain.plugins import load_class
from moot.offchain.providers.catalogue import CHEATS, HONEST

if TYPE_CHECKING:
    from moot.sim.scheme import Scheme

_LIE, _NOTHING = "wrong-output", "lazy"


@dataclass(frozen=True, slots=True)
class Strategy:
    """A strategy: what the accounts of a provider run, and how they call.

    Attributes:
        about: what it does, in a few words.
        runs: the behaviours that are drawn for a job: honest, or a cheat by its name.
        copies: how many accounts have each of these behaviours.
        scheme: `module:class` of the scheme that plays the accounts; without one they join in time
            and move at once, as the honest do.
        is_client: whether the first account opens the job, and pays for it.
    """

    about: str
    runs: tuple[str, ...]
    copies: int = 1
    scheme: str = ""
    is_client: bool = False

    @property
    def accounts(self) -> int:
        """The number of accounts."""
        return len(self.runs) * self.copies

    def load_scheme(self) -> "type[Scheme] | None":
        """Return the class of the scheme, if there is one."""
        if not self.scheme:
            return None
        is_user = ".py:" in self.scheme
        table = {} if is_user else {self.scheme: self.scheme}
        kind: type[Scheme] = load_class("trick", self.scheme, table)
        return kind


TRICKS: Mapping[str, Strategy] = {
    "hidden": Strategy(
        "commits to a claim and never shows it", (_LIE,), scheme="moot.sim.tricks.hidden:Hidden"
    ),
    "zero-claim": Strategy(
        "claims a history that nobody can open, and never moves",
        (_NOTHING,),
        scheme="moot.sim.tricks.zero_claim:ZeroClaim",
    ),
    "last-block": Strategy(
        "lies, and moves in the last block of its clock",
        (_LIE,),
        scheme="moot.sim.tricks.last_block:LastBlock",
    ),
    "censor": Strategy(
        "lies, and fills the blocks when its rivals want to move",
        (_LIE,),
        scheme="moot.sim.tricks.censor:Censor",
    ),
    "late-lie": Strategy(
        "joins with a lie in the last block in which it may",
        (_LIE,),
        scheme="moot.sim.tricks.late_lie:LateLie",
    ),
    "copy": Strategy(
        "joins late with the first claim that it sees",
        (_NOTHING,),
        scheme="moot.sim.tricks.copy:Copy",
    ),
    "front-runner": Strategy(
        "sends the others' calls from its own account first",
        (_NOTHING,),
        scheme="moot.sim.tricks.front_runner:FrontRunner",
    ),
    "revenant": Strategy(
        "lies, and comes back from another account when it is out",
        (_LIE,),
        copies=2,
        scheme="moot.sim.tricks.revenant:Revenant",
    ),
    "sybil": Strategy("tells three lies from three accounts", (_LIE, _LIE, _LIE)),
    "crowd": Strategy("tells one lie from two accounts", (_LIE,), copies=2),
    "split": Strategy("joins an honest claim with three accounts", (HONEST, HONEST, HONEST)),
    "self-play": Strategy("lies with one account and is honest with another", (_LIE, HONEST)),
    "shill": Strategy("opens the job itself, and lies about it", (_LIE,), is_client=True),
    "grabber": Strategy(
        "tries every call that would pay it if the referee let it",
        (_LIE, HONEST),
        scheme="moot.sim.tricks.grabber:Grabber",
    ),
}

GROUPS: Mapping[str, Mapping[str, Strategy]] = {
    "Honest:": {
        HONEST: Strategy("does what is agreed", (HONEST,)),
        "watcher": Strategy(
            "joins late with the truth where nobody has told it",
            (HONEST,),
            scheme="moot.sim.tricks.watcher:Watcher",
        ),
    },
    "Cheats (their settings are drawn):": {
        name: Strategy(it.about, (name,)) for name, it in CHEATS.items()
    },
    "Tricks:": TRICKS,
}
"""Each strategy by its name, below a title for some of them."""

STRATEGIES: Mapping[str, Strategy] = {
    name: strategy for group in GROUPS.values() for name, strategy in group.items()
}
"""Each strategy by its name."""


def find_strategy(name: str) -> Strategy:
    """Return a strategy of the table, or that of a user's trick or cheat, `path/to/file.py:Class`.

    Raises:
        UsageError: there is no such strategy.
    """
    if name in STRATEGIES or ".py:" not in name:
        if name not in STRATEGIES:
            raise UsageError.unknown(
                "strategy", name, STRATEGIES, "strategies", "moot market --help"
            )
        return STRATEGIES[name]
    from moot.offchain.providers.behaviour import Behaviour  # noqa: PLC0415 - imports numpy
    from moot.sim.scheme import Scheme  # noqa: PLC0415 - likewise

    kind = load_class("trick", name, {})
    if issubclass(kind, Behaviour):
        return Strategy("a user's cheat", (name,))
    if not issubclass(kind, Scheme):
        raise UsageError(f"{name} is no trick; write class {kind.__name__}(Scheme)")
    return Strategy("a user's trick", kind.runs, kind.copies, name, kind.is_client)
