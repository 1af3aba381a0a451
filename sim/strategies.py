"""The table of conducts: what a provider of a market can do about a job; it imports nothing slow.

A conduct is a row of this table, and a module of a class if its accounts call otherwise than
honest ones: `moot market` has a strategy of its name, and its help says what it does.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from moot.offchain.errors import UsageError
from moot.offchain.plugins import load_class
from moot.offchain.providers.catalogue import CHEATS, HONEST

if TYPE_CHECKING:
    from moot.sim.tricks.base import Trick

_LIE, _NOTHING = "wrong-output", "lazy"


@dataclass(frozen=True, slots=True)
class Conduct:
    """A conduct: what the accounts of a provider run, and how they call.

    Attributes:
        about: what it does, in a few words.
        runs: the behaviours that are drawn for a job: honest, or a cheat by its name.
        copies: how many accounts have each of these behaviours.
        trick: `module:class` of the trick that plays the accounts; without one they join in time
            and move at once, as the honest do.
        is_client: whether the first account opens the job, and pays for it.
    """

    about: str
    runs: tuple[str, ...]
    copies: int = 1
    trick: str = ""
    is_client: bool = False

    @property
    def accounts(self) -> int:
        """The number of accounts."""
        return len(self.runs) * self.copies

    def load_trick(self) -> "type[Trick] | None":
        """Return the class of the trick, if there is one."""
        if not self.trick:
            return None
        is_user = ".py:" in self.trick
        table = {} if is_user else {self.trick: self.trick}
        kind: type[Trick] = load_class("trick", self.trick, table)
        return kind


TRICKS: Mapping[str, Conduct] = {
    "hidden": Conduct(
        "commits to a claim and never shows it", (_LIE,), trick="moot.sim.tricks.hidden:Hidden"
    ),
    "zero-claim": Conduct(
        "claims a history that nobody can open, and never moves",
        (_NOTHING,),
        trick="moot.sim.tricks.zero_claim:ZeroClaim",
    ),
    "last-block": Conduct(
        "lies, and moves in the last block of its clock",
        (_LIE,),
        trick="moot.sim.tricks.last_block:LastBlock",
    ),
    "censor": Conduct(
        "lies, and fills the blocks when its rivals want to move",
        (_LIE,),
        trick="moot.sim.tricks.censor:Censor",
    ),
    "late-lie": Conduct(
        "joins with a lie in the last block in which it may",
        (_LIE,),
        trick="moot.sim.tricks.late_lie:LateLie",
    ),
    "copy": Conduct(
        "joins late with the first claim that it sees",
        (_NOTHING,),
        trick="moot.sim.tricks.copy:Copy",
    ),
    "front-runner": Conduct(
        "sends the others' calls from its own account first",
        (_NOTHING,),
        trick="moot.sim.tricks.front_runner:FrontRunner",
    ),
    "revenant": Conduct(
        "lies, and comes back from another account when it is out",
        (_LIE,),
        copies=2,
        trick="moot.sim.tricks.revenant:Revenant",
    ),
    "quitter": Conduct(
        "lies, and gives up as soon as somebody disputes it",
        (_LIE,),
        trick="moot.sim.tricks.quitter:Quitter",
    ),
    "sybil": Conduct("tells three lies from three accounts", (_LIE, _LIE, _LIE)),
    "crowd": Conduct("tells one lie from two accounts", (_LIE,), copies=2),
    "split": Conduct("joins an honest claim with three accounts", (HONEST, HONEST, HONEST)),
    "self-play": Conduct("lies with one account and is honest with another", (_LIE, HONEST)),
    "shill": Conduct("opens the job itself, and lies about it", (_LIE,), is_client=True),
    "grabber": Conduct(
        "tries every call that would pay it if the referee let it",
        (_LIE, HONEST),
        trick="moot.sim.tricks.grabber:Grabber",
    ),
}

GROUPS: Mapping[str, Mapping[str, Conduct]] = {
    "Honest:": {
        HONEST: Conduct("does what is agreed", (HONEST,)),
        "watcher": Conduct(
            "joins late with the truth where nobody has told it",
            (HONEST,),
            trick="moot.sim.tricks.watcher:Watcher",
        ),
    },
    "Cheats (their settings are drawn):": {
        name: Conduct(it.about, (name,)) for name, it in CHEATS.items()
    },
    "Tricks:": TRICKS,
}
"""Each conduct by its name, below a title for some of them."""

STRATEGIES: Mapping[str, Conduct] = {
    name: strategy for group in GROUPS.values() for name, strategy in group.items()
}
"""Each conduct by its name."""


def find_conduct(name: str) -> Conduct:
    """Return a conduct of the table, or that of a user's trick or cheat, `path/to/file.py:Class`.

    Raises:
        UsageError: there is no such conduct.
    """
    if name in STRATEGIES:
        return STRATEGIES[name]
    if ".py:" not in name:
        raise UsageError.unknown("strategy", name, STRATEGIES, "strategies", "moot market --help")
    from moot.offchain.providers.behaviour import Behaviour  # noqa: PLC0415 - imports numpy
    from moot.sim.tricks.base import Trick  # noqa: PLC0415 - likewise

    kind = load_class("trick", name, {})
    if issubclass(kind, Behaviour):
        return Conduct("a user's cheat", (name,))
    if not issubclass(kind, Trick):
        raise UsageError(f"{name} is no trick; write class {kind.__name__}(Trick)")
    return Conduct("a user's trick", kind.runs, kind.copies, name, kind.is_client)


def is_conduct(name: str) -> bool:
    """Return whether a name stands for a conduct, which a file of a user's may have."""
    if name in STRATEGIES or ".py:" not in name:
        return name in STRATEGIES
    from moot.offchain.providers.behaviour import Behaviour  # noqa: PLC0415 - imports numpy
    from moot.sim.tricks.base import Trick  # noqa: PLC0415 - likewise

    kind = load_class("strategy", name, {})
    return isinstance(kind, type) and issubclass(kind, Behaviour | Trick)
