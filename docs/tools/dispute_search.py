"""Writes the table of `docs/explanation/security.md` from the file of a search.

`moot answers dispute-search --games 1005000 -j 1 -o search.jsonl`, then
`python docs/tools/dispute_search.py search.jsonl`.
"""

import argparse
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from moot.sim.adversary.campaign import Campaign, add_up, read_parts

PAGE = Path(__file__).parents[1] / "explanation" / "security.md"
BEGIN, END = "<!-- the table of a search -->\n", "<!-- its end -->\n"
_ETHER = 10**18


def main() -> None:
    """Write the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("file", type=Path)
    sums = add_up([*read_parts(parser.parse_args().file, Campaign()).values()])
    text = PAGE.read_text()
    before, rest = text.split(BEGIN)
    _, after = rest.split(END)
    text = f"{before}{BEGIN}{''.join(list_rows(sums))}{END}{after}"
    games = sums["games"]
    said = r"[\d,]+ games; none beats it( in money)?"
    text = re.sub(said, f"{games:,} games; none beats it", text)
    PAGE.write_text(
        re.sub(r"dispute-search --games \d+`", f"dispute-search --games {games}`", text)
    )


def list_rows(sums: dict[str, Any]) -> Iterator[str]:
    """Yield the lines of the table."""
    games, matches = sums["games"], sums["matches"]
    yield "| what | how much |\n|---|---:|\n"
    yield f"| games, at {sums['parts']:,} tables of the tiny MLP (71 operators) | {games:,} |\n"
    yield f"| of these, unlike in a call or in a call's block | {sums['paths']:,} |\n"
    yield f"| states of a job, clocks of 4 blocks and more taken as one | {sums['cells']:,} |\n"
    yield f"| calls of all games | {sums['calls']:,} |\n"
    told = ", ".join(f"{ending} {count:,}" for ending, count in matches.items())
    yield f"| matches, by their end: {told} | {sum(matches.values()):,} |\n"
    told = ", ".join(f"{kind} {count:,}" for kind, count in sums["accepted"].items())
    yield f"| an adversary's calls: {told} | {sum(sums['accepted'].values()):,} |\n"
    told = ", ".join(f"{kind} {count:,}" for kind, count in sums["refused"].items())
    yield f"| its calls that were refused: {told} | {sum(sums['refused'].values()):,} |\n"
    yield f"| the longest game, in calls | {sums['longest_calls']} |\n"
    yield f"| likewise, in blocks | {sums['longest_blocks']} |\n"
    most = sums["best_wei"] / _ETHER
    yield f"| the most that an adversary had above its bound, ETH | {most:g} |\n"
    yield f"| **games that broke a promise** | **{sums['broken']}** |\n"
    yield f"| time of a core | {sums['seconds']:,.0f} s |\n"


if __name__ == "__main__":
    main()
