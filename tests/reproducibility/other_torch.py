"""Captures and runs the same recipes under another version of torch, and compares the roots.

    python -m tests.reproducibility.other_torch 2.12.0

Installs that version, with what it needs, into a temporary folder that is put before the packages
of this environment; everything else stays what it is. `--index-url` says where to look for it: the
CPU builds are at https://download.pytorch.org/whl/cpu, those of the usual index bring gigabytes of
CUDA along. Exits with 77 when it cannot be installed, and with 1 when an equal program has another
history. A version may decompose an operator otherwise, and so make another program of a model; jobs
bind the program's root, and its history is another one.
"""

# ruff: noqa: T201 - a script that prints

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

import torch

from tests.reproducibility.history import History

ROOT = Path(__file__).parents[2]
STEPS = {"mlp": 100, "gpt2": 100, "resnet": 30, "llama": 100}
SKIPPED = 77


def install(version: str, folder: Path, index: Sequence[str]) -> str | None:
    """Install a version of torch into a folder; return what pip has against it, if anything."""
    command = [sys.executable, "-m", "pip", "install", "--quiet", *index]
    done = subprocess.run(  # noqa: S603 - pip, with a version that the user chose
        [*command, "--target", str(folder), f"torch=={version}"],
        capture_output=True,
        text=True,
        check=False,
    )
    return (done.stderr.strip().splitlines() or ["no reason"])[-1] if done.returncode else None


def run(packages: Path | None, *arguments: str) -> str:
    """Return what Python prints, with a folder of packages before its own."""
    path = {} if packages is None else {"PYTHONPATH": str(packages)}
    done = subprocess.run(  # noqa: S603 - our own interpreter on our own code
        [sys.executable, *arguments],
        stdout=subprocess.PIPE,
        text=True,
        check=True,
        cwd=ROOT,
        env={**os.environ, **path},
    )
    return done.stdout


def compute(packages: Path | None, program: str) -> History:
    """Return the roots of a run under the torch of a folder, or under this environment's."""
    module = "tests.reproducibility.history"
    return History(**json.loads(run(packages, "-m", module, program, str(STEPS[program]))))


def compare(packages: Path) -> bool:
    """Print how the runs compare; return whether equal programs have equal histories."""
    print("program   steps  same program  same start  same history")
    is_same = True
    for program, steps in STEPS.items():
        ours, theirs = compute(None, program), compute(packages, program)
        cells = ["yes" if a == b else "no" for a, b in zip(ours, theirs, strict=True)]
        print(f"{program:8}  {steps:5}  {cells[0]:12}  {cells[1]:10}  {cells[2]}", flush=True)
        is_same &= ours[:2] != theirs[:2] or ours.history == theirs.history
    return is_same


def main() -> int:
    """Compare with the version of the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("version")
    parser.add_argument("--index-url", help="where pip looks for it")
    parser.add_argument("--folder", type=Path, help="where it is installed already, or is kept")
    options = parser.parse_args()
    index = ["--index-url", options.index_url] if options.index_url else []
    with tempfile.TemporaryDirectory() as temporary:
        folder = options.folder or Path(temporary)
        if not (folder / "torch").is_dir():
            problem = install(options.version, folder, index)
            if problem is not None:
                print(f"skipped: torch {options.version} cannot be installed here: {problem}")
                return SKIPPED
        found = run(folder, "-c", "import torch; print(torch.__version__)").strip()
        print(f"torch {torch.__version__} here, torch {found} there")
        return 0 if compare(folder) else 1


if __name__ == "__main__":
    sys.exit(main())
