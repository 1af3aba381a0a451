"""A profile of a training step: its time by kind of operator and by operator.

python -m moot.bench.profile gpt2 --threads 2
"""

import argparse
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

from rich.console import Console
from rich.table import Table

from moot.bench.models import MODELS, make_recipe
from moot.bench.steps import OurTraining
from moot.bench.timing import using_threads

FUSED = "fused"

_WARM_STEPS = 2
_LONGEST = 30
_WIDTH = 160


@dataclass(frozen=True, slots=True)
class Spent:
    """The time that operators that run together took in one step.

    Attributes:
        kind: the operator's kind, or "fused" where they are several.
        operators: how many they are.
        name: the name of the first of them.
        sizes: the shapes of its output and of its fold.
        line: the line of the user's model.
        seconds: the time.
    """

    kind: str
    operators: int
    name: str
    sizes: str
    line: str
    seconds: float


def profile_step(ours: OurTraining) -> list[Spent]:
    """Run the next step and return what everything in it took, the longest first."""
    program = ours.executor.program
    found: list[Spent] = []

    def watch(members: Sequence[int], seconds: float) -> None:
        node = program.nodes[members[0]]
        kind = node.kind.name.lower() if len(members) == 1 else FUSED
        name, line = program.names[members[0]], program.lines[members[0]]
        sizes = f"{list(node.shape)} {list(node.fold_shape)}"
        found.append(Spent(kind, len(members), name, sizes, line, seconds))

    ours.advance(watch)
    return sorted(found, key=lambda spent: -spent.seconds)


def make_tables(found: Sequence[Spent]) -> list[Table]:
    """Return a table of the kinds, and one of what took longest."""
    kinds = Table("kind", "times", "ms")
    seconds: dict[str, list[float]] = defaultdict(list)
    for spent in found:
        seconds[spent.kind].append(spent.seconds)
    for kind, of_kind in sorted(seconds.items(), key=lambda pair: -sum(pair[1])):
        kinds.add_row(kind, str(len(of_kind)), f"{sum(of_kind) * 1e3:,.1f}")
    longest = Table("ms", "kind", "operators", "name", "shape, fold", "line")
    for spent in found[:_LONGEST]:
        numbers = f"{spent.seconds * 1e3:,.1f}", spent.kind, str(spent.operators)
        longest.add_row(*numbers, spent.name, spent.sizes, spent.line)
    return [kinds, longest]


def _main() -> None:
    """Profile a warm step of one of `MODELS`, and print the tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("model", choices=MODELS)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--tiny", action="store_true")
    asked = parser.parse_args()
    ours = OurTraining(make_recipe(asked.model, is_tiny=asked.tiny), _WARM_STEPS)
    with using_threads(asked.threads):
        for _ in range(_WARM_STEPS):
            ours.advance()
        found = profile_step(ours)
    for table in make_tables(found):
        Console(width=_WIDTH).print(table)


if __name__ == "__main__":
    _main()
