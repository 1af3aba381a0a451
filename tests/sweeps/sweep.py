"""Tries all 2^32 operands of transcendental functions against an independent computation.

Use it as `python -m tests.sweeps.sweep [exp log ...]`.

A double-double filter decides nearly all operands and MPFR the rest. Results are kept in
results.json beside this file, every minute or so, and a sweep that was interrupted goes on from
there; what was found for other code than that of today is swept again.
"""

import argparse
import json
import math
import sys
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict

import click
import numpy as np
from rich.console import Console
from rich.progress import BarColumn, Progress, TaskID, TextColumn, TimeRemainingColumn

from moot.offchain.native.threads import set_threads
from tests.sweeps.compare import SWEPT, Findings, can_sweep, compare, get_computation
from tests.sweeps.records import ALL, Record, get_code, load, save

_PIECE = 2**20
_SAVED_TOGETHER = 2**26


def sweep_range(name: str, first: int, stop: int, threads: int) -> Findings:
    """Compare a function's results for the bit patterns from `first` to `stop`."""
    starts = range(first, stop, _PIECE)
    findings = Findings()

    def sweep_piece(start: int) -> Findings:
        end = min(start + _PIECE, stop)
        operands = np.arange(start, end, dtype=np.int64).astype(np.uint32)
        return compare(SWEPT[name], operands, get_computation(name))

    with ThreadPoolExecutor(threads) as pool:
        for found in pool.map(sweep_piece, starts):
            findings.add(found)
    return findings


def sweep(name: str, threads: int, report: Callable[[int], object]) -> Record:
    """Sweep a function from where its record ends, keep the record, and return it.

    Args:
        name: one of `SWEPT`.
        threads: how many.
        report: called with the number of operands that have been tried so far.
    """
    record = load().get(name, Record(get_code(name)))
    if record.code != get_code(name):
        record = Record(get_code(name))
    while not record.is_complete:
        report(record.findings.inputs)
        before, first = time.process_time(), record.findings.inputs
        found = sweep_range(name, first, min(first + _SAVED_TOGETHER, ALL), threads)
        record.findings.add(found)
        record.seconds += time.process_time() - before
        save(name, record)
    report(ALL)
    return record


def make_table(records: dict[str, Record]) -> str:
    """The records as a table."""
    heads = ("function", "inputs", "by MPFR", "hardest operand", "ulp from half way", "wrong", "s")
    rows = [heads]
    for name, record in records.items():
        found = record.findings
        distance, operand = found.hard[0] if found.hard else (math.nan, 0)
        rows.append(
            (
                name,
                f"{found.inputs:,}",
                f"{found.decided_by_mpfr:,}",
                f"0x{operand:08x}" if found.hard else "-",
                f"2^{math.log2(distance):.1f}" if found.hard else "-",
                str(found.mismatches),
                f"{record.seconds:.0f}",
            )
        )
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = []
    for head, *numbers in rows:
        cells = [n.rjust(width) for n, width in zip(numbers, widths[1:], strict=True)]
        lines.append("  ".join([head.ljust(widths[0]), *cells]))
    return "\n".join(lines)


def _parse_range(text: str) -> tuple[int, int]:
    first, stop = (int(part, 0) for part in text.split(":"))
    if not 0 <= first < stop <= ALL:
        raise ValueError(text)
    return first, stop


def _parse_arguments(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser("sweep", description=__doc__.split("\n")[0])
    parser.add_argument("functions", nargs="*", metavar="function", help=", ".join(SWEPT))
    parser.add_argument("--threads", type=int, default=2, help="threads to use (2)")
    parser.add_argument(
        "--range",
        type=_parse_range,
        metavar="FIRST:STOP",
        help="try only these bit patterns, as in 0x3f800000:0x40000000, and keep no record",
    )
    parser.add_argument(
        "--table", action="store_true", help="sweep nothing, show what is recorded of today's code"
    )
    parser.add_argument("--json", action="store_true", help="print the records as JSON")
    parsed = parser.parse_args(arguments)
    if unknown := sorted(set(parsed.functions) - SWEPT.keys()):
        parser.error(f"no such function: {', '.join(unknown)}; there are {', '.join(SWEPT)}")
    if missing := [name for name in parsed.functions if not can_sweep(name)]:
        parser.error(f"kernels have no registers of 512 bits here: {', '.join(missing)}")
    return parsed


def _run(names: Sequence[str], arguments: argparse.Namespace) -> dict[str, Record]:
    records = {}
    columns = (TextColumn("{task.description:12}"), BarColumn(), TimeRemainingColumn())
    console = Console(stderr=True)
    with Progress(*columns, console=console, disable=not console.is_terminal) as progress:
        for name in names:
            if arguments.range:
                first, stop = arguments.range
                found = sweep_range(name, first, stop, arguments.threads)
                records[name] = Record(get_code(name), 0.0, found)
                continue
            task = progress.add_task(name, total=ALL)

            def report(done: int, task: TaskID = task) -> None:
                progress.update(task, completed=done)

            records[name] = sweep(name, arguments.threads, report)
    return records


def main(arguments: Sequence[str] | None = None) -> int:
    """Sweep the functions that are named, or all; 1 if a result is wrong."""
    parsed = _parse_arguments(arguments)
    names = parsed.functions or list(filter(can_sweep, SWEPT))
    set_threads(1)
    if parsed.table:
        kept = {name: record for name, record in load().items() if name in names}
        records = {name: record for name, record in kept.items() if record.code == get_code(name)}
    else:
        records = _run(names, parsed)
    as_json = json.dumps({name: asdict(record) for name, record in records.items()}, indent=1)
    click.echo(as_json if parsed.json else make_table(records))
    return int(any(record.findings.mismatches for record in records.values()))


if __name__ == "__main__":
    sys.exit(main())
