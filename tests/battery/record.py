"""What is known of the rows: which of them meets each operator, and how they differ from torch."""

import json
from collections.abc import Collection
from dataclasses import asdict, dataclass
from pathlib import Path

PATH = Path(__file__).with_name("record.json")
OF_PROCESSORS = "kernels"
"""The choice that explains what torch does by the processor: vectors of 256 bits, of 512, none."""


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
        """Put in what a row has come to; what is new has no choice.

        What another processor's kernels do, and this one's don't, stays.
        """
        for name in [name for name, by in self.reached.items() if by == row]:
            del self.reached[name]
        self.reached.update({n: row for n in reached if n not in self.reached})
        known = self.differences.pop(row, {})
        elsewhere = {kind for kind, choice in known.items() if choice == OF_PROCESSORS}
        if found := sorted({*kinds, *elsewhere}):
            self.differences[row] = {kind: known.get(kind, "") for kind in found}

    def write(self) -> None:
        """Write the file."""
        PATH.write_text(json.dumps(asdict(self), indent=1, sort_keys=True) + "\n")


def read_record() -> Record:
    """Return what the file says."""
    return Record(**json.loads(PATH.read_text()))
