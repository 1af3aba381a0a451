"""The names of the strategies and what each does, in a module that imports nothing slow."""

from collections.abc import Mapping

from offchain.providers.catalogue import CHEATS, HONEST

_TRICKS: Mapping[str, str] = {
    "hidden": "commits to a claim and never shows it",
    "zero-claim": "claims a history that nobody can open, and never moves",
    "last-block": "lies, and moves in the last block of its clock",
    "censor": "lies, and fills the blocks when its rivals want to move",
    "late-lie": "joins with a lie in the last block in which it may",
    "copy": "joins late with the first claim that it sees",
    "front-runner": "sends the others' calls from its own account first",
    "revenant": "lies, and comes back from another account when it is out",
    "sybil": "tells three lies from three accounts",
    "crowd": "tells one lie from two accounts",
    "split": "joins an honest claim with three accounts",
    "self-play": "lies with one account and is honest with another",
    "shill": "opens the job itself, and lies about it",
    "grabber": "tries every call that would pay it if the referee let it",
}

GROUPS: Mapping[str, Mapping[str, str]] = {
    "Honest:": {
        HONEST: "does what is agreed",
        "watcher": "joins with the truth, late, where nobody has told it",
    },
    "Cheats (their settings are drawn):": {name: it.about for name, it in CHEATS.items()},
    "Tricks:": _TRICKS,
}
"""What each strategy does, by its name, below a title for some of them."""

STRATEGIES: Mapping[str, str] = {
    name: about for group in GROUPS.values() for name, about in group.items()
}
"""What each strategy does, by its name; `strategies.py` plays them."""
