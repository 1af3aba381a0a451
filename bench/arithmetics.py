"""Training steps in each arithmetic, and by stock torch in binary32, binary64 and bfloat16.

    python -m moot.bench.arithmetics gpt2 resnet --threads 1 2

prints a table. All sides take turns in one process, and the least time of each counts: on a machine
that others use, too, that is what says most about the code. One thread's times are the processor's,
which nobody else can take. An arithmetic with logs has two sides: a trainer that writes the step's
log, and an auditor that reads it. Where products are of bfloat16 the model runs under autocast.
"""

import argparse
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from itertools import count

import torch

from moot.bench.models import make_stock_step
from moot.bench.timing import PAUSE_S, using_threads
from moot.offchain.arithmetic.base import Arithmetic
from moot.offchain.arithmetic.logged import LOGGED
from moot.offchain.arithmetic.table import ARITHMETICS
from moot.offchain.commitments.tensors import Array
from moot.offchain.execution.executor import Executor
from moot.offchain.frontend.capture import capture
from moot.offchain.frontend.examples import build
from moot.offchain.frontend.precision import set_precision
from moot.offchain.frontend.recipe import TrainingRecipe
from moot.offchain.programs.catalogue import NAMES, SIZES
from moot.offchain.programs.roots import ProgramTree
from moot.offchain.programs.rounding.entries import decode_log, encode_log
from moot.offchain.programs.rounding.journals import Reading, Writing

STOCK, STOCK_64, STOCK_16 = "stock binary32", "stock binary64", "stock bfloat16"

_WARM_STEPS = 2

Step = Callable[[], object]


def make_sides(recipe: TrainingRecipe, arithmetics: Sequence[str]) -> dict[str, Step]:
    """Return what makes a training step, by the name of the side."""
    sides: dict[str, Step] = {}
    for name, dtype in ((STOCK, torch.float32), (STOCK_64, torch.float64)):
        sides[name] = partial(_count, make_stock_step(recipe, dtype), count())
    narrow = set_precision(recipe, "bf16")
    assert isinstance(narrow, TrainingRecipe)
    if any(ARITHMETICS[name].short_factors for name in arithmetics):
        sides[STOCK_16] = partial(_count, make_stock_step(narrow, torch.float32), count())
    for name in arithmetics:
        is_short = ARITHMETICS[name].short_factors is not None
        sides |= _make_ours(narrow if is_short else recipe, ARITHMETICS[name])
    return sides


def _count(step: Callable[[int], object], numbers: Iterator[int]) -> object:
    return step(next(numbers))


def _make_ours(recipe: TrainingRecipe, arithmetic: Arithmetic) -> dict[str, Step]:
    captured = capture(recipe, trust=True, arithmetic=arithmetic)  # it is timed only
    program, root = captured.program, ProgramTree(captured.program).header.root
    logs: dict[int, bytes] = {}

    def make(advance: Callable[[Executor, list[Array], int], object]) -> Step:
        executor, state = Executor(program), list(captured.initial_state)
        return partial(_count, partial(advance, executor, state), count())

    def compute(executor: Executor, state: list[Array], step: int) -> None:
        executor.advance(state, captured.batch(step), step)

    def write(executor: Executor, state: list[Array], step: int) -> None:
        journal = Writing()
        executor.advance(state, captured.batch(step), step, journal=journal)
        logs[step] = encode_log(journal.log, root, step)

    def read(executor: Executor, state: list[Array], step: int) -> None:
        journal = Reading(decode_log(logs.pop(step), program, root, step))
        executor.advance(state, captured.batch(step), step, journal=journal)

    if arithmetic != LOGGED:
        return {f"`{arithmetic.name}`": make(compute)}
    parties = {"trainer": write, "auditor": read}
    return {f"`{arithmetic.name}`, {party}": make(advance) for party, advance in parties.items()}


def measure_least(
    sides: Mapping[str, Step], turns: int, clock: Callable[[], float]
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
    programs: Sequence[str],
    size: str,
    threads: Sequence[int],
    turns: int,
    arithmetics: Sequence[str] = tuple(ARITHMETICS),
) -> Iterator[str]:
    """Yield the lines of the table: milliseconds, and beside them the share of stock binary64's."""
    head = ""
    for program in programs:
        recipe = build(program, size)
        assert isinstance(recipe, TrainingRecipe)
        sides = make_sides(recipe, arithmetics)
        if not head:
            head = _join("program", "threads", *(f"{name}, ms" for name in sides))
            yield f"{head}\n|{'---|' * (2 + len(sides))}"
        for number in threads:
            clock = time.process_time if number == 1 else time.perf_counter
            with using_threads(number):
                seconds = measure_least(sides, turns, clock)
            base = seconds[STOCK_64]
            cells = (f"{found * 1e3:,.1f} ({found / base:.2f})" for found in seconds.values())
            yield _join(f"{program}, {size}", str(number), *cells)


def _join(*cells: str) -> str:
    return f"| {' | '.join(cells)} |"


def main(arguments: Sequence[str] | None = None) -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("programs", nargs="+", choices=NAMES)
    parser.add_argument("--size", choices=SIZES, default="small")
    parser.add_argument("--threads", type=int, nargs="+", default=[1, 2])
    parser.add_argument("--turns", type=int, default=15)
    parser.add_argument("--arithmetics", nargs="+", choices=ARITHMETICS, default=[*ARITHMETICS])
    asked = parser.parse_args(arguments)
    rows = list_rows(asked.programs, asked.size, asked.threads, asked.turns, asked.arithmetics)
    for line in rows:
        sys.stdout.write(f"{line}\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
