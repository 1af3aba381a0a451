"""Shrinks a story that breaks an invariant: fewer adversaries, smaller numbers, the same fault."""

from collections.abc import Callable, Iterator
from dataclasses import replace

from tests.arena.story import Move, Story, Terms

MOST_PLAYS = 80


def shrink(story: Story, is_broken: Callable[[Story], bool]) -> Story:
    """Return a story as small as was found that is still broken.

    Args:
        story: one that is.
        is_broken: plays one, and tells whether it breaks what this one did.
    """
    plays = 0
    while plays < MOST_PLAYS:
        for candidate in list_smaller(story):
            plays += 1
            if is_broken(candidate):
                story = candidate
                break
            if plays >= MOST_PLAYS:
                return story
        else:
            return story
    return story


def list_smaller(story: Story) -> Iterator[Story]:
    """Yield stories that are a little smaller, the much smaller ones first."""
    for place in range(len(story.moves)):
        yield replace(story, moves=story.moves[:place] + story.moves[place + 1 :])
    if len(story.levels) > 1:
        for kept in story.levels:
            yield replace(story, levels=((0, kept[1]),))
    if story.spare_wei is not None:
        yield replace(story, spare_wei=None)
    for name in Terms.__slots__:
        if getattr(story.terms, name) != getattr(Terms(), name):
            yield replace(story, terms=replace(story.terms, **{name: getattr(Terms(), name)}))
    for place, move in enumerate(story.moves):
        for smaller in _list_smaller_moves(move):
            moves = (*story.moves[:place], smaller, *story.moves[place + 1 :])
            yield replace(story, moves=moves)


def _list_smaller_moves(move: Move) -> Iterator[Move]:
    for name, value in move.params.items():
        tried: tuple[object, ...] = ()
        if isinstance(value, list) and len(value) > 1:
            tried = (value[:1], value[1:])
        elif isinstance(value, int) and not isinstance(value, bool) and value > 1:
            tried = (1, value // 2, value - 1)
        elif value in ("late", "mixed", "silent"):
            tried = ("at once",)
        elif value in ("spread", "never"):
            tried = ("block",)
        for k, each in enumerate(tried):
            if each != value and each not in tried[:k]:  # lists have no hash
                yield Move(move.family, {**move.params, name: each})
