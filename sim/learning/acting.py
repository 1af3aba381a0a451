"""Actions: whole numbers, of which 0 declines and each other one is a conduct by its place."""

from collections.abc import Sequence

import numpy as np

from moot.offchain.errors import UsageError
from moot.sim.economy.limit import show
from moot.sim.economy.strategies.base import PROVIDER_CONDUCTS, WATCHER_CONDUCTS

DECLINE = 0
"""The action of whoever declines a job, or does not look at it."""

PROVIDERS = ("honest", "lazy")
"""The conducts of learning providers, unless others are named."""

WATCHERS = ("watcher", "free-ride")
"""The conducts of learning watchers, likewise."""


def read_conducts(
    text: str | Sequence[str], known: frozenset[str] = PROVIDER_CONDUCTS | WATCHER_CONDUCTS
) -> tuple[str, ...]:
    """Return conducts by their names.

    Args:
        text: names with commas between them, or a sequence of names.
        known: those that there are: all, or all of a role.

    Raises:
        UsageError: there is no such conduct, one is there twice, or there is none.
    """
    listed = text.split(",") if isinstance(text, str) else list(text)
    names = tuple(name.strip() if isinstance(name, str) else show(name) for name in listed)
    for name in names:
        if name not in known:
            raise UsageError.unknown("conduct", name, known)
    if not names or len(set(names)) < len(names):
        raise UsageError(
            f"{show(text)} names no conduct, or one twice; write {','.join(PROVIDERS)}"
        )
    return names


def read_action(action: object, conducts: Sequence[str]) -> tuple[str | None, str]:
    """Return the conduct of an action, None to decline, and why the action is none, if it is none.

    Args:
        action: what a policy has answered: a whole number, of Python's or of numpy's.
        conducts: the conduct of action 1, of action 2, and so on.
    """
    if isinstance(action, np.ndarray) and action.shape == ():
        action = action[()]
    if isinstance(action, (int, np.integer)) and not isinstance(action, bool):
        number = int(action)
        if number == DECLINE:
            return None, ""
        if 0 < number <= len(conducts):
            return conducts[number - 1], ""
    names = ", ".join(f"{place} for {name}" for place, name in enumerate(conducts, 1))
    return None, f"answers {_show(action)}, which is no action; choose 0 to decline, {names}"


def _show(action: object) -> str:
    """Return an action in few words, whatever it is."""
    try:
        return show(action)
    except Exception:  # noqa: BLE001 - what is no action may not even have a text
        return type(action).__name__
