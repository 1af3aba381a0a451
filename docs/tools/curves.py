"""Trains small models in each arithmetic, by the published method and by stock torch, and compares.

`python docs/tools/curves.py` writes `curves-MODEL.csv` (a loss for each step and way) and
`curves.json` (what the trained models make of held-out data) to docs/measurements and the plot
`curves.png`, and prints the tables of `reproducibility.md`. All runs of a model start from the same
parameters and see the same batches; dropout is off, because its random numbers are ours or torch's.
Stock runs a second time, from parameters that are each moved to the next number, to show how far
rounding alone carries a run. Where products are of bfloat16, models run under `torch.autocast`, and
so they do once by stock torch and once in `ordered`. `--model` trains these alone, and `--way` in
these ways alone; the plot needs matplotlib, and `--no-plot` does without.
"""

import argparse
import copy
import csv
import json
import math
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import count, islice, starmap
from pathlib import Path
from sysconfig import get_path
from typing import Any

import numpy as np
import torch

from moot.offchain.arithmetic.logged import LOGGED
from moot.offchain.arithmetic.table import ARITHMETICS
from moot.offchain.execution.executor import Executor
from moot.offchain.frontend.capture import capture
from moot.offchain.frontend.data import digit_batches, hold_out_digits, read_text, text_batches
from moot.offchain.frontend.examples.language import LanguageSize, build_gpt2, causal_loss
from moot.offchain.frontend.examples.vision import VisionSize, build_resnet, classify
from moot.offchain.frontend.optimizers import SGD, AdamW
from moot.offchain.frontend.precision import set_precision
from moot.offchain.frontend.recipe import TrainingRecipe
from moot.offchain.frontend.subject import Subject
from moot.offchain.frontend.tracing import get_initial_state
from moot.offchain.programs.rounding.journals import Writing
from moot.offchain.replication.published.logs import STREAMS
from moot.offchain.replication.published.parties import TrainerStream
from moot.offchain.replication.published.thresholds import Thresholds
from moot.offchain.replication.published.training import Run

DOCS = Path(__file__).parents[1]
MEASUREMENTS = DOCS / "measurements"
HELD_OUT = MEASUREMENTS / "curves.json"
STOCK, NUDGED, PUBLISHED = "stock", "stock, nudged", "published"
NARROW = ", bfloat16"
PLOTTED = ("ordered", STOCK, NUDGED)
WINDOW = 50
"""Steps over which the losses of the plot and of the table are averaged."""

Losses = dict[str, list[float]]
Tensors = Mapping[str, torch.Tensor]
MakeStock = Callable[[Iterator[torch.nn.Parameter]], torch.optim.Optimizer]
Train = Callable[[TrainingRecipe, MakeStock], Iterator[tuple[float, Tensors]]]
"""Yields after each step its loss, and the model's parameters and buffers by name."""

RATE, FINE_RATE, RESNET_RATE, MOMENTUM = 3e-4, 1e-5, 0.01, 0.9
GPT2 = LanguageSize(samples=8, tokens=64, layers=3, width=96, heads=4, inner=384)
RESNET = VisionSize(samples=64, widths=(16, 32), depths=(1, 1), scale=2)
PRETRAINING_STEPS = 2000
TEXT_SHARE, TEST_WINDOWS, TEST_DIGITS = 0.9, 256, 297
"""The share of a text that is trained on, and what of the rest, and of the digits, is a test."""

PROSE = Path(get_path("stdlib")) / "pydoc_data" / "topics.py"
"""A text that is not among those of the pretraining: the reference of the language."""


def make_gpt2(folder: Path) -> tuple[TrainingRecipe, MakeStock]:
    """Return a small GPT-2 on source code, without dropout, and its optimizer in stock torch."""
    recipe = build_gpt2(GPT2, 1, None, inference=False)
    assert isinstance(recipe, TrainingRecipe)
    recipe.model.eval()
    batch = _train_on(folder, read_text())
    return replace(recipe, batch=batch, optimizer=AdamW(RATE)), _stock_adamw(RATE)


def make_fine_tuned(folder: Path) -> tuple[TrainingRecipe, MakeStock]:
    """Return the same on prose, from the saved checkpoint of one that has learned source code."""
    from transformers import GPT2LMHeadModel  # noqa: PLC0415 - heavy

    checkpoint = folder / "pretrained"
    if not checkpoint.exists():
        recipe, make_stock = make_gpt2(folder)
        for trained in islice(train_stock(recipe, make_stock), PRETRAINING_STEPS):
            _note(recipe, *trained)
        model: Any = recipe.model
        model.save_pretrained(checkpoint)
    model = GPT2LMHeadModel.from_pretrained(checkpoint, attn_implementation="eager").eval()
    batch = _train_on(folder, read_text(PROSE))
    recipe = TrainingRecipe(model, causal_loss, AdamW(FINE_RATE), batch, 1)
    return recipe, _stock_adamw(FINE_RATE)


def _stock_adamw(rate: float) -> MakeStock:
    return lambda parameters: torch.optim.AdamW(parameters, rate)


def _train_on(folder: Path, text: np.ndarray) -> Callable[[int], tuple[torch.Tensor, ...]]:
    """Return batches of the first part of a text."""
    path = folder / "text"
    path.write_bytes(text[: int(len(text) * TEXT_SHARE)].tobytes())
    return text_batches(1, path, GPT2.samples, GPT2.tokens)


def make_resnet(_: Path) -> tuple[TrainingRecipe, MakeStock]:
    """Return a small residual network on digits, and its optimizer in stock torch."""
    recipe = build_resnet(RESNET, 1, inference=False)
    assert isinstance(recipe, TrainingRecipe)
    stock: MakeStock = lambda p: torch.optim.SGD(p, RESNET_RATE, MOMENTUM)  # noqa: E731 - a constructor
    batch = digit_batches(1, RESNET.samples, channels=3, scale=RESNET.scale, held_out=TEST_DIGITS)
    optimizer = SGD(RESNET_RATE, momentum=MOMENTUM)
    return replace(recipe, batch=batch, optimizer=optimizer), stock


def find_perplexity(text: np.ndarray, model: torch.nn.Module) -> float:
    """Return the perplexity of a model, a byte, on the last part of a text."""
    rest = text[int(len(text) * TEXT_SHARE) :]
    starts = np.linspace(0, len(rest) - GPT2.tokens, TEST_WINDOWS).astype(np.int64)
    windows = rest[starts[:, None] + np.arange(GPT2.tokens)].astype(np.int64)
    return math.exp(float(causal_loss(model, torch.from_numpy(windows))))


def find_accuracy(model: torch.nn.Module) -> float:
    """Return the share of held-out digits that a model knows."""
    images, labels = hold_out_digits(TEST_DIGITS, channels=3, scale=RESNET.scale)
    return float((classify(model, images).argmax(1) == labels).double().mean())


@dataclass(frozen=True, slots=True)
class Model:
    """A model that is trained.

    Attributes:
        make: returns its recipe and its optimizer in stock torch; is given a folder for files.
        measure: what the trained model is judged by.
        unit: the words for that.
    """

    make: Callable[[Path], tuple[TrainingRecipe, MakeStock]]
    measure: Callable[[torch.nn.Module], float]
    unit: str


STEPS = 1000
MODELS: Mapping[str, Model] = {
    "gpt2": Model(make_gpt2, partial(find_perplexity, read_text()), "perplexity"),
    "gpt2-fine-tuned": Model(
        make_fine_tuned, partial(find_perplexity, read_text(PROSE)), "perplexity"
    ),
    "resnet": Model(make_resnet, find_accuracy, "accuracy"),
}


def train_ours(
    name: str, precision: str, recipe: TrainingRecipe, _: MakeStock
) -> Iterator[tuple[float, dict[str, torch.Tensor]]]:
    """Train our program in an arithmetic; where it has logs, as a trainer who writes them."""
    narrowed: Any = set_precision(recipe, precision)
    captured = capture(narrowed, trust=True, arithmetic=ARITHMETICS[name])
    names = [slot.name for slot in captured.program.state]
    executor, state = Executor(captured.program), list(captured.initial_state)
    for step in count():
        journal = Writing() if ARITHMETICS[name] == LOGGED else None
        executor.advance(state, captured.batch(step), step, journal=journal)
        tensors = {k: torch.from_numpy(np.array(v)) for k, v in zip(names, state, strict=True)}
        yield float(tensors["output.loss"]), tensors


def train_stock(
    recipe: TrainingRecipe,
    make_stock: MakeStock,
    *,
    is_nudged: bool = False,
    precision: str = "fp32",
) -> Iterator[tuple[float, Tensors]]:
    """Train by eager torch."""
    narrowed: Any = set_precision(recipe, precision)
    recipe = replace(narrowed, model=copy.deepcopy(recipe.model))
    if is_nudged:
        for parameter in recipe.model.parameters():
            parameter.data.nextafter_(torch.full_like(parameter, torch.inf))
    optimizer = make_stock(recipe.model.parameters())
    for step in count():
        loss: Any = recipe.loss(recipe.model, *recipe.batch(step))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        yield loss.item(), Subject.of(recipe).tensors


def train_published(recipe: TrainingRecipe, _: MakeStock) -> Iterator[tuple[float, Tensors]]:
    """Train as the trainer of the published method: in binary64, with rounded layers."""
    own = replace(recipe, model=copy.deepcopy(recipe.model))
    run = Run(own, get_initial_state(Subject.of(own)), torch.float64, 1)
    for step in count():
        run.update(run.compute(step, {name: TrainerStream(Thresholds()) for name in STREAMS}))
        yield run.loss, Subject.of(own).tensors


WAYS: Mapping[str, Train] = {
    **{
        name: partial(train_ours, name, "bf16" if it.short_factors else "fp32")
        for name, it in ARITHMETICS.items()
    },
    f"ordered{NARROW}": partial(train_ours, "ordered", "bf16"),
    PUBLISHED: train_published,
    STOCK: train_stock,
    f"{STOCK}{NARROW}": partial(train_stock, precision="bf16"),
    NUDGED: partial(train_stock, is_nudged=True),
}


@torch.no_grad()
def _note(recipe: TrainingRecipe, loss: float, tensors: Tensors) -> float:
    """Give a recipe's model the values of a trained one; return the loss."""
    for name, tensor in Subject.of(recipe).tensors.items():
        tensor.copy_(tensors[name].reshape(tensor.shape))
    return loss


def train(
    name: str, folder: Path, ways: Sequence[str] = tuple(WAYS)
) -> tuple[Losses, dict[str, float]]:
    """Return a model's losses, and what each trained model is judged by, both by way.

    Ways that are not among those asked for are taken from the tables that are there.
    """
    model, losses, judged = MODELS[name], Losses(), dict[str, float]()
    if set(ways) != set(WAYS):
        losses, judged = read(name), read_judged()[name]
    for way in ways:
        training = WAYS[way]
        torch.manual_seed(1)
        recipe, make_stock = model.make(folder)
        steps = islice(training(recipe, make_stock), STEPS)
        losses[way] = list(starmap(partial(_note, recipe), steps))
        with torch.no_grad():
            judged[way] = model.measure(recipe.model.eval())
        print(f"{name}, {way}: {judged[way]}", flush=True)
    return {way: losses[way] for way in WAYS}, {way: judged[way] for way in WAYS}


def write(name: str, losses: Losses, judged: Mapping[str, float]) -> None:
    """Write a table of a model's losses, and what it is judged by."""
    with (MEASUREMENTS / f"curves-{name}.csv").open("w", newline="", encoding="ascii") as file:
        table = csv.writer(file, lineterminator="\n")
        table.writerow(["step", *losses])
        rows = zip(*losses.values(), strict=True)
        table.writerows([step, *(f"{x:.7g}" for x in row)] for step, row in enumerate(rows))
    HELD_OUT.write_text(json.dumps(read_judged() | {name: judged}, indent=1) + "\n")


def read(name: str) -> Losses:
    """Read a table of a model's losses."""
    with (MEASUREMENTS / f"curves-{name}.csv").open(encoding="ascii") as file:
        rows = list(csv.DictReader(file))
    return {way: [float(row[way]) for row in rows] for way in WAYS if way in rows[0]}


def read_judged() -> dict[str, dict[str, float]]:
    """Return by model and way what was measured on held-out data."""
    kept: dict[str, dict[str, float]] = (
        json.loads(HELD_OUT.read_text()) if HELD_OUT.exists() else {}
    )
    return kept


def smooth(losses: Sequence[float]) -> np.ndarray:
    """Return the means of all windows of steps."""
    return np.convolve(losses, np.full(WINDOW, 1 / WINDOW), "valid")


def summarize(name: str, losses: Losses) -> Iterator[str]:
    """Yield a row for each way: the last mean loss, how far it was from stock's, what it knows."""
    judged, unit, stock = read_judged()[name], MODELS[name].unit, smooth(losses[STOCK])
    for way, found in losses.items():
        curve = smooth(found)
        apart = "" if way == STOCK else f"{np.abs(curve - stock).max():.1e}"
        known = f"{judged[way]:.2%}" if unit == "accuracy" else f"{judged[way]:.5f}"
        yield f"| {name} | {way} | {curve[-1]:.4f} | {apart} | {unit} {known} |"


def plot(tables: Mapping[str, Losses]) -> None:
    """Draw the curves, and below them how far ours and the nudged run are from stock."""
    from matplotlib import pyplot as plt  # noqa: PLC0415 - only the plot needs it

    figure, axes = plt.subplots(2, len(tables), figsize=(13, 6), height_ratios=(3, 1))
    for (name, losses), (above, below) in zip(tables.items(), axes.T, strict=True):
        curves = {way: smooth(losses[way]) for way in PLOTTED}
        for way, style in zip(PLOTTED, ("-", "--", ":"), strict=True):
            above.plot(curves[way], style, label=way, linewidth=2)
        for way, style in ((PLOTTED[0], "C0-"), (NUDGED, "C2:")):
            below.plot(curves[way] - curves[STOCK], style, label=f"{way} minus {STOCK}")
        above.set(title=name, ylabel=f"loss, mean of {WINDOW} steps")
        below.set(xlabel="step", ylabel="difference")
        above.legend()
        below.legend(fontsize="x-small")
    figure.tight_layout()
    figure.savefig(DOCS / "pictures" / "curves.png", dpi=100)


def main() -> None:
    """Train, write and plot."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model", nargs="*", choices=MODELS, default=list(MODELS))
    parser.add_argument("--way", nargs="*", choices=WAYS, default=list(WAYS))
    parser.add_argument("--only-plot", action="store_true", help="plot the tables that are there")
    parser.add_argument("--no-plot", action="store_true", help="write the tables alone")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as directory:
        for name in [] if options.only_plot else options.model:
            write(name, *train(name, Path(directory), options.way))
    tables = {name: read(name) for name in MODELS}
    print("| model | way | last loss | apart from stock's | held out |\n|---|---|---:|---:|---:|")
    for name, losses in tables.items():
        print(*summarize(name, losses), sep="\n")
    if not options.no_plot:
        plot(tables)


if __name__ == "__main__":
    main()
