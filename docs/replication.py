"""The table of docs/replication.md: `python docs/replication.py` trains under every profile.

Each pair of profiles trains every program with stock torch and in each arithmetic, and the states
are compared after every step.
"""

import sys
from itertools import combinations
from pathlib import Path

from offchain.arithmetic.table import ARITHMETICS
from offchain.replication.compare import Setting, Step, compare
from offchain.replication.profiles import PROFILES

PAGE = Path(__file__).with_name("replication.md")
BEGIN, END = "<!-- made by docs/replication.py -->\n", "<!-- end -->\n"
PROGRAMS = ("mlp", "gpt2", "cnn")
STEPS = 20


def measure(program: str, pair: tuple[str, str], arithmetic: str | None) -> list[Step]:
    """Return the comparison of all steps."""
    setting = Setting(program, steps=STEPS, arithmetic=arithmetic)
    return list(compare(setting, *(PROFILES[name] for name in pair)))


def make_row(program: str, pair: tuple[str, str]) -> str:
    """Return a row of the table."""
    stock = measure(program, pair, None)
    last = stock[-1]
    counts = [
        str(sum(step.elements > 0 for step in measure(program, pair, name))) for name in ARITHMETICS
    ]
    cells = (
        program,
        f"{pair[0]}, {pair[1]}",
        str(sum(step.elements > 0 for step in stock)),
        f"{last.tensors} of {last.all_tensors}",
        f"{last.elements / last.all_elements:.1%} of {last.all_elements:,}",
        f"{last.distance:.1e}",
        *counts,
    )
    return f"| {' | '.join(cells)} |\n"


def main() -> None:
    """Write the table; with names of profiles, only of the pairs among these."""
    chosen = sys.argv[1:] or list(PROFILES)
    head = ["program", "profiles", "steps that differ", "tensors", "elements", "largest difference"]
    head += [f"steps in `{name}`" for name in ARITHMETICS]
    lines = [f"| {' | '.join(head)} |\n", f"|{'---|' * len(head)}\n"]
    for program in PROGRAMS:
        for pair in combinations(chosen, 2):
            lines.append(make_row(program, pair))
            sys.stdout.write(lines[-1])
            sys.stdout.flush()
    before, _, rest = PAGE.read_text(encoding="utf-8").partition(BEGIN)
    after = rest.partition(END)[2]
    PAGE.write_text(f"{before}{BEGIN}{''.join(lines)}{END}{after}", encoding="utf-8")


if __name__ == "__main__":
    main()
