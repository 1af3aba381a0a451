"""Tries the chain's arithmetic on millions of operands, through the port, against an oracle.

Use it as `python -m tests.chain_arithmetic.volume [--function exp ...] [--processes 2]`.

Results are kept in volume.json beside this file, each with a digest of the code that was tried.
What is tried depends on the function's name and the count alone, not on the number of processes.
"""

import argparse
import inspect
import json
import sys
import time
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict, dataclass, field
from functools import cache
from hashlib import sha256
from itertools import repeat
from multiprocessing import get_context
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

from moot.offchain.errors import Reverted
from tests.chain_arithmetic.operands import Vectors
from tests.chain_arithmetic.subjects import SUBJECTS, Subject

RESULTS = Path(__file__).with_name("volume.json")
PIECE = 20_000
_EXAMPLES = 10


@dataclass(slots=True)
class Findings:
    """The counts of results over some vectors; `undecided` counts reverts, `wrong` does not.

    `code` identifies what was tried: see `get_code`. An example is a vector with its result and
    the right one; `seconds` are of one core.
    """

    code: str
    vectors: int = 0
    wrong: int = 0
    undecided: int = 0
    seconds: float = 0.0
    examples: list[tuple[list[int], int, int]] = field(default_factory=list)

    def add(self, other: "Findings") -> None:
        """Take in the findings of other vectors."""
        assert self.code == other.code, "the code changed while it was tried"
        self.vectors += other.vectors
        self.wrong += other.wrong
        self.undecided += other.undecided
        self.seconds += other.seconds
        self.examples = [*self.examples, *other.examples][:_EXAMPLES]


def compare(
    function: Callable[..., int], subject: Subject, vectors: Vectors, code: str = ""
) -> Findings:
    """Compare a function's results with those that a subject expects."""
    start = time.process_time()
    found = Findings(code, vectors=len(vectors))
    rows = vectors.tolist()
    for row, expected in zip(rows, subject.expect(vectors), strict=True):
        try:
            result = function(*row)
        except Reverted:
            found.undecided += 1
            continue
        if result != expected:
            found.wrong += 1
            found.examples.append((row, result, expected))
    found.examples = found.examples[:_EXAMPLES]
    found.seconds = time.process_time() - start
    return found


def try_piece(name: str, number: int, count: int) -> Findings:
    """Try one piece of `count` drawn operands; piece 0 has the known operands as well."""
    subject = SUBJECTS[name]
    vectors = subject.draw(np.random.default_rng([zlib.crc32(name.encode()), number]), count)
    if number == 0:
        vectors = np.concatenate([subject.known(), vectors])
    return compare(subject.load(), subject, vectors, get_code(name))


def measure(
    name: str, count: int, processes: int, report: Callable[[int], object] = lambda _: None
) -> Findings:
    """Try a function on `count` drawn operands and the known ones.

    Args:
        name: one of `SUBJECTS`.
        count: how many to draw.
        processes: how many to use.
        report: called with the number of vectors that have been tried so far.
    """
    sizes = [min(PIECE, count - start) for start in range(0, count, PIECE)]
    findings = Findings(get_code(name))
    with ProcessPoolExecutor(processes, get_context("spawn")) as pool:
        for found in pool.map(try_piece, repeat(name), range(len(sizes)), sizes):
            findings.add(found)
            report(findings.vectors)
    return findings


@cache
def get_code(name: str) -> str:
    """Return a digest of everything that the port of a function computes with.

    Comments and the functions that it does not use are not part of it.
    """
    texts = sorted(set(_walk(SUBJECTS[name].load(), set())))
    return sha256("\n".join(texts).encode()).hexdigest()[:16]


def _walk(function: Any, seen: set[Any]) -> Iterator[str]:
    """Yield the texts of a function of the port and of all that it calls, and their tables."""
    if function in seen or not function.__code__.co_filename.startswith("<"):
        return
    seen.add(function)
    yield inspect.getsource(function)
    names, scope = function.__code__.co_names, function.__globals__
    used = [scope[name] for name in names if name in scope]
    modules = [each for each in used if isinstance(each, SimpleNamespace)]
    used += [vars(each)[name] for each in modules for name in names if hasattr(each, name)]
    for each in used:
        if isinstance(each, tuple):
            yield repr(each)
        elif inspect.isfunction(each):
            yield from _walk(each, seen)


def load(path: Path = RESULTS) -> dict[str, dict[str, Any]]:
    """Return the records in a file, by the name of the function; none if there is no file."""
    return dict(json.loads(path.read_text())) if path.exists() else {}


def save(name: str, findings: Findings, path: Path = RESULTS) -> None:
    """Replace one function's record."""
    records = load(path) | {name: asdict(findings)}
    ordered = {name: records[name] for name in SUBJECTS if name in records}
    lines = (f"{json.dumps(name)}: {json.dumps(record)}" for name, record in ordered.items())
    path.write_text("{\n" + ",\n".join(lines) + "\n}\n")


def make_table(records: Mapping[str, Mapping[str, Any]]) -> str:
    """Return the records as a table."""
    lines = [f"{'function':18}{'vectors':>12}{'wrong':>8}{'undecided':>11}{'s':>7}"]
    for name, record in records.items():
        numbers = f"{record['vectors']:12,}{record['wrong']:8,}{record['undecided']:11,}"
        lines.append(f"{name:18}{numbers}{record['seconds']:7.0f}")
    return "\n".join(lines)


def _parse_arguments(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser("volume", description=__doc__.split("\n")[0])
    parser.add_argument("--function", nargs="*", choices=SUBJECTS, help="all if there is none")
    parser.add_argument("--count", type=int, help="operands to draw (a million or more)")
    parser.add_argument("--processes", type=int, default=2, help="processes to use (2)")
    parser.add_argument(
        "--table", action="store_true", help="try nothing, show what is recorded of today's code"
    )
    return parser.parse_args(arguments)


def main(arguments: Sequence[str] | None = None, path: Path = RESULTS) -> int:
    """Try the functions that are named, or all, and keep the results; 1 if one is wrong."""
    parsed = _parse_arguments(arguments)
    names = parsed.function or list(SUBJECTS)
    columns = (TextColumn("{task.description:18}"), BarColumn(), TimeRemainingColumn())
    console = Console(stderr=True)
    with Progress(*columns, console=console, disable=not console.is_terminal) as progress:
        for name in names if not parsed.table else ():
            count = parsed.count or SUBJECTS[name].volume
            task = progress.add_task(name, total=count)
            findings = measure(
                name,
                count,
                parsed.processes,
                lambda done, task=task: progress.update(task, completed=done),  # type: ignore[misc]
            )
            save(name, findings, path)
    kept = {name: record for name, record in load(path).items() if name in names}
    current = {name: record for name, record in kept.items() if record["code"] == get_code(name)}
    sys.stdout.write(f"{make_table(current)}\n")
    return int(any(record["wrong"] for record in current.values()))


if __name__ == "__main__":
    sys.exit(main())
