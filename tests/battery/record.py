"""What is known of the rows: which of them meets each operator, and how they differ from torch."""

import json
from collections.abc import Collection
from dataclasses import asdict, dataclass
from pathlib import Path

PATH = Path(__file__).with_name("record.json")


@dataclass(frozen=True)
class Record:
    """The record.

    Attributes:
        reached: name of our tables -> a row that meets it.
        differences: row -> how it differs from torch -> the choice that explains it, of
            docs/tools/operator_choices.py.
    """

    reached: dict[str, str]
    differences: dict[str, dict[str, str]]

    def update(self, row: str, reached: Collection[str], kinds: Collection[str]) -> None:
        """Put in what a row has come to; what is new has no choice."""
        for name in [name for name, by in self.reached.items() if by == row]:
            del self.reached[name]
        self.reached.update({n: row for n in reached if n not in self.reached})
        known = self.differences.pop(row, {})
        if kinds:
            self.differences[row] = {kind: known.get(kind, "") for kind in sorted(kinds)}

    def write(self) -> None:
        """Write the file."""
        PATH.write_text(json.dumps(asdict(self), indent=1, sort_keys=True) + "\n")


def read_record() -> Record:
    """Return what the file says."""
    return Record(**json.loads(PATH.read_text()))
