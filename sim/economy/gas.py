"""The gas of calls, as played games have measured it: what the model of the referee can't tell."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import fields, is_dataclass
from typing import NamedTuple

import msgspec

from offchain.disputes.referee import Call
from offchain.disputes.stages import get_stage

REFUSED = "refused"
"""The stage of a refused call, in the table."""


class Kind(NamedTuple):
    """What the gas of a call depends on, as far as the table knows.

    Attributes:
        stage: of the dispute, or `REFUSED`.
        name: of the function that is called.
        ordinal: which call of that name it is in its game, counted up to `MANY`: the first one
            pays for new storage, the last one is paid for clearing it.
        is_disputed: whether a match has begun before.
        words: about how many words of calldata it has.
    """

    stage: str
    name: str
    ordinal: int
    is_disputed: bool
    words: int


MANY = 3
"""What the third call of a name and all later ones are."""


class GasTable(msgspec.Struct, frozen=True):
    """The mean gas of each kind of call.

    Attributes:
        rows: the kind, its mean gas, and how many calls were measured.
    """

    rows: tuple[tuple[Kind, int, int], ...]

    def estimate(self, kind: Kind) -> int:
        """Return what a call of a kind uses: what those use that are most like it.

        Of calls of the same name and stage, if there are any, those count first that agree in
        whether there was a dispute, then in the ordinal, then the nearest in size. A name that was
        never measured uses nothing.
        """

        def differ(row: tuple[Kind, int, int]) -> tuple[object, ...]:
            other = row[0]
            return (
                other.stage != kind.stage,
                other.is_disputed != kind.is_disputed,
                abs(other.ordinal - kind.ordinal),
                abs(other.words - kind.words),
                other,
            )

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


def classify(calls: Iterable[tuple[Call, bool]]) -> Iterator[Kind]:
    """Yield the kinds of a game's calls, given in order, each with whether it was refused."""
    ordinals: Counter[str] = Counter()
    for call, is_refused in calls:
        stage = REFUSED if is_refused else get_stage(call)
        is_disputed = ordinals["start_match"] > 0
        ordinals[call.name] += not is_refused
        ordinal = min(ordinals[call.name], MANY)
        yield Kind(stage, call.name, ordinal, is_disputed, count_words(call.args))


def count_words(value: object) -> int:
    """Return about how many words of calldata a value takes."""
    if isinstance(value, bytes):
        return -(-len(value) // 32)
    if is_dataclass(value) and not isinstance(value, type):
        return sum(count_words(getattr(value, field.name)) for field in fields(value))
    if isinstance(value, tuple | list):
        return sum(count_words(each) for each in value)
    return 1
