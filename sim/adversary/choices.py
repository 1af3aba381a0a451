"""The choices of an adversary at each moment of a game: calls, and how long to wait.

A choice is a tuple of a name and small values, so that a game is told by its choices and can be
played again elsewhere: on the contract, on another machine, or with a part of them left out.
"""

from collections.abc import Callable, Iterator, Mapping
from itertools import combinations

from moot.contracts.model.types import ZERO, Address, Job, Pair
from moot.contracts.reasons import Phase, Standing, Status
from moot.offchain.commitments.tree import Digest
from moot.offchain.disputes.play.players import Move
from moot.offchain.disputes.referee.board import Board
from moot.offchain.disputes.referee.port import Call
from moot.offchain.providers.testimony import Testimony
from moot.sim.adversary.memory import describe_board
from moot.sim.adversary.options import FORCED, list_decisions, list_forged, list_moves
from moot.sim.adversary.scripts import RIGHT
from moot.sim.adversary.world import Choice, World

SALT = b"\xad" * 32
GO, HOLD, END, UNTIL = "go", "hold", "end", "until"
_MOST_ENDS = 6
_DECISIVE = frozenset({Phase.LEAF, Phase.SINK})


def list_choices(world: World, *, probes: bool) -> list[Choice]:
    """Return what an adversary may try now.

    Args:
        world: the game as it stands.
        probes: whether what a sound referee refuses, whatever else there is, is among it.
    """
    choices: list[Choice] = [(GO,), (END,)] if world.pending else [(END,)]
    block, job = world.block, world.job
    if job.status is not Status.OPEN:
        if probes:
            choices += [("collect", place) for place in range(len(_list_own(world)))]
        choices += _list_moves(world, block, probes=probes)
        return choices
    if can_hold(world):
        choices.append((HOLD,))
    choices += [(UNTIL, end - world.opened_block) for end in _list_ends(world, job, block)]
    choices += _list_joining(world, job, block, probes=probes)
    if block > job.reveal_deadline:
        choices += _list_matches(world, job, block, probes=probes)
        choices += _list_moves(world, block, probes=probes)
    return choices


def can_hold(world: World) -> bool:
    """Whether the adversary can keep calls out of this block, once claims are shown."""
    has_room = bool(world.pending) and world.held < world.table.held
    return has_room and world.block > world.job.reveal_deadline


def _list_ends(world: World, job: Job, block: int) -> list[int]:
    """Return blocks in which something ends, and those after them."""
    tournament = world.tournament
    ends = {board.position.deadline for board in tournament.boards.values()}
    ends |= {job.commit_deadline, job.reveal_deadline, job.window_end}
    if tournament.meetings:
        ends.update(tournament.list_windows())
    wanted = {at for end in ends if end > block for at in (end, end + 1) if at > block + 1}
    return sorted(wanted)[:_MOST_ENDS]


def _list_joining(world: World, job: Job, block: int, *, probes: bool) -> Iterator[Choice]:
    """Yield how accounts may join, show what they have claimed, and be paid."""
    members, claims = world.referee.store.members, world.table.claims
    can_commit, is_shown = block <= job.commit_deadline, block > job.reveal_deadline
    can_join = is_shown and (probes or block <= job.window_end)
    for place, account in enumerate(world.table.accounts):
        member = members.get((0, account))
        if member is None:
            if can_commit or can_join:
                name = "commit" if can_commit else "join"
                yield from ((name, place, claim.name) for claim in claims)
        elif member.standing is Standing.COMMITTED:
            if probes or not (can_commit or is_shown):
                yield ("reveal", place)
        elif probes:
            yield ("collect", place)


def _list_matches(world: World, job: Job, block: int, *, probes: bool) -> Iterator[Choice]:
    """Yield the matches that may begin, and the ends of the job."""
    tournament, table = world.tournament, world.table
    places = [(table.places[it], it, top) for it, top in tournament.contenders.items()]
    for (one, first, top), (other, second, opposed) in combinations(places, 2):
        if top != opposed and (probes or _may_meet(world, top, opposed, block)):
            names = (one, other) if table.ranks[first] < table.ranks[second] else (other, one)
            if _find_pair(world, *names) not in tournament.boards:
                yield ("start", *names)
    if probes or (job.claims <= 1 and block > job.window_end):
        yield from (("settle", place) for place in range(len(tournament.get_claims()) or 1))
    if probes:
        yield ("annul", 0)


def _may_meet(world: World, top: Digest, other: Digest, block: int) -> bool:
    """Whether members of two claims may begin a match: they meet, or both are free to."""
    tournament = world.tournament
    meeting = tournament.meetings.get(top)
    if meeting is not None and meeting.rival == other:
        return True
    return tournament.is_free(top, block) and tournament.is_free(other, block)


def _list_moves(world: World, block: int, *, probes: bool) -> Iterator[Choice]:
    """Yield what may be done in each match."""
    places = world.table.places
    for pair, board in world.tournament.boards.items():
        position = board.position
        names, mover = (places[pair.first], places[pair.second]), position.mover
        if probes or block > position.deadline:
            yield ("timeout", *names)
        if block > position.deadline and not probes:
            continue
        if position.phase in _DECISIVE:
            count = len(_get_options(world, board, "decide", mover))
            yield from (("decide", *names, mover, place) for place in range(count))
            continue
        kind = "move" if names[mover] >= 0 else "push"
        options = _get_options(world, board, kind, mover)
        for place, move in enumerate(options):
            if kind == "move" or probes or move.call in FORCED:
                yield (kind, *names, mover, place)
        if probes:
            forged = len(_get_options(world, board, "forge", mover))
            yield from (("forge", *names, mover, place) for place in range(forged))


def _find_own(world: World, board: Board, side: int) -> int:
    """Return the place among the adversary's accounts of a side of a match; -1 for the honest."""
    return world.table.places[(board.pair.first, board.pair.second)[side]]


def _get_options(world: World, board: Board, kind: str, side: int) -> tuple[Move, ...]:
    """Return the moves of a kind, which are made once for a table."""
    table = world.table
    own = _find_own(world, board, side)
    claim = table.tops[RIGHT if own < 0 else world.said[own]]
    key = (kind, claim.name, own < 0, *describe_board(board))

    def make() -> tuple[Move, ...]:
        if kind == "decide":
            return list_decisions(_list_testimonies(world), board)
        moves = list_moves(claim.scripts, table.terms, board, side)
        return list_forged(moves) if kind == "forge" else moves

    return table.memory.find(key, make)


def _list_testimonies(world: World) -> list[Testimony]:
    """Return all that anybody at the table can say."""
    return [script for claim in world.table.claims for script in claim.scripts]


def make_call(world: World, choice: Choice) -> Call | None:
    """Return the call of a choice; None of one that is no longer there."""
    return _CALLS.get(choice[0], _move)(world, choice)


def _join(world: World, choice: Choice) -> Call:
    (name, place, claim), table = choice, world.table
    account, top = table.accounts[place], table.tops[claim].top
    said = world.referee.commitment(0, account, top, SALT) if name == "commit" else top
    return Call(name, account, (0, said, world.view.named), table.terms.bond_wei)


def _reveal(world: World, choice: Choice) -> Call | None:
    place = choice[1]
    if not world.said[place]:
        return None
    top = world.table.tops[world.said[place]].top
    return Call("reveal", world.table.accounts[place], (0, top, SALT))


def _settle(world: World, choice: Choice) -> Call:
    tops = dict(enumerate(world.tournament.get_claims()))
    return Call("settle", world.table.accounts[0], (0, tops.get(choice[1], ZERO)))


def _annul(world: World, choice: Choice) -> Call:
    commitment, operator = world.table.run.task.commitment, choice[1]
    proof = tuple(commitment.tree.proof(operator))
    args = (0, operator, commitment.encodings[operator], proof)
    return Call("prove_operator", world.table.accounts[0], args)


def _start(world: World, choice: Choice) -> Call | None:
    pair, known = _find_pair(world, *choice[1:]), world.tournament.contenders
    if pair.first not in known or pair.second not in known:
        return None
    return Call("start_match", world.table.accounts[0], world.tournament.name_match(pair))


def _move(world: World, choice: Choice) -> Call | None:
    """Return a call of a match."""
    kind, one, other, *rest = choice
    board = world.tournament.boards.get(_find_pair(world, one, other))
    if board is None:
        return None
    stranger, place = world.table.accounts[0], (board.pair, board.position)
    if kind == "timeout":
        return Call("timeout", stranger, place)
    side, number = rest
    options = _get_options(world, board, kind, side)
    if number >= len(options):
        return None
    is_own = kind != "decide" and _find_own(world, board, side) >= 0
    sender = (board.pair.first, board.pair.second)[side] if is_own else stranger
    move = options[number]
    return Call(move.call, sender, (*place, *move.args))


_CALLS: Mapping[str, Callable[[World, Choice], Call | None]] = {
    "commit": _join,
    "join": _join,
    "reveal": _reveal,
    "collect": lambda world, choice: Call("collect", _list_own(world)[choice[1]], (0,)),
    "settle": _settle,
    "annul": _annul,
    "start": _start,
}
"""What makes the call of a choice of each kind that is none of a match."""


def is_hasty(world: World, choice: Choice) -> bool:
    """Whether a move of a match could be made later."""
    return world.block < _find_board(world, choice).position.deadline


def _find_board(world: World, choice: Choice) -> Board:
    return world.tournament.boards[_find_pair(world, choice[1], choice[2])]


def _list_own(world: World) -> tuple[Address, ...]:
    """Return the adversary's accounts, its client's among them."""
    table = world.table
    return (*table.accounts, table.client) if table.is_shill else table.accounts


def _find_pair(world: World, one: int, other: int) -> Pair:
    table = world.table
    return Pair(0, table.names[one], table.names[other])
