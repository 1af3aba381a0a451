"""The worker: a process that trains a recipe under one profile, step by step.

It computes with stock torch, by a method of its own, or with the executor of an arithmetic. It
reads its setting as one line of JSON, and then makes a step for every further line. At the start
and after each step it writes the state to the file of its setting, tensor after tensor, and answers
with one line: the names, types and sizes of the tensors, and a report.
"""

import sys
from collections.abc import Iterator
from itertools import count
from pathlib import Path
from time import perf_counter
from traceback import extract_tb, print_exception

import torch

from moot.offchain.arithmetic.table import find_arithmetic
from moot.offchain.children import say
from moot.offchain.errors import MootError, UsageError
from moot.offchain.execution.executor import Executor
from moot.offchain.frontend.capture import capture
from moot.offchain.frontend.capture.eager import EagerRun
from moot.offchain.frontend.load import load_recipe
from moot.offchain.frontend.precision import set_precision
from moot.offchain.frontend.recipe import Recipe, find_form, get_batch
from moot.offchain.frontend.subject import Subject
from moot.offchain.frontend.tracing import get_initial_state
from moot.offchain.native.binary64.current import set_engine
from moot.offchain.native.binary64.trial import try_engine
from moot.offchain.native.memory import get_peak_bytes
from moot.offchain.native.threads import set_threads
from moot.offchain.programs.factors import check_factors
from moot.offchain.replication.methods import find_method
from moot.offchain.replication.orders import MISUSED, Answer, Order, Train, choose_start, decode
from moot.offchain.replication.profiles import ALL_PROFILES
from moot.offchain.replication.sums import ProfileEngine, rounding, summing
from moot.offchain.replication.timing import make_stock


def main() -> None:
    """Train as long as there are lines."""
    order = decode(sys.stdin.readline())
    threads = ALL_PROFILES[order.profile].threads
    torch.set_num_threads(threads)
    set_threads(threads)
    torch.manual_seed(order.seed)
    loaded = load_recipe(order.program, size=order.size, seed=order.seed)
    recipe = find_form(set_precision(loaded, order.precision))
    answers = _find_training(order)(recipe, order)
    _tell(order, next(answers))
    for _ in sys.stdin:
        _tell(order, next(answers))


def _find_training(order: Order) -> Train:
    """Return the way of training that an order asks for."""
    if order.method is not None:
        return find_method(order.method.name)
    return _train_by_torch if order.arithmetic is None else _train_by_executor


def _tell(order: Order, answer: Answer) -> None:
    """Write a state, and say what it consists of."""
    with Path(order.state).open("wb") as file:
        file.writelines(array.tobytes() for array in answer.state.values())
    tensors = [(name, str(array.dtype), array.size) for name, array in answer.state.items()]
    report = {**answer.report, "peak_bytes": get_peak_bytes()}
    say(sys.stdout, {"tensors": tensors, "report": report})


def _train_by_torch(recipe: Recipe, order: Order) -> Iterator[Answer]:
    """Train by eager torch."""
    subject = Subject.of(recipe)
    own = {name: tensor.detach().numpy() for name, tensor in get_initial_state(subject).items()}
    start = choose_start(order, own)
    state = {name: torch.from_numpy(array.copy()) for name, array in start.items()}
    with torch.no_grad():
        for name, tensor in subject.tensors.items():
            tensor.copy_(state[name])
    run, profile = EagerRun(subject, state), ALL_PROFILES[order.profile]
    yield Answer(start)
    for step in count():
        batch = get_batch(recipe, step)
        with summing(profile), rounding(profile.rounding):
            results = run.advance(batch, {})
        outputs = {k: v for k, v in results.items() if k.startswith("output.")}
        state = run.get_state() | outputs
        yield Answer({name: tensor.numpy() for name, tensor in state.items()})


def _train_by_executor(recipe: Recipe, order: Order) -> Iterator[Answer]:
    """Train by the captured program."""
    assert order.arithmetic is not None
    captured = capture(recipe, trust=True, arithmetic=find_arithmetic(order.arithmetic))
    check_factors(captured.program)
    profile = ALL_PROFILES[order.profile]
    engine = ProfileEngine(profile)
    try_engine(profile.name, engine)
    set_engine(engine)
    executor = Executor(captured.program, profile.threads, profile.backend)
    names = [slot.name for slot in captured.program.state]
    start = choose_start(order, dict(zip(names, captured.initial_state, strict=True)))
    yield Answer(start)
    stock = make_stock(recipe, start, order) if order.timed else {}
    state = list(start.values())
    for step in count():
        seconds = {name: run.time(step) for name, run in stock.items()}
        begin = perf_counter()
        executor.advance(state, captured.batch(step), step)
        seconds["seconds"] = perf_counter() - begin
        yield Answer(dict(zip(names, state, strict=True)), seconds)


def _explain(error: Exception) -> str:
    """Return the line that says why the process ends, of which the other one shows the last."""
    said = " ".join(str(error).split())
    if isinstance(error, MootError):
        return said
    *_, frame = extract_tb(error.__traceback__)
    return f"{type(error).__name__}: {said} ({frame.filename}:{frame.lineno})"


if __name__ == "__main__":
    try:
        main()
    except Exception as error:  # noqa: BLE001 - it is reported, whatever it is
        print_exception(error)
        sys.stderr.write(_explain(error) + "\n")
        sys.exit(MISUSED if isinstance(error, UsageError) else 1)
