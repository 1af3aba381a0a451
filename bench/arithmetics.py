"""Training steps in each arithmetic, and by stock torch in binary32 and binary64.

    python -m bench.arithmetics gpt2 resnet --threads 1 2

prints a table. All sides take turns in one process, and the least time of each counts: on a machine
that others use, too, that is what says most about the code. One thread's times are the processor's,
which nobody else can take.
"""

import argparse
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import count

import torch

from bench.models import make_stock_step
from bench.timing import PAUSE_S, using_threads
from offchain.arithmetic.base import Arithmetic
from offchain.arithmetic.table import ARITHMETICS
from offchain.execution.executor import Executor
from offchain.programs.capture import capture
from offchain.programs.catalogue import NAMES, SIZES
from offchain.programs.examples import build
from offchain.programs.recipe import TrainingRecipe

STOCK, STOCK_64 = "stock binary32", "stock binary64"

_WARM_STEPS = 2


def make_sides(recipe: TrainingRecipe) -> dict[str, Callable[[], object]]:
    """Return what makes a training step, by the name of the side."""
    sides: dict[str, Callable[[], object]] = {}
    for name, dtype in ((STOCK, torch.float32), (STOCK_64, torch.float64)):
        step, numbers = make_stock_step(recipe, dtype), count()
        sides[name] = lambda step=step, numbers=numbers: step(next(numbers))  # type: ignore[misc]  # lambdas with defaults
    return sides | {f"`{name}`": _make_ours(recipe, each) for name, each in ARITHMETICS.items()}


def _make_ours(recipe: TrainingRecipe, arithmetic: Arithmetic) -> Callable[[], object]:
    captured = capture(recipe, trust=True, arithmetic=arithmetic)  # it is timed only
    executor, state, numbers = Executor(captured.program), captured.initial_state, count()

    def step() -> None:
        number = next(numbers)
        executor.advance(state, captured.batch(number), number)

    return step


def measure_least(
    sides: Mapping[str, Callable[[], object]], turns: int, clock: Callable[[], float]
) -> dict[str, float]:
    """Return the least seconds of one step of each side, by a clock."""
    found: dict[str, list[float]] = {name: [] for name in sides}
    for turn in range(_WARM_STEPS + turns):
        for name, step in sides.items():
            time.sleep(PAUSE_S)
            start = clock()
            step()
            if turn >= _WARM_STEPS:
                found[name].append(clock() - start)
    return {name: min(seconds) for name, seconds in found.items()}


def list_rows(
    programs: Sequence[str], size: str, threads: Sequence[int], turns: int
) -> Iterator[str]:
    """Yield the lines of the table."""
    names = [STOCK, STOCK_64, *(f"`{name}`" for name in ARITHMETICS)]
    ratios = [f"`exact` / {STOCK_64}", "`exact` / `ordered`"]
    head = ["program", "threads", *(f"{name}, ms" for name in names), *ratios]
    yield f"| {' | '.join(head)} |\n|{'---|' * len(head)}"
    for program in programs:
        recipe = build(program, size)
        assert isinstance(recipe, TrainingRecipe)
        sides = make_sides(recipe)
        for number in threads:
            clock = time.process_time if number == 1 else time.perf_counter
            with using_threads(number):
                seconds = measure_least(sides, turns, clock)
            exact = seconds["`exact`"]
            shares = [exact / seconds[STOCK_64], exact / seconds["`ordered`"]]
            cells = [*(f"{seconds[n] * 1e3:,.1f}" for n in names), *(f"{s:.2f}" for s in shares)]
            yield f"| {program}, {size} | {number} | {' | '.join(cells)} |"


def main(arguments: Sequence[str] | None = None) -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("programs", nargs="+", choices=NAMES)
    parser.add_argument("--size", choices=SIZES, default="small")
    parser.add_argument("--threads", type=int, nargs="+", default=[1, 2])
    parser.add_argument("--turns", type=int, default=15)
    asked = parser.parse_args(arguments)
    for line in list_rows(asked.programs, asked.size, asked.threads, asked.turns):
        sys.stdout.write(f"{line}\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
