"""The table of docs/measurements/rounding-log.md: what a trainer that steers its log comes to.

`python docs/tools/harm.py [--steps 1000] [--program mlp-small ...]` trains by the proven and by the
published method, some minutes of a core, and prints it.
"""

import argparse
import sys

import torch

from moot.offchain.replication.harm import Harm, steer

PROGRAMS = ("mlp-small", "gpt2-tiny", "resnet-tiny")
METHODS = ("published", "proven")
MARKS = (160, 1000)
"""After so many steps a row is printed, and after the last one."""


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=1000)
    parser.add_argument("--program", nargs="*", default=PROGRAMS)
    chosen = parser.parse_args()
    torch.set_num_threads(1)
    print(
        "| training | method | steps | turned a step | distance, of the way | weights that differ "
        "| loss, honest | loss, steered |\n|---|---|---:|---:|---:|---:|---:|---:|"
    )
    for named in chosen.program:
        program, _, size = named.rpartition("-")
        for method in METHODS:
            for found in steer(method, program, size, chosen.steps, lambda _: None):
                if found.step in {*MARKS, chosen.steps}:
                    print(row(f"{program}, {size}", method, found), flush=True)
    sys.stdout.write(
        "| any | `exact`, `ordered` | any | 0 | 0 | 0% | as it is | the same: nothing is logged |\n"
    )


def row(program: str, method: str, found: Harm) -> str:
    """Return a row of the table."""
    cells = (
        program,
        method,
        f"{found.step:,}",
        f"{found.turned / found.step:,.1f}",
        f"{found.distance:.2g}",
        f"{found.differing:.1%}",
        f"{found.honest_loss:.6g}",
        f"{found.steered_loss:.6g}",
    )
    return f"| {' | '.join(cells)} |"


if __name__ == "__main__":
    main()
