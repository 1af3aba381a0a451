"""Programs that nobody would write, in the executor, by the definition and on the contract.

    python -m tests.fuzz.programs --programs 10000 --seed 1 --leaves 1000 --matches 100

Each is drawn from the seed and its number, run one by one, fused, advancing, in part and for
several steps, on one to three threads, with vectors of 512, 256 and 128 bits, and compared with the
definition, element by element. A failure is kept in a file, and a smaller case beside it;
`--replay FILE` tries it again.
"""

import argparse
import multiprocessing
import sys
import time
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

from tests.fuzz.batches import FAMILIES, LEAVES_A_CASE, Order, Tally, run

BATCH = 4_000
WIDTHS_BITS = (512, 256, 128)


def main() -> int:
    """Run the command; return 1 if there was a difference."""
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz.programs", description=__doc__)
    parser.add_argument("--programs", type=int, default=1_000, help="how many to draw")
    parser.add_argument("--first", type=int, default=0, help="the number of the first")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--family", default="", choices=("", *FAMILIES), help="only such cases")
    parser.add_argument("--leaves", type=int, default=0, help="about how many leaves to compute")
    parser.add_argument("--matches", type=int, default=0, help="about how many to try to play")
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--failures", default="fuzz-failures", help="where to keep failures")
    parser.add_argument("--replay", type=Path, help="try a kept failure again, and nothing else")
    options = parser.parse_args()
    if options.replay:
        return _replay(options.replay)
    began, tally = time.monotonic(), Tally()
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(options.workers, context, max_tasks_per_child=1) as pool:
        for part in pool.map(run, _list_orders(options)):
            tally = tally.plus(part)
            _say(tally, time.monotonic() - began)
    return 1 if tally.failures else 0


def _list_orders(options: argparse.Namespace) -> list[Order]:
    """Return the batches; a leaf's case has several leaves, and not every match is one."""
    leaves_every = (
        max(1, LEAVES_A_CASE * options.programs // options.leaves) if options.leaves else 0
    )
    matches_every = max(1, options.programs // options.matches) if options.matches else 0
    stop = options.first + options.programs
    return [
        Order(
            options.seed,
            first,
            min(first + BATCH, stop),
            WIDTHS_BITS[first // BATCH % len(WIDTHS_BITS)],
            leaves_every,
            matches_every,
            options.failures,
            options.family,
        )
        for first in range(options.first, stop, BATCH)
    ]


def _replay(path: Path) -> int:
    from tests.fuzz.trial import replay  # noqa: PLC0415 - so that a batch's process sets the width

    difference = replay(path)
    sys.stdout.write(f"{path}: {difference or 'no difference'}\n")
    return 1 if difference else 0


def _say(tally: Tally, seconds: float) -> None:
    numbers = {name: value for name, value in tally._asdict().items() if name != "failures"}
    counts = ", ".join(f"{value:,} {name}" for name, value in numbers.items())
    line = f"{counts}: {len(tally.failures)} differences in {seconds:,.0f} s\n"
    sys.stdout.write(line + "".join(f"  {failure}\n" for failure in tally.failures))
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
