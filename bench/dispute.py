"""The cost of honesty and of a challenge: a provider's run, and what a dispute asks of it.

An honest provider pays for its steps, for hashing the state of every checkpoint and for writing it.
A challenged one pays for the interval in which the claims part, for the trace of one step and for
answers about one operator: its output, what it reads, and the accumulators of a fold.
"""

import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any, TypeVar

import numpy as np

from moot.bench.timing import using_threads
from moot.offchain.backends.table import DEFAULT
from moot.offchain.execution.executor import Executor
from moot.offchain.execution.residents import fetch_all, hash_all
from moot.offchain.frontend.capture import capture
from moot.offchain.frontend.load import load_recipe
from moot.offchain.native import buffers
from moot.offchain.programs.graph import Origin
from moot.offchain.providers.behaviour import Behaviour
from moot.offchain.providers.run import Run
from moot.offchain.providers.store import Store
from moot.offchain.providers.task import Task

PROGRAMS = ("gpt2", "llama", "resnet", "bert", "t5")

OPERATORS = 5
"""The operators of a step about which a challenger asks, one dispute each."""

Result = TypeVar("Result")


@dataclass(frozen=True, slots=True)
class Cost:
    """The cost of honesty and of a challenge about one program, in seconds unless told otherwise.

    Attributes:
        program: name of the example.
        size: its size.
        threads: threads of the kernels.
        steps: steps of the run.
        checkpoint_every: steps between two checkpoints.
        state_bytes: bytes of one state.
        capture_s: capture, without a comparison with eager torch.
        first_step_s: the first step, which loads kernels and touches memory.
        step_s: a later step, the median.
        hash_s: hashing one state.
        write_s: writing one state, with what waits for the disk.
        run_s: the run: all steps, with the commitments and the states of all checkpoints.
        interval_s: the roots of all states of the last interval; 0 where it has one step.
        trace_s: the trace of the last step.
        answers_s: the answers about one operator of that step, the median of several.
        most_answers_s: the same, the most.
    """

    program: str
    size: str
    threads: int
    steps: int
    checkpoint_every: int
    state_bytes: int
    capture_s: float
    first_step_s: float
    step_s: float
    hash_s: float
    write_s: float
    run_s: float
    interval_s: float
    trace_s: float
    answers_s: float
    most_answers_s: float

    def to_json(self) -> dict[str, Any]:
        """Return the cost as a flat object, with what it is in steps and per byte."""
        return asdict(self) | {
            "run_over_steps": self.run_s / (self.steps * self.step_s),
            "first_step_steps": self.first_step_s / self.step_s,
            "hash_gb_per_s": self.state_bytes / self.hash_s / 1e9,
            "write_gb_per_s": self.state_bytes / self.write_s / 1e9,
            "interval_steps": self.interval_s / self.step_s,
            "trace_steps": self.trace_s / self.step_s,
            "answers_steps": self.answers_s / self.step_s,
            "most_answers_steps": self.most_answers_s / self.step_s,
        }


def measure_disputes(
    programs: Sequence[str],
    size: str,
    steps: int,
    checkpoint_every: int,
    threads: Sequence[int],
    repeats: int,
    backend: str = DEFAULT,
) -> Iterator[dict[str, Any]]:
    """Yield the cost of each program on a backend, for each number of threads."""
    for program in programs:
        recipe = load_recipe(program, size=size)
        captured, capture_s = _time(partial(capture, recipe, trust=True))
        for count in threads:
            task = Task(
                captured.program, captured.initial_state, captured.batch, steps, checkpoint_every
            )
            with using_threads(count), tempfile.TemporaryDirectory() as folder:
                measured = _measure(task, Path(folder), repeats, backend)
            yield Cost(
                program=program,
                size=size,
                threads=count,
                steps=steps,
                checkpoint_every=checkpoint_every,
                state_bytes=sum(array.nbytes for array in task.initial_state),
                capture_s=capture_s,
                **measured,
            ).to_json()
            buffers.release()


def _measure(task: Task, folder: Path, repeats: int, backend: str) -> dict[str, float]:
    alone = _measure_parts(task, Store(folder / "state"), repeats, backend)
    run = Run(task, Behaviour(), Store(folder / "run"), backend=backend)
    _, run_s = _time(run.compute)
    *_, begin = (0, *task.checkpoints[:-1])
    last = task.steps - 1
    interval_s = _time(partial(run.interval, begin))[1] if last > begin else 0.0
    _, trace_s = _time(partial(run.trace, last))
    answers = [_time(partial(_answer, run, last, index))[1] for index in _draw_operators(task)]
    return alone | {
        "run_s": run_s,
        "interval_s": interval_s,
        "trace_s": trace_s,
        "answers_s": median(answers),
        "most_answers_s": max(answers),
    }


def _measure_parts(task: Task, store: Store, repeats: int, backend: str) -> dict[str, float]:
    """Return the seconds of what a run consists of, each part alone."""
    executor, state = Executor(task.prepare(backend)), list(task.initial_state)
    first, *later = (
        _time(partial(executor.advance, state, task.batch(step), step))[1]
        for step in range(1 + repeats)
    )
    roots, hash_s = _time(partial(hash_all, state))
    _, write_s = _time(lambda: store.put_state(fetch_all(state), roots))
    parts = {"first_step_s": first, "step_s": median(later), "hash_s": hash_s}
    return parts | {"write_s": write_s}


def _draw_operators(task: Task) -> list[int]:
    rng = np.random.default_rng(0)
    filled = [index for index, node in enumerate(task.program.nodes) if node.elements]
    return [int(index) for index in rng.choice(filled, min(OPERATORS, len(filled)), replace=False)]


def _answer(run: Run, step: int, operator: int) -> None:
    """Answer all that a dispute asks about one operator of a step."""
    run.tensor(step, Origin.NODE, operator)
    node = run.task.program.nodes[operator]
    for operand in node.operands:
        if operand.origin is not Origin.IMMEDIATE:
            run.tensor(step, operand.origin, operand.reference)
    if node.kind.folds:
        run.partials(step, operator, 0)


def _time(work: Callable[[], Result]) -> tuple[Result, float]:
    started = time.perf_counter()
    result = work()
    return result, time.perf_counter() - started
