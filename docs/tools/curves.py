"""Trains small models with our operators and with stock torch, and compares the losses.

`python docs/tools/curves.py` writes `curves-MODEL.csv` (a loss for each step) and the plot
`curves.png`, and prints the table of `reproducibility.md`. All runs of a model start
from the same parameters and see the same batches; dropout is off, because its random numbers are
ours or torch's. Stock runs a second time, from parameters that are each moved to the next number,
to show how far rounding alone carries a run. The plot needs matplotlib; `--no-plot` does without.
"""

import argparse
import copy
import csv
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import count, islice
from pathlib import Path

import numpy as np
import torch

from moot.offchain.execution.executor import Executor
from moot.offchain.frontend.capture import capture
from moot.offchain.frontend.examples.language import LanguageSize, build_gpt2
from moot.offchain.frontend.examples.vision import VisionSize, build_resnet
from moot.offchain.frontend.optimizers import SGD, AdamW
from moot.offchain.frontend.recipe import TrainingRecipe

DOCS = Path(__file__).parents[1]
MEASUREMENTS = DOCS / "measurements"
RUNS = ("ours", "stock", "stock, nudged")
WINDOW = 50
"""Steps over which the losses of the plot and of the table are averaged."""

Losses = dict[str, list[float]]
MakeStock = Callable[[Iterator[torch.nn.Parameter]], torch.optim.Optimizer]

GPT2_RATE, RESNET_RATE, MOMENTUM = 3e-4, 0.01, 0.9
GPT2 = LanguageSize(samples=8, tokens=64, layers=3, width=96, heads=4, inner=384)
RESNET = VisionSize(samples=64, widths=(16, 32), depths=(1, 1), scale=2)


def make_gpt2() -> tuple[TrainingRecipe, MakeStock]:
    """Return a small GPT-2 on text, without dropout, and its optimizer in stock torch."""
    recipe = build_gpt2(GPT2, 1, None, inference=False)
    assert isinstance(recipe, TrainingRecipe)
    recipe.model.eval()
    stock: MakeStock = lambda p: torch.optim.AdamW(p, GPT2_RATE)  # noqa: E731 - a constructor
    return replace(recipe, optimizer=AdamW(GPT2_RATE)), stock


def make_resnet() -> tuple[TrainingRecipe, MakeStock]:
    """Return a small residual network on digits, and its optimizer in stock torch."""
    recipe = build_resnet(RESNET, 1, inference=False)
    assert isinstance(recipe, TrainingRecipe)
    stock: MakeStock = lambda p: torch.optim.SGD(p, RESNET_RATE, MOMENTUM)  # noqa: E731 - likewise
    return replace(recipe, optimizer=SGD(RESNET_RATE, momentum=MOMENTUM)), stock


MODELS: Mapping[str, tuple[Callable[[], tuple[TrainingRecipe, MakeStock]], int]] = {
    "gpt2": (make_gpt2, 1000),
    "resnet": (make_resnet, 300),
}
"""Each model, and for how many steps it is trained."""


def train_ours(recipe: TrainingRecipe) -> Iterator[float]:
    """Yield the loss of each step of our program."""
    captured = capture(recipe)
    loss = [slot.name for slot in captured.program.state].index("output.loss")
    executor, state = Executor(captured.program), captured.initial_state
    for step in count():
        state = executor.run(state, captured.batch(step), step)
        yield float(state[loss])


def train_stock(
    recipe: TrainingRecipe, make_stock: MakeStock, *, is_nudged: bool
) -> Iterator[float]:
    """Yield the loss of each step of eager torch."""
    model = copy.deepcopy(recipe.model)
    if is_nudged:
        for parameter in model.parameters():
            parameter.data.nextafter_(torch.full_like(parameter, torch.inf))
    optimizer = make_stock(model.parameters())
    for step in count():
        loss = recipe.loss(model, *recipe.batch(step))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        yield loss.item()


def train(name: str) -> Losses:
    """Return the losses of a model's three runs."""
    make, steps = MODELS[name]
    torch.manual_seed(1)
    recipe, make_stock = make()
    stock = (train_stock(recipe, make_stock, is_nudged=nudged) for nudged in (False, True))
    runs = (train_ours(recipe), *stock)
    return {run: list(islice(losses, steps)) for run, losses in zip(RUNS, runs, strict=True)}


def write(name: str, losses: Losses) -> None:
    """Write a table of a model's losses."""
    with (MEASUREMENTS / f"curves-{name}.csv").open("w", newline="", encoding="ascii") as file:
        table = csv.writer(file, lineterminator="\n")
        table.writerow(["step", *RUNS])
        rows = zip(*(losses[run] for run in RUNS), strict=True)
        table.writerows([step, *(f"{x:.7g}" for x in row)] for step, row in enumerate(rows))


def read(name: str) -> Losses:
    """Read a table of a model's losses."""
    with (MEASUREMENTS / f"curves-{name}.csv").open(encoding="ascii") as file:
        rows = list(csv.DictReader(file))
    return {run: [float(row[run]) for row in rows] for run in RUNS}


def smooth(losses: Sequence[float]) -> np.ndarray:
    """Return the means of all windows of steps."""
    return np.convolve(losses, np.full(WINDOW, 1 / WINDOW), "valid")


def summarize(name: str, losses: Losses) -> str:
    """Return a row of the table: last losses, and the largest differences of the means."""
    curves = ours, stock, nudged = [smooth(losses[run]) for run in RUNS]
    last = " | ".join(f"{curve[-1]:.4f}" for curve in curves)
    apart = np.abs(ours - stock).max(), np.abs(nudged - stock).max()
    return f"| {name} | {len(losses['ours'])} | {last} | {apart[0]:.1e} | {apart[1]:.1e} |"


def plot(tables: Mapping[str, Losses]) -> None:
    """Draw the curves, and below them how far ours and the nudged run are from stock."""
    from matplotlib import pyplot as plt  # noqa: PLC0415 - only the plot needs it

    figure, axes = plt.subplots(2, len(tables), figsize=(10, 6), height_ratios=(3, 1))
    for (name, losses), (above, below) in zip(tables.items(), axes.T, strict=True):
        curves = {run: smooth(losses[run]) for run in RUNS}
        for run, style in zip(RUNS, ("-", "--", ":"), strict=True):
            above.plot(curves[run], style, label=run, linewidth=2)
        for run, style in ((RUNS[0], "C0-"), (RUNS[2], "C2:")):
            below.plot(curves[run] - curves[RUNS[1]], style, label=f"{run} minus {RUNS[1]}")
        above.set(title=name, ylabel=f"loss, mean of {WINDOW} steps")
        below.set(xlabel="step", ylabel="difference")
        above.legend()
        below.legend(fontsize="x-small")
    figure.tight_layout()
    figure.savefig(DOCS / "pictures" / "curves.png", dpi=100)


def main() -> None:
    """Train, write and plot."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only-plot", action="store_true", help="plot the tables that are there")
    parser.add_argument("--no-plot", action="store_true", help="write the tables alone")
    options = parser.parse_args()
    if not options.only_plot:
        for name in MODELS:
            write(name, train(name))
    tables = {name: read(name) for name in MODELS}
    for name, losses in tables.items():
        print(summarize(name, losses))
    if not options.no_plot:
        plot(tables)


if __name__ == "__main__":
    main()
