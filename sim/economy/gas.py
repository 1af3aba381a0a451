"""The gas of calls, as played games have measured it: what the model of the referee can't tell."""

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import fields, is_dataclass
from typing import Any, NamedTuple

import msgspec

from moot.contracts.model.step_invariants import Step
from moot.contracts.model.types import Store
from moot.offchain.disputes.referee.port import Call
from moot.offchain.disputes.referee.stages import get_stage

REFUSED = "refused"
"""The stage of a refused call, in the table."""


class Effect(NamedTuple):
    """What an accepted call did to the referee's memory: storage is most of what a call pays for.

    Attributes:
        created: how many members, claims and matches it has entered.
        changed: how many it has written again.
        cleared: how many it has removed.
        pays: whether money has left the referee.
    """

    created: int
    changed: int
    cleared: int
    pays: bool


def find_effect(step: Step) -> Effect:
    """Return what an accepted call did to the referee's memory."""
    created = changed = cleared = 0
    for old, new in zip(_list_tables(step.before), _list_tables(step.after), strict=True):
        created += len(new.keys() - old.keys())
        cleared += len(old.keys() - new.keys())
        changed += sum(key in new and new[key] != value for key, value in old.items())
    pays = step.before.balance_wei + step.message.value_wei > step.after.balance_wei
    return Effect(created, changed, cleared, pays)


def _list_tables(store: Store) -> tuple[dict[Any, Any], ...]:
    return store.members, store.claims, store.matches


class Kind(NamedTuple):
    """What the gas of a call depends on, as far as the table knows.

    Attributes:
        stage: of the dispute, or `REFUSED`.
        name: of the function that is called.
        effect: on the referee's memory; a refused call has none.
        words: about how many words of calldata it has.
    """

    stage: str
    name: str
    effect: Effect
    words: int


NO_EFFECT = Effect(0, 0, 0, pays=False)


class GasTable(msgspec.Struct, frozen=True):
    """The mean gas of each kind of call.

    Attributes:
        rows: the kind, its mean gas, and how many calls were measured.
    """

    rows: tuple[tuple[Kind, int, int], ...]

    def estimate(self, kind: Kind) -> int:
        """Return the gas of a call: that of the most similar call that was measured.

        Of calls of the same name and stage, if there are any, those count first whose effect is
        nearest, then the nearest in size. A name that was never measured uses nothing.
        """

        def differ(row: tuple[Kind, int, int]) -> tuple[object, ...]:
            other = row[0]
            distance = sum(abs(a - b) for a, b in zip(other.effect, kind.effect, strict=True))
            return other.stage != kind.stage, distance, abs(other.words - kind.words), other

        alike = [row for row in self.rows if row[0].name == kind.name]
        return min(alike, key=differ)[1] if alike else 0


def measure(calls: Iterable[tuple[Kind, int]]) -> GasTable:
    """Return the table of calls that were made, each with its gas."""
    gases: Mapping[Kind, list[int]] = defaultdict(list)
    for kind, gas in calls:
        gases[kind].append(gas)
    return GasTable(
        tuple(
            (kind, round(sum(found) / len(found)), len(found))
            for kind, found in sorted(gases.items())
        )
    )


def classify(call: Call, effect: Effect | None) -> Kind:
    """Return the kind of a call; without an effect it was refused."""
    words = count_words(call.args)
    if effect is None:
        return Kind(REFUSED, call.name, NO_EFFECT, words)
    return Kind(get_stage(call), call.name, effect, words)


def count_words(value: object) -> int:
    """Return about how many words of calldata a value takes."""
    if isinstance(value, bytes):
        return -(-len(value) // 32)
    if is_dataclass(value) and not isinstance(value, type):
        return sum(count_words(getattr(value, field.name)) for field in fields(value))
    if isinstance(value, tuple | list):
        return sum(count_words(each) for each in value)
    return 1
