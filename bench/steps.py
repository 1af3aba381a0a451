"""Whole training steps: the executor's, with the commitment to the state, against eager torch.

A state is committed to every ten steps, so a step of ours counts a tenth of a commitment.
"""

from collections.abc import Callable, Collection, Iterator, Sequence
from itertools import count

import numpy as np

from moot.bench.memory import OURS, SIDES, STOCK, keep_memory, measure_peak
from moot.bench.models import SHAPES, Stock, list_best, make_recipe, make_stock_step
from moot.bench.rows import Row
from moot.bench.sides import check_close, compare_best, to_arrays
from moot.bench.timing import Side, measure, using_threads
from moot.offchain.backends.table import DEFAULT
from moot.offchain.commitments.tensors import Array, compute_state_root
from moot.offchain.execution.executor import Executor, Watch
from moot.offchain.execution.residents import hash_all
from moot.offchain.frontend.capture import capture
from moot.offchain.frontend.recipe import TrainingRecipe

GROUP = "step"

STEPS_PER_COMMITMENT = 10

_BATCHES = 4

_WARM_STEPS = 3
"""Steps before any is timed: what runs for a fourth time is planned once more, to run often."""

LOSS_TOLERANCE = 0.05
"""Dropout draws other numbers on each side, so that the losses are close and no more."""


class OurTraining:
    """A run of our own: steps one after the other, and commitments to the state.

    Args:
        recipe: what is trained.
        batches: how many batches are made beforehand, to be used in turn.
        backend: the name of what computes.
    """

    def __init__(self, recipe: TrainingRecipe, batches: int, backend: str = DEFAULT) -> None:
        captured = capture(recipe, trust=True)  # losses are compared before they are timed
        self.executor = Executor(captured.program, backend=backend)
        self._batches = [captured.batch(step) for step in range(batches)]
        self._step = 0
        self.state: list[Array] = captured.initial_state

    def advance(self, watch: Watch | None = None) -> float:
        """Run the next step and return its loss."""
        batch = self._batches[self._step % len(self._batches)]
        self.executor.advance(self.state, batch, self._step, watch)
        self._step += 1
        return float(np.asarray(self.state[-1]))

    def commit(self) -> bytes:
        """Return the root of the state."""
        return compute_state_root(hash_all(self.state))


def measure_steps(
    models: Collection[str],
    threads: Sequence[int],
    repeats: int,
    report: Callable[[str, int, int], None],
    *,
    is_tiny: bool,
    with_best: bool = False,
    precision: str = "fp32",
    backend: str = DEFAULT,
) -> Iterator[Row]:
    """Yield a row for each model, some of `MODELS`, and number of threads.

    Args:
        models: the models.
        threads: the numbers of threads.
        repeats: turns of each side.
        report: told of a model how many of its parts are ready or measured.
        is_tiny: whether sizes are used that say nothing.
        with_best: whether stock torch at its best is measured too, all with an allocator that keeps
            its memory.
        precision: that of both sides: fp32, or bf16, which is autocast's.
        backend: what computes our side; stock torch's is the processor.
    """
    if with_best:
        keep_memory()
    for model in models:
        recipe = make_recipe(model, precision, is_tiny=is_tiny)
        ways = {STOCK: Stock()} | (list_best(recipe) if with_best else {})
        done, parts = count(), len(SIDES) + 1 + len(ways) + len(threads)
        peaks = {}
        for which in SIDES:
            report(model, next(done), parts)
            peaks[which] = measure_peak(
                model, which, max(threads), precision, backend, is_tiny=is_tiny
            )
        report(model, next(done), parts)
        ours = OurTraining(recipe, _BATCHES, backend)
        stocks = {name: _take_turns(recipe, way) for name, way in ways.items()}
        loss = to_arrays(ours.advance())
        for name, side in stocks.items():
            report(model, next(done), parts)
            check_close(f"the loss of {model}, {name}", loss, to_arrays(side()), LOSS_TOLERANCE)
        ours.commit()
        for _ in range(_WARM_STEPS):
            ours.advance()
        for number in threads:
            report(model, next(done), parts)
            sides: list[Side] = [ours.advance, ours.commit, *stocks.values()]
            with using_threads(number):
                for run in sides:
                    run()  # compiled kernels are those of a number of threads
                step_s, commitment_s, *stocks_s = measure(sides, repeats)
            ours_s = step_s + commitment_s / STEPS_PER_COMMITMENT
            extra: dict[str, object] = {
                "step_s": step_s,
                "commitment_s": commitment_s,
                "ours_peak_bytes": peaks[OURS],
                "stock_peak_bytes": peaks[STOCK],
                "memory_ratio": peaks[OURS] / peaks[STOCK],
            }
            spent = dict(zip(stocks, stocks_s, strict=True))
            if with_best:
                extra |= compare_best(spent, ours_s)
            shape = "tiny" if is_tiny else SHAPES[model]
            yield Row(GROUP, model, shape, number, ours_s, spent[STOCK], extra)


def _take_turns(recipe: TrainingRecipe, way: Stock) -> Callable[[], float]:
    numbers, train = count(), make_stock_step(recipe, stock=way)
    return lambda: train(next(numbers) % _BATCHES)
