"""Presence: when the loss has a gradient for a parameter, where regions of a step may be left out.

torch makes no gradient for an expert whose code did not run, and an optimizer then leaves its
parameters, their moments and their counts of updates as they are. A traced step runs all code, and
finds zeros; so the new state is chosen by whether torch has a gradient.
"""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor


class Presence(NamedTuple):
    """When something is there.

    Attributes:
        condition: BOOL (), None where it always is.
        implied: the `id` of conditions that hold whenever it does.
    """

    condition: Tensor | None
    implied: frozenset[int] = frozenset()


ALWAYS = Presence(None)


def find_presence(root: Any, conditions: Mapping[int, Tensor | None]) -> dict[int, Presence]:
    """Return when torch has gradients for tensors, by their `id`.

    Args:
        root: the loss's function of autograd.
        conditions: when torch makes a function, by its number.
    """
    reached: dict[Any, list[Presence]] = defaultdict(list)
    reached[root] = [ALWAYS]
    found = {}
    for function in _sort(root):
        presence = join(reached.pop(function))
        condition = conditions.get(function._sequence_nr())  # noqa: SLF001 - not public
        if condition is not None:
            presence = _restrict(presence, condition)
        if hasattr(function, "variable"):
            found[id(function.variable)] = presence
        for following, _ in function.next_functions:
            if following is not None:
                reached[following].append(presence)
    return found


def join(several: Sequence[Presence]) -> Presence:
    """Return when any of several is there."""
    different = {id(it.condition): it for it in several}
    if id(None) in different:
        return ALWAYS
    first, *others = different.values()
    if not others:
        return first
    conditions = [it.condition for it in different.values() if it.condition is not None]
    implied = first.implied.intersection(*(it.implied for it in others))
    return Presence(torch.stack(conditions).any(), implied)


def _restrict(presence: Presence, condition: Tensor) -> Presence:
    """Return when something is there and a condition holds, too."""
    if id(condition) in presence.implied:
        return presence
    known = presence.condition
    both = condition if known is None else known.logical_and(condition)
    return Presence(both, presence.implied | {id(condition)})


def _sort(root: Any) -> Iterator[Any]:
    """Yield functions of autograd, each before those that it hands gradients to."""
    waiting: dict[Any, int] = defaultdict(int)
    pending, seen = [root], {root}
    while pending:
        for following, _ in pending.pop().next_functions:
            if following is None:
                continue
            waiting[following] += 1
            if following not in seen:
                seen.add(following)
                pending.append(following)
    ready = [root]
    while ready:
        function = ready.pop()
        yield function
        for following, _ in function.next_functions:
            if following is None:
                continue
            waiting[following] -= 1
            if not waiting[following]:
                ready.append(following)
