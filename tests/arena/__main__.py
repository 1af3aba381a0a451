"""Plays games: `python -m tests.arena --games 1000 --seed 0`.

The line of a game that breaks an invariant says what and with which story; `--keep` shrinks it and
keeps it in a folder, and `--replay` plays a file of such a folder again.
"""

import argparse
import sys
import time
from collections import Counter
from pathlib import Path

from tests.arena.adversaries.table import FAMILIES
from tests.arena.draw import draw_story
from tests.arena.play import Verdict, play
from tests.arena.shrink import shrink
from tests.arena.story import Story, read_story

MOST_LINES = 20
"""So many games are told of that break the same invariant."""


def main() -> int:
    """Play games, say what each broke, and how many did."""
    parser = argparse.ArgumentParser(prog="arena", description=__doc__)
    parser.add_argument("--games", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=0, help="of the first game")
    parser.add_argument("--families", default="", help=f"of {', '.join(FAMILIES)}")
    parser.add_argument("--keep", type=Path, help="a folder for games that break an invariant")
    parser.add_argument("--replay", type=Path, help="a game to play again, instead of others")
    chosen = parser.parse_args()
    if chosen.replay is not None:
        return _report(play(read_story(chosen.replay.read_text(encoding="utf-8"))), Counter())
    families = tuple(filter(None, chosen.families.split(",")))
    broken: Counter[str] = Counter()
    failed = outside = matches = 0
    started = time.process_time()
    for seed in range(chosen.seed, chosen.seed + chosen.games):
        verdict = play(draw_story(seed, families))
        failed += _report(verdict, broken)
        outside += bool(verdict.outside)
        matches += verdict.matches
        if verdict.broken and chosen.keep is not None:
            _keep(verdict, chosen.keep)
    minutes = (time.process_time() - started) / 60
    pace = f"{chosen.games / minutes:,.0f} a minute of one core"
    seen = f"{matches} matches, {outside} games outside the assumptions, {failed} broken"
    print(f"{chosen.games} games, {seen}, {pace}: {dict(broken)}")  # noqa: T201
    return min(failed, 1)


def _report(verdict: Verdict, broken: Counter[str]) -> int:
    """Say what a game broke; return whether it broke anything."""
    for name, found in verdict.broken.items():
        broken[name] += 1
        if broken[name] <= MOST_LINES:
            story = verdict.story
            print(f"{story.seed}: {name}: {found} | {story.tell()}", flush=True)  # noqa: T201
    return int(bool(verdict.broken))


def _keep(verdict: Verdict, folder: Path) -> None:
    """Keep a game that is as small as can be, and breaks what this one broke first."""
    name = next(iter(verdict.broken))

    def is_broken(story: Story) -> bool:
        return name in play(story).broken

    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{name}-{verdict.story.seed}.json"
    path.write_text(shrink(verdict.story, is_broken).to_json(), encoding="utf-8")


if __name__ == "__main__":
    sys.exit(main())
