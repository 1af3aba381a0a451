"""The table of docs/replication.md: how far trainings under two profiles part.

`python docs/replication.py PROFILE ...` lets every pair of these profiles, or of all, train each
program with stock torch and in each arithmetic, and prints a row for each.
"""

import sys
from itertools import combinations

from offchain.arithmetic.table import ARITHMETICS
from offchain.replication.compare import Setting, Summary, compare, summarize
from offchain.replication.profiles import PROFILES, find_profile

PROGRAMS = ("mlp", "gpt2", "cnn")
STEPS = 20


def measure(program: str, pair: tuple[str, str], arithmetic: str | None) -> Summary:
    """Return the comparison of all steps."""
    setting = Setting(program, steps=STEPS, arithmetic=arithmetic)
    return summarize(list(compare(setting, *map(find_profile, pair))))


def make_row(program: str, pair: tuple[str, str]) -> str:
    """Return a row of the table."""
    stock = measure(program, pair, None)
    last = stock.last
    cells = (
        program,
        f"{pair[0]}, {pair[1]}",
        str(stock.differing_steps),
        f"{last.tensors} of {last.all_tensors}",
        f"{last.elements / last.all_elements:.1%} of {last.all_elements:,}",
        f"{last.distance:.1e}",
        *(str(measure(program, pair, name).differing_steps) for name in ARITHMETICS),
    )
    return f"| {' | '.join(cells)} |\n"


def main() -> None:
    """Print the table."""
    chosen = sys.argv[1:] or list(PROFILES)
    head = ["program", "profiles", "steps that differ", "tensors", "elements", "largest difference"]
    head += [f"steps in `{name}`" for name in ARITHMETICS]
    sys.stdout.write(f"| {' | '.join(head)} |\n|{'---|' * len(head)}\n")
    for program in PROGRAMS:
        for pair in combinations(chosen, 2):
            sys.stdout.write(make_row(program, pair))
            sys.stdout.flush()


if __name__ == "__main__":
    main()
