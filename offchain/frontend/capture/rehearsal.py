"""The rehearsal: a program's first steps beside the same steps in eager torch.

Both begin each step with the same state, batch and random numbers. Then the loss or the outputs,
every gradient and every tensor of the new state are compared. The first step begins where training
does; the later ones where torch has come to, with all weights moved a little at random, so that a
constant that was made of weights shows even where the learning rate is 0.

The tolerance is measured. The traced step is run with errors of `SLACK` times each operator's own
(`noise.py`), twice or more; what torch and the program make of a number may differ by `MARGIN`
times the spread of these runs, at that number or on average over its tensor, whichever is more.
A difference that rounding explains passes, and what it cannot explain is refused.
"""

import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import torch

from moot.offchain.backends.table import DEFAULT
from moot.offchain.commitments.tensors import NUMPY_TYPES, Array
from moot.offchain.errors import CaptureError
from moot.offchain.execution.executor import Executor
from moot.offchain.frontend.capture.batches import as_tensors
from moot.offchain.frontend.capture.draft import Draft
from moot.offchain.frontend.capture.eager import Drawn, EagerRun
from moot.offchain.frontend.capture.noise import ContainedStep, NoisyStep, run_noisily
from moot.offchain.frontend.capture.stepping import step_as_user
from moot.offchain.frontend.capture.ties import OPEN, Chooser, Turned
from moot.offchain.frontend.exchange import to_array, to_tensor, widen
from moot.offchain.frontend.lowering.graph import refusal
from moot.offchain.frontend.lowering.views import View
from moot.offchain.frontend.subject import Subject
from moot.offchain.frontend.tracing import get_initial_state

STEPS = 3

SLACK = 16.0
"""The errors put on operators, in multiples of what an operator may be off by itself."""

MARGIN = 4.0
"""How far two runs may be apart, in multiples of the spread of runs with errors."""

ATTEMPTS = (2, 4, 8, 16, 32)
"""Runs with errors: more are made where a comparison fails, for errors that turn a decision."""

LESS = 4.0
"""The part of the errors that every second further run has: where large ones turn one decision in
most runs, these show how others turn that depend on it."""

MOVED = 2.0**-4
"""How much weights are moved between steps, relative to each."""

STAY = (0.0, 0.0)
MOVES = ((-MOVED, MOVED), (-MOVED, 0.0), STAY)
"""The ranges from which the moves are drawn, the first of which a model's checks of weights pass.

A share stays one that is only made smaller, and what has to add up to 1 is left as it is.
"""

Tensors = Mapping[str, torch.Tensor]


def rehearse(
    subject: Subject, draft: Draft, batches: Callable[[int], list[Array]], backend: str = DEFAULT
) -> None:
    """Compare the first steps of a program with eager torch's; the recipe's model is trained.

    Args:
        subject: the recipe's.
        draft: its program.
        batches: returns the batch of a step in the order of the program's slots.
        backend: what computes the program.

    Raises:
        CaptureError: they differ by more than rounding explains.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the user has heard them when the step was traced
        _rehearse(subject, draft, batches, backend)


def _rehearse(
    subject: Subject, draft: Draft, batches: Callable[[int], list[Array]], backend: str
) -> None:
    executor = Executor(draft.program, backend=backend)
    run = EagerRun(subject, get_initial_state(subject), step_as_user)
    generator = torch.Generator().manual_seed(0)
    for step in range(STEPS):
        batch = as_tensors(batches(step))
        state, found, drawn, expected = _run_both(draft, run, executor, batch, step, generator)
        expected = _add_absent(draft, expected, found)
        numbered = {k: v for k, v in drawn.items() if isinstance(k, int)}
        nodes = {k: v for k, v in drawn.items() if isinstance(k, str)}
        runs = _compare(draft, step, expected, found, [*state.values(), *batch], nodes)
        if not runs:
            continue
        chooser = Chooser(subject.model)
        chosen = _add_absent(draft, run.repeat(state, batch, numbered, chooser), found)
        if chooser.turned and _explains(chosen, found, runs):
            raise _leave_open(step, chooser.turned[0])
        name = min(runs, key=_order)
        raise _differ(draft, step, name, expected[name], found[name], runs[name])


def _add_absent(draft: Draft, results: Tensors, found: Tensors) -> Tensors:
    """Return torch's results, with zeros for gradients that it does not always have."""
    absent = {f"gradient.{name}" for name in draft.absent} - results.keys()
    zeros = torch.zeros(())  # of what the program does not compute
    return {**results, **{it: torch.zeros_like(found.get(it, zeros)) for it in sorted(absent)}}


def _run_both(
    draft: Draft,
    run: EagerRun,
    executor: Executor,
    batch: Sequence[torch.Tensor],
    step: int,
    generator: torch.Generator,
) -> tuple[Tensors, Tensors, Mapping[int | str, Drawn], Tensors]:
    """Return a step's state, what a program makes of it and draws, and what torch makes of it.

    Weights that have left the range that the model requires, by being moved, are moved less.
    """
    before, drawn_before = run.get_state(), torch.get_rng_state()
    for move in MOVES if step else (STAY,):
        run.put_back(before)
        torch.set_rng_state(drawn_before)
        run.move_weights(generator, *move)
        state = run.get_state()
        found, drawn = _run_program(draft, executor, state, batch, step)
        numbered = {k: v for k, v in drawn.items() if isinstance(k, int)}
        try:
            return state, found, drawn, run.step(batch, numbered)
        except Exception:
            # Beginning where training does, torch raises it in a user's loop, too.
            if move == STAY or run.is_updating:
                raise
    raise AssertionError("the last move is none")


def _run_program(
    draft: Draft, executor: Executor, state: Tensors, batch: Sequence[torch.Tensor], step: int
) -> tuple[dict[str, torch.Tensor], dict[int | str, Drawn]]:
    """Return what a program computes by name, and what its random operators draw."""
    arrays: list[Array] = [*map(to_array, state.values())]
    arrays += draft.initial_state[len(arrays) :]
    views = [*draft.values.values(), *(v for drawn in draft.draws.values() for v in drawn.values())]
    wanted = {view.node for view in views}
    outputs: dict[int, Array] = {}

    def observe(index: int, output: Array) -> None:
        if index in wanted:
            outputs[index] = output.copy()

    executor.run(arrays, [*map(to_array, batch)], step, observe)
    values = {name: _read(view, outputs) for name, view in draft.values.items()}
    return values, {
        draw: {k: _read(view, outputs) for k, view in drawn.items()}
        for draw, drawn in draft.draws.items()
    }


def _read(view: View, outputs: Mapping[int, Array]) -> torch.Tensor:
    """Return the tensor that a view shows."""
    dtype = np.dtype(NUMPY_TYPES[view.dtype])
    if view.node is None:
        element = np.frombuffer(view.bits.to_bytes(dtype.itemsize, "little"), dtype)
        return to_tensor(np.full(view.shape, element[0], dtype))
    flat = outputs[view.node].reshape(-1)
    if not view.elements:
        return to_tensor(np.empty(view.shape, dtype))
    strides = tuple(stride * dtype.itemsize for stride in view.strides)
    seen = np.lib.stride_tricks.as_strided(flat[view.offset :], view.shape, strides)
    return to_tensor(seen.copy())


def _compare(
    draft: Draft,
    step: int,
    expected: Tensors,
    found: Tensors,
    inputs: Sequence[torch.Tensor],
    drawn: Mapping[str, Any],
) -> dict[str, list[torch.Tensor]]:
    """Return the results of runs with errors, for those that differ by more than these explain."""
    _check_names(draft, expected)
    expected = {name: widen(tensor) for name, tensor in expected.items()}
    pending = [name for name in found if not _is_equal(expected[name], found[name])]
    runs: list[dict[str, torch.Tensor]] = []
    for attempts in ATTEMPTS:
        while pending and len(runs) < attempts:
            pairs = {name: (expected[name], found[name]) for name in pending}
            runs.append(_disturb(draft, inputs, drawn, step, len(runs), pairs))
        pending = [
            name
            for name in pending
            if not _is_near(expected[name], found[name], [run[name] for run in runs])
        ]
        runs = [{name: run[name] for name in pending} for run in runs]
    return {name: [run[name] for run in runs] for name in pending}


def _explains(chosen: Tensors, found: Tensors, runs: Mapping[str, Sequence[torch.Tensor]]) -> bool:
    """Return whether torch computes what the program does if it chooses likewise.

    Weights and what the optimizer keeps follow from the gradients.
    """
    names = [name for name in runs if not name.startswith(("parameter.", "optimizer."))]
    return bool(names) and all(_is_near(chosen[name], found[name], runs[name]) for name in names)


def _leave_open(step: int, turned: Turned) -> CaptureError:
    """Return the error that names a choice that torch leaves open."""
    choice = OPEN[turned.operator]
    return refusal(
        f"in step {step} {choice.subject}: its kernel takes others than the program, which takes "
        f"{choice.rule}; {choice.advice}, or accept that rule by trusting the capture",
        turned.operator,
        turned.line,
    )


def _disturb(
    draft: Draft,
    inputs: Sequence[torch.Tensor],
    drawn: Mapping[str, Any],
    step: int,
    number: int,
    wanted: Mapping[str, tuple[torch.Tensor, torch.Tensor]],
) -> dict[str, torch.Tensor]:
    """Return some results of a run with errors; the others are not held, as they are large.

    Args:
        draft: the program.
        inputs: the traced step's.
        drawn: the results of random operators.
        step: the step.
        number: of the run.
        wanted: what torch and the program have for a result, by its name. Where both are finite,
            errors that take the result out of range are left out.
    """
    seed, is_further = step * ATTEMPTS[-1] + number, number >= ATTEMPTS[0]
    slack = SLACK / LESS if is_further and number % 2 else SLACK

    def run(kind: type[NoisyStep]) -> dict[str, torch.Tensor]:
        noisy = run_noisily(draft.graph, draft.errors, drawn, inputs, slack, seed, kind)
        results = dict(zip(draft.results, noisy, strict=True))
        return {name: widen(results[name]) for name in wanted}

    results = run(NoisyStep)
    lost = {
        name: _are_finite(*pair) & ~results[name].isfinite()
        for name, pair in wanted.items()
        if results[name].shape == pair[0].shape == pair[1].shape
    }
    if any(map(torch.any, lost.values())):
        contained = run(ContainedStep)
        results |= {k: torch.where(lost[k], contained[k], results[k]) for k in lost}
    return results


def _are_finite(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    return a.isfinite() & b.isfinite()


def _is_equal(a: torch.Tensor, b: torch.Tensor) -> bool:
    return a.dtype == b.dtype and a.shape == b.shape and bool(_same(a, b).all())


def _same(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    return (a == b) | (a.isnan() & b.isnan())


def _is_near(a: torch.Tensor, b: torch.Tensor, runs: Sequence[torch.Tensor]) -> bool:
    """Return whether two tensors differ by no more than runs with errors let expect."""
    is_alike = a.dtype == b.dtype and a.shape == b.shape
    return is_alike and not _find_unexplained(a, b, runs).any()


def _find_unexplained(
    a: torch.Tensor, b: torch.Tensor, runs: Sequence[torch.Tensor]
) -> torch.Tensor:
    """Return where two tensors of one form differ by more than runs with errors let expect."""
    several = torch.stack([run.reshape(a.shape) for run in runs])
    if not a.is_floating_point():
        return (a != b) & (several == several[0]).all(0)
    spread = (several.double().amax(0) - several.double().amin(0)).masked_fill(
        _same(several, several[0]).all(0), 0
    )
    spread = spread.nan_to_num(nan=torch.inf)
    spread = spread.masked_fill(_are_finite(a, b) & spread.isinf(), 0)  # no run has measured it
    finite = spread[spread.isfinite()]
    typical = finite.square().mean().sqrt() if finite.numel() else 0.0
    return ~(_find_distances(a, b) <= MARGIN * spread.clamp(min=float(typical)))


def _find_distances(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    return (a.double() - b.double()).abs().masked_fill(_same(a, b), 0).nan_to_num(nan=torch.inf)


def _order(name: str) -> int:
    """Return how early a result is made in a step: what is made first is most telling."""
    kinds = ("output.", "gradient.", "buffer.", "parameter.", "optimizer.")
    return next(place for place, kind in enumerate(kinds) if name.startswith(kind))


def _check_names(draft: Draft, expected: Tensors) -> None:
    """Refuse a program that has other tensors than torch."""
    for name in sorted({*expected} ^ {*draft.results}, key=_order):
        kind, _, rest = name.partition(".")
        message = "torch has this tensor after a step, and the program has not"
        if name not in expected:
            message = "the program has this tensor after a step, and torch has not"
        elif kind == "gradient":
            message = (
                "torch gives it a gradient, and the program does not; "
                "the step does not reach it through the module"
            )
        raise refusal(message, f"{kind} {rest}", _find_line(draft, name))


def _differ(
    draft: Draft,
    step: int,
    name: str,
    a: torch.Tensor,
    b: torch.Tensor,
    runs: Sequence[torch.Tensor],
) -> CaptureError:
    """Return the error that names the tensor that is off, an element, its module and its line."""
    kind, _, rest = name.partition(".")
    if a.shape != b.shape or a.dtype != b.dtype:
        what = f"{a.dtype} {tuple(a.shape)} in torch, {b.dtype} {tuple(b.shape)} in the program"
    else:
        apart = _find_distances(a, b).masked_fill(~_find_unexplained(a, b, runs), -1)
        place = int(apart.argmax())
        values = f"{a.reshape(-1)[place].item():.9g} in torch, {b.reshape(-1)[place].item():.9g}"
        what = f"element {place} is {values} in the program"
    return refusal(
        f"in step {step} {what}, which rounding does not explain; "
        "keep what changes from step to step in parameters and buffers",
        f"{kind} {rest}",
        _find_line(draft, name),
    )


def _find_line(draft: Draft, name: str) -> str:
    """Return the line that made a result, as far as the program knows it."""
    for wanted in (name, name.replace("parameter.", "gradient.", 1)):
        view = draft.values.get(wanted)
        if view is not None and view.node is not None and draft.program.lines[view.node]:
            return draft.program.lines[view.node]
    return ""
