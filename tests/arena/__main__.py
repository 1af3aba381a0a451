"""Plays games: `python -m tests.arena --games 1000 --seed 0`."""

import argparse
import sys
import time
from collections import Counter

from tests.arena.adversaries.table import FAMILIES
from tests.arena.draw import draw_story
from tests.arena.play import play


def main() -> int:
    """Play games, say what each broke, and how many did."""
    parser = argparse.ArgumentParser(prog="arena", description=__doc__)
    parser.add_argument("--games", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=0, help="of the first game")
    parser.add_argument("--families", default="", help=f"of {', '.join(FAMILIES)}")
    chosen = parser.parse_args()
    families = tuple(filter(None, chosen.families.split(",")))
    broken: Counter[str] = Counter()
    started = time.process_time()
    failed = outside = matches = 0
    for seed in range(chosen.seed, chosen.seed + chosen.games):
        verdict = play(draw_story(seed, families))
        failed += bool(verdict.broken)
        outside += bool(verdict.outside)
        matches += verdict.matches
        for name, found in verdict.broken.items():
            broken[name] += 1
            if broken[name] <= 5:
                print(f"{seed}: {name}: {found} | {verdict.story.tell()}", flush=True)  # noqa: T201
    minutes = (time.process_time() - started) / 60
    pace = f"{chosen.games / minutes:,.0f} a minute of one core"
    seen = f"{matches} matches, {outside} games outside the assumptions, {failed} broken"
    print(f"{chosen.games} games, {seen}, {pace}: {dict(broken)}")  # noqa: T201
    return min(failed, 1)


if __name__ == "__main__":
    sys.exit(main())
