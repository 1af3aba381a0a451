"""Histories of small training runs, to be compared under circumstances that must not matter.

`python -m tests.reproducibility.history gpt2 1000 --threads 2` prints the roots as JSON, so that a
process with another environment, or with another torch on its path, can be compared.
"""

import argparse
import json
import sys
from collections.abc import Callable, Mapping
from functools import cache
from typing import NamedTuple

import torch

from moot.offchain.commitments.tensors import (
    compute_history_root,
    compute_state_root,
    compute_tensor_root,
)
from moot.offchain.execution.executor import Executor
from moot.offchain.frontend.capture import Captured, capture
from moot.offchain.frontend.examples.language import LanguageSize, build_gpt2, build_llama
from moot.offchain.frontend.examples.vision import VisionSize, build_mlp, build_resnet
from moot.offchain.frontend.recipe import Recipe
from moot.offchain.programs.roots import ProgramTree
from tests.reproducibility.blocks import SETTINGS, use_blocks

RECIPES: Mapping[str, Callable[[], Recipe]] = {
    "mlp": lambda: build_mlp(VisionSize(16, (48, 32)), 3, inference=False),
    "gpt2": lambda: build_gpt2(LanguageSize(4, 32, 2, 64, 4, 256), 3, None, inference=False),
    "llama": lambda: build_llama(LanguageSize(2, 16, 2, 32, 2, 64), 3, None, inference=False),
    "resnet": lambda: build_resnet(VisionSize(4, (8, 16), (1, 1), 4), 3, inference=False),
}


class History(NamedTuple):
    """The roots of a run, in hexadecimal."""

    program: str
    start: str
    history: str


@cache
def capture_named(name: str) -> Captured:
    """Return the program of a recipe, with weights that are always the same."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(3)
        return capture(RECIPES[name](), trust=True)  # the bits are compared, not the meaning


def compute_history(captured: Captured, steps: int, threads: int) -> History:
    """Run some steps with so many threads, with a checkpoint after each, and return the roots."""
    executor = Executor(captured.program, threads)
    state = captured.initial_state
    roots = [compute_state_root([compute_tensor_root(array) for array in state])]
    for step in range(steps):
        state = executor.run(state, captured.batch(step), step)
        roots.append(compute_state_root([compute_tensor_root(array) for array in state]))
    program = ProgramTree(captured.program).header.root.hex()
    return History(program, roots[0].hex(), compute_history_root(roots[1:]).hex())


def main() -> None:
    """Print a history's roots as JSON."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("program", choices=RECIPES)
    parser.add_argument("steps", type=int)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--blocks", choices=SETTINGS)
    arguments = parser.parse_args()
    if arguments.blocks is not None:
        use_blocks(SETTINGS[arguments.blocks])
    captured = capture_named(arguments.program)
    history = compute_history(captured, arguments.steps, arguments.threads)
    json.dump(history._asdict(), sys.stdout)


if __name__ == "__main__":
    main()
