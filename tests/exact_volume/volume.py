"""Tries the sums of `exact` and of `logged`, and the bounds behind them, on hard families.

Use it as `python -m tests.exact_volume.volume [--operation product ...] [--count 100000000]`.

Results are kept in volume.json beside this file, each with a digest of the code that was tried.
What is tried depends on the operation, the seed and the count alone, not on the number of
processes.
"""

import argparse
import ast
import inspect
import json
import sys
import time
import zlib
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict
from hashlib import sha256
from itertools import repeat
from multiprocessing import get_context
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np

from moot.offchain.backends.cpu.kernels import (
    bounded_sums,
    doubts,
    exact_sums,
    integer_sums,
    norms,
    row_sums,
    terms,
)
from moot.offchain.backends.cpu.logged import stock
from moot.offchain.native.threads import set_threads
from tests.exact_volume.subjects import SUBJECTS, Judgement, judge

RESULTS = Path(__file__).with_name("volume.json")
PIECE = 1 << 16


def _list_modules(name: str) -> Sequence[ModuleType]:
    """Return the kernels that an operation's sums are made by."""
    modules = [bounded_sums, exact_sums, integer_sums, row_sums]
    if name.endswith("product"):
        modules += [norms]
    if name.startswith("logged"):
        modules += [doubts, terms, stock]
    return modules


def get_code(name: str) -> str:
    """Return a digest of the kernels that make, bound and round the sums, but for their texts."""
    trees = [ast.parse(inspect.getsource(module)) for module in _list_modules(name)]
    for tree in trees:
        for node in ast.walk(tree):
            if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
                node.value.value = ""
    return sha256("".join(map(ast.dump, trees)).encode()).hexdigest()[:16]


def try_piece(name: str, seed: int, number: int) -> Judgement:
    """Try one piece of an operation's samples, at least `PIECE` results."""
    set_threads(1)
    rng = np.random.default_rng([zlib.crc32(name.encode()), seed, number])
    found = Judgement()
    while found.results < PIECE:
        found.add(judge(SUBJECTS[name](rng)))
    return found


def measure(name: str, seed: int, count: int, processes: int) -> Judgement:
    """Try at least `count` results of an operation."""
    found, pieces = Judgement(), -(-count // PIECE)
    with ProcessPoolExecutor(processes, get_context("spawn")) as pool:
        for part in pool.map(try_piece, repeat(name, pieces), repeat(seed), range(pieces)):
            found.add(part)
    return found


def load(path: Path = RESULTS) -> dict[str, dict[str, Any]]:
    """Return the records in a file, by the operation's name; none if there is no file."""
    return dict(json.loads(path.read_text())) if path.exists() else {}


def save(name: str, record: dict[str, Any], path: Path = RESULTS) -> None:
    """Replace one operation's record."""
    records = load(path) | {name: record}
    lines = (f"{json.dumps(n)}: {json.dumps(records[n])}" for n in SUBJECTS if n in records)
    path.write_text("{\n" + ",\n".join(lines) + "\n}\n")


def main(arguments: Sequence[str] | None = None, path: Path = RESULTS) -> int:
    """Try the operations that are named, or all, and keep the results; 1 if one is wrong."""
    parser = argparse.ArgumentParser("volume", description=__doc__.split("\n")[0])
    parser.add_argument("--operation", nargs="*", choices=SUBJECTS, help="all if there is none")
    parser.add_argument("--count", type=int, default=100_000_000, help="results to try (10^8)")
    parser.add_argument("--seed", type=int, default=0, help="of the samples (0)")
    parser.add_argument("--processes", type=int, default=1, help="processes to use (1)")
    parsed = parser.parse_args(arguments)
    is_wrong = False
    for name in parsed.operation or SUBJECTS:
        start = time.time()
        found = measure(name, parsed.seed, parsed.count, parsed.processes)
        record = (
            {"code": get_code(name)}
            | asdict(found)
            | {"seed": parsed.seed, "seconds": round(time.time() - start)}
        )
        save(name, record, path)
        sys.stdout.write(f"{name}: {json.dumps(record)}\n")
        is_wrong |= found.wrong + found.beyond > 0
    return int(is_wrong)


if __name__ == "__main__":
    sys.exit(main())
