"""Tables on disk: a finished table appears as a whole, a growing one line by line."""

import csv
import io
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryFile

from moot.sim.results import JobResult
from moot.sim.tables import Record, Summary, make_gas_record, make_job_record, make_strategy_record
from moot.sim.writing import reporting, write_whole


def format_csv(records: Sequence[Record], *, header: bool = True) -> str:
    """Return records that all have the same keys as CSV; no text at all for no records."""
    if not records:
        return ""
    text = io.StringIO(newline="")
    writer = csv.DictWriter(text, list(records[0]), lineterminator="\n")
    if header:
        writer.writeheader()
    writer.writerows(records)
    return text.getvalue()


class Folder:
    """The directory in which a market leaves its tables; it is made when it is missing.

    Tables of an earlier market stay until the first job's line takes their place. Every method
    raises `UsageError` when the disk refuses.
    """

    GROWING = "jobs.csv"
    WHOLE = ("strategies.csv", "gas.csv")

    def __init__(self, path: Path) -> None:
        self._path = path
        self._is_begun = False
        self._made = [place for place in (path, *path.parents) if not place.exists()]
        try:
            with reporting(path):
                path.mkdir(parents=True, exist_ok=True)
                TemporaryFile(dir=path).close()  # a disk that refuses does so before the work
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """Take away again the directories that were made here and are empty."""
        for place in self._made:
            with suppress(OSError):  # it holds something
                place.rmdir()

    def append(self, result: JobResult) -> None:
        """Add a job's line to the growing table, below the header if it is the first one."""
        path = self._path / self.GROWING
        with reporting(path):
            if not self._is_begun:
                for name in (*self.WHOLE, self.GROWING):
                    (self._path / name).unlink(missing_ok=True)
            with path.open("a", encoding="utf-8", newline="") as file:
                file.write(format_csv([make_job_record(result)], header=not self._is_begun))
        self._is_begun = True

    def finish(self, summary: Summary) -> None:
        """Write the tables of a market that is over."""
        self._write("strategies.csv", [make_strategy_record(row) for row in summary.strategies])
        self._write("gas.csv", [make_gas_record(row) for row in summary.gas])

    def _write(self, name: str, records: Sequence[Record]) -> None:
        write_whole(self._path / name, format_csv(records))
