"""The committed snapshot of what calls cost: one line a scenario and a call, and what differs."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from moot.offchain.errors import UsageError
from moot.sim.gas.play import Measured
from moot.sim.gas.rows import Spread, summarise
from moot.sim.writing import write_whole

NAME = "gas-snapshot.txt"
HEAD = (
    "# Written by `moot gas report --write`, checked by `moot gas check`.\n"
    "# scenario call count min median max, in gas\n"
)


@dataclass(frozen=True, slots=True)
class Line:
    """What one kind of call cost in one scenario, in gas."""

    scenario: str
    call: str
    count: int
    minimum: int
    median: int
    maximum: int

    @classmethod
    def of(cls, scenario: str, call: str, count: int, spread: Spread) -> Self:
        """Return the line of so many calls."""
        return cls(scenario, call, count, spread.minimum, spread.median, spread.maximum)

    @classmethod
    def parse(cls, text: str) -> Self:
        """Return the line that a text shows; ValueError if it shows none."""
        scenario, call, *numbers = text.split()
        count, minimum, median, maximum = map(int, numbers)
        return cls(scenario, call, count, minimum, median, maximum)

    @property
    def key(self) -> tuple[str, str]:
        """The scenario, the stage and the call that the line is about."""
        return self.scenario, self.call

    @property
    def amounts(self) -> tuple[int, int, int, int]:
        """The amounts of gas that the line states."""
        return self.count, self.minimum, self.median, self.maximum

    def __str__(self) -> str:
        return " ".join((*self.key, *map(str, self.amounts)))


@dataclass(frozen=True, slots=True)
class Change:
    """A call that costs something else than it did; None where there is no such call."""

    before: Line | None
    after: Line | None

    def __str__(self) -> str:
        line = self.after or self.before
        assert line is not None
        name = f"{line.scenario} {line.call}"
        if self.before is None:
            return f"{name}: new, {_describe(line)}"
        if self.after is None:
            return f"{name}: gone, was {_describe(line)}"
        difference = self.after.median - self.before.median
        median = f"median {difference:+,} gas"
        return f"{name}: {_describe(self.before)} -> {_describe(self.after)} ({median})"


def _describe(line: Line) -> str:
    return f"{line.count} x {line.minimum:,}/{line.median:,}/{line.maximum:,}"


def make_lines(measured: Measured) -> list[Line]:
    """Return the lines of a scenario: calls of one name in different stages are different calls."""
    return [
        Line.of(measured.scenario.name, f"{row.stage}.{row.call}", row.moves, row.gas)
        for row in summarise(measured.played)
    ]


def read(path: Path) -> list[Line]:
    """Return the lines of a snapshot.

    Raises:
        UsageError: there is none, or it is not one.
    """
    try:
        text = path.read_text(encoding="utf-8")
    except OSError as error:
        problem = f"cannot read {path}: {error.strerror}; write it with `moot gas report --write`"
        raise UsageError(problem) from error
    return list(_parse(path, text))


def _parse(path: Path, text: str) -> Iterator[Line]:
    for number, line in enumerate(text.splitlines(), 1):
        if line.strip() and not line.startswith("#"):
            try:
                yield Line.parse(line)
            except ValueError as error:
                problem = f"{path}, line {number}: not a scenario, a call and four numbers"
                raise UsageError(problem) from error


def write(path: Path, lines: Iterable[Line]) -> None:
    """Write a snapshot; UsageError when the disk refuses."""
    write_whole(path, HEAD + "".join(f"{line}\n" for line in lines))


def compare(before: Iterable[Line], after: Iterable[Line]) -> list[Change]:
    """Return every difference, in the order of the later lines, and then what is gone."""
    old, new = _index(before), _index(after)
    changed = [Change(old.get(key), line) for key, line in new.items() if old.get(key) != line]
    return changed + [Change(line, None) for key, line in old.items() if key not in new]


def _index(lines: Iterable[Line]) -> Mapping[tuple[str, str], Line]:
    return {line.key: line for line in lines}


def select(lines: Iterable[Line], scenarios: Sequence[str]) -> list[Line]:
    """Return the lines about some scenarios."""
    return [line for line in lines if line.scenario in scenarios]


def replace(before: Iterable[Line], after: Sequence[Line], order: Sequence[str]) -> list[Line]:
    """Return lines of which the scenarios of the later ones are replaced, in order of scenarios."""
    again = {line.scenario for line in after}
    kept = [line for line in before if line.scenario in order and line.scenario not in again]
    return sorted((*kept, *after), key=lambda line: order.index(line.scenario))
