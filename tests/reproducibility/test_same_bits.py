"""The same history, whatever the machine does: threads, vectors, blocks, hash seeds."""

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from functools import cache
from pathlib import Path

import pytest

from tests.quick import only
from tests.reproducibility.history import History, capture_named, compute_history

LONG = {"gpt2": 1000, "resnet": 300}
"""Steps of the long runs."""

SHORT = {"mlp": 40, "gpt2": 2, "resnet": 3}

Arguments = tuple[str, ...]

CIRCUMSTANCES: Mapping[str, tuple[Mapping[str, str], Arguments]] = {
    "2 threads": ({}, ("--threads", "2")),
    "5 threads": ({}, ("--threads", "5")),
    "256-bit vectors": ({"MOOT_VECTOR_BITS": "256"}, ("--threads", "2")),
    "128-bit vectors": ({"MOOT_VECTOR_BITS": "128"}, ("--threads", "2")),
    "other blocks": ({}, ("--threads", "3", "--blocks", "small")),
    "another hash seed": ({"PYTHONHASHSEED": "1"}, ()),
    "all of these": (
        {"MOOT_VECTOR_BITS": "256", "PYTHONHASHSEED": "2"},
        ("--threads", "3", "--blocks", "small"),
    ),
}
"""The environment and the arguments of a process."""


def run(program: str, steps: int, environment: Mapping[str, str], arguments: Arguments) -> History:
    """Return the roots that a process of its own comes to."""
    module = "tests.reproducibility.history"
    done = subprocess.run(  # noqa: S603 - our own interpreter on our own code
        [sys.executable, "-m", module, program, str(steps), *arguments],
        stdout=subprocess.PIPE,
        text=True,
        check=True,
        cwd=Path(__file__).parents[2],
        env={**os.environ, "PYTHONHASHSEED": "0", **environment},
    )
    return History(**json.loads(done.stdout))


@cache
def usual(program: str, steps: int) -> History:
    """Return the roots of a process with one thread and the processor's own vectors."""
    return run(program, steps, {}, ())


@pytest.mark.slow
@pytest.mark.parametrize("program", ["gpt2", "resnet"])
def test_threads_do_not_matter(program: str) -> None:
    """Some steps end in the same history with 1, 2 and 5 threads."""
    captured = capture_named(program)
    histories = {compute_history(captured, SHORT[program], threads) for threads in (1, 2, 5)}
    assert len(histories) == 1


def test_the_number_of_steps_matters() -> None:
    """The comparison is sharp: one step more is another history of the same program."""
    captured = capture_named("mlp")
    one, two = (compute_history(captured, steps, 1) for steps in (1, 2))
    assert one[:2] == two[:2]
    assert one.history != two.history


@pytest.mark.parametrize("circumstance", only({"another hash seed"}, CIRCUMSTANCES))
def test_the_process_does_not_matter(circumstance: str) -> None:
    """Processes with other vectors, blocks, threads and hash seeds come to this one's history."""
    here = compute_history(capture_named("mlp"), SHORT["mlp"], 1)
    assert run("mlp", SHORT["mlp"], *CIRCUMSTANCES[circumstance]) == here


@pytest.mark.slow
@pytest.mark.parametrize("circumstance", CIRCUMSTANCES)
@pytest.mark.parametrize("program", LONG)
def test_long_runs_do_not_part(program: str, circumstance: str) -> None:
    """A whole training run has the same history root under every circumstance."""
    found = run(program, LONG[program], *CIRCUMSTANCES[circumstance])
    assert found == usual(program, LONG[program])
