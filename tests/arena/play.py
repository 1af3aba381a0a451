"""Plays a story: the same story always comes to the same end."""

import shutil
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from unittest.mock import patch

from moot.offchain.parties import daemon
from tests.arena import party, workshop
from tests.arena.assumptions import find_broken
from tests.arena.clock import ruled_by
from tests.arena.codec import plain_words
from tests.arena.invariants import INVARIANTS, OF_MONEY, watch_block
from tests.arena.story import Story
from tests.arena.world import GameOver, Killed, World

SHM = Path("/dev/shm")  # noqa: S108 - files in memory, in a folder of a drawn name


@dataclass(frozen=True, slots=True)
class Verdict:
    """What a game came to.

    Attributes:
        story: what was played.
        broken: the invariants that did not hold, by name, each with what was found.
        blocks: how many blocks it had.
        ended: what ended the provider, if it was no signal.
        outside: which assumption did not hold, if one did not.
        matches: how many matches the provider had.
    """

    story: Story
    broken: dict[str, str]
    blocks: int
    ended: str
    outside: str
    matches: int


@contextmanager
def opened_folder() -> Iterator[Path]:
    """Give a folder for one game, in memory where that can be had."""
    base = SHM if SHM.is_dir() else None
    path = Path(tempfile.mkdtemp(prefix="moot-arena-", dir=base))
    try:
        yield path
    finally:
        shutil.rmtree(path, ignore_errors=True)


def play(story: Story) -> Verdict:
    """Play a story to its end, and judge it."""
    verdict, _ = play_in_world(story)
    return verdict


def play_in_world(story: Story) -> tuple[Verdict, World]:
    """Play a story, and return its world, too."""
    with opened_folder() as folder, ExitStack() as stack:
        stack.enter_context(plain_words())
        stack.enter_context(party.seated())
        world = World(story, folder)
        stack.enter_context(ruled_by(world.clock))
        stack.enter_context(workshop.simulated(world.shop))
        stack.enter_context(patch.object(daemon, "recall_run", world.recall))
        world.watchers.append(watch_block)
        ended = _run(world)
        broken = dict(world.broken)
        outside = find_broken(world)
        for name, judge in INVARIANTS.items():
            if outside and name in OF_MONEY:
                continue
            if name not in broken and (found := judge(world, ended)):
                broken[name] = found
    blocks, matches = world.chain.head.number, world.count_matches()
    return Verdict(story, broken, blocks, ended, outside, matches), world


def _run(world: World) -> str:
    """Let the provider run to the end; return what ended it, if that was no signal."""
    try:
        world.begin()
        while True:
            try:
                world.seat.run()
            except Killed:
                continue
            return "it has returned"
    except GameOver:
        return ""
    except BaseException as error:
        if isinstance(error, KeyboardInterrupt):
            raise
        return f"{type(error).__name__}: {error}"
