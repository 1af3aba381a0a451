"""Calls that are almost right: every argument of a move changed in every way that may matter."""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from contracts.model.types import NO_OPENING, Opening
from tests.lockstep.game import Game, Move

HUGE = 2**256 - 1


def mutate(value: Any) -> Iterator[Any]:
    """Yield other values of an argument's type."""
    if isinstance(value, bool):
        yield not value
    elif isinstance(value, int):
        yield from (value + 1, max(value - 1, 0), 64, HUGE)
    elif isinstance(value, bytes):
        yield from _mutate_bytes(value)
    elif isinstance(value, Opening):
        yield from _mutate_opening(value)
    else:
        yield from _mutate_items(tuple(value))


def _mutate_bytes(value: bytes) -> Iterator[bytes]:
    if value:
        yield value[:-1] + bytes([value[-1] ^ 1])
        yield bytes([value[0] ^ 0x80]) + value[1:]
    if len(value) != 32:
        yield from (b"", value[:-1], value + b"\0", value + bytes(2048))


def _mutate_items(items: tuple[Any, ...]) -> Iterator[tuple[Any, ...]]:
    yield from (items[:-1], (), items[::-1])
    if items:
        yield (*items, items[-1])
        yield items * 60
    for place, item in enumerate(items):
        if isinstance(item, Opening) or place in (0, len(items) - 1):
            changes = list(mutate(item))
            kept = changes if isinstance(item, Opening) else changes[:1]
            yield from ((*items[:place], change, *items[place + 1 :]) for change in kept)


def _mutate_opening(opening: Opening) -> Iterator[Opening]:
    yield NO_OPENING
    for name in Opening.__slots__:
        for change in mutate(getattr(opening, name)):
            yield replace(opening, **{name: change})


def mutate_move(game: Game, move: Move) -> Iterator[Move]:
    """Yield moves that differ from a right one in one thing."""
    accounts = game.referee.chain.accounts
    for sender in (game.client, *game.members[:2], accounts[-1]):
        if sender != move.sender:
            yield replace(move, sender=sender)
    for place, argument in enumerate(move.args):
        for change in mutate(argument):
            if change != argument:
                yield replace(move, args=(*move.args[:place], change, *move.args[place + 1 :]))


def other_moves(game: Game) -> Iterator[Move]:
    """Yield one call of every other kind, by each side, at the right position."""
    position = game.referee.position(game.job_id)
    proof = (position,)
    encoding = game.task.commitment.encodings[
        min(game.match.operator, game.job.terms.operators - 1)
    ]
    calls: dict[str, tuple[Any, ...]] = {
        "open": (proof,),
        "pick": (0, position, ()),
        "enter_interval": (position, proof, position, proof, proof),
        "enter_trace": (position, proof, position, proof),
        "enter_operator": (b"", proof, position),
        "enter_state": (position,),
        "open_chunk": (b"",),
        "pick_element": (b"", 0),
        "open_fold": (b"",),
        "pick_segment": (b"", 0),
        "leaf": (encoding, ()),
        "prove_sink": (position, proof),
        "refer": (encoding,),
        "rule": (True,),
        "timeout": (),
    }
    for name, args in calls.items():
        for sender in game.members[:2]:
            yield Move(name, sender, (game.job_id, position, *args))
