"""The choices of an adversary at each moment of a game: calls, and how long to wait.

A choice is a tuple of a name and small values, so that a game is told by its choices and can be
played again elsewhere: on the contract, on another machine, or with a part of them left out.
"""

from collections.abc import Callable, Iterator, Mapping
from itertools import combinations

from moot.contracts.model.types import ZERO, Address, Pair
from moot.contracts.reasons import Phase, Standing
from moot.offchain.disputes.play.players import Move
from moot.offchain.disputes.play.tournament import order_pair
from moot.offchain.disputes.referee.board import Board
from moot.offchain.disputes.referee.port import Call
from moot.offchain.providers.testimony import Testimony
from moot.sim.adversary.memory import describe_board
from moot.sim.adversary.options import FORCED, list_decisions, list_forged, list_moves
from moot.sim.adversary.scripts import RIGHT
from moot.sim.adversary.world import Choice, World

SALT = b"\xad" * 32
GO, HOLD, END, UNTIL = "go", "hold", "end", "until"
_DECISIVE = frozenset({Phase.LEAF, Phase.SINK})


def list_choices(world: World) -> list[Choice]:
    """Return what an adversary may try now, some of which the referee may refuse."""
    choices: list[Choice] = [(GO,)] if world.pending else []
    choices.append((END,))
    if world.is_closed:
        choices += [("collect", place) for place in range(len(_list_own(world)))]
        choices += list(_list_moves(world))
        return choices
    if can_hold(world):
        choices.append((HOLD,))
    choices += [(UNTIL, block - world.opened_block) for block in _list_ends(world)]
    choices += _list_joining(world)
    choices += _list_matches(world)
    choices += _list_moves(world)
    return choices


def can_hold(world: World) -> bool:
    """Whether the adversary can keep calls out of this block, once claims are shown."""
    is_shown = world.block > world.referee.job(0).reveal_deadline
    return bool(world.pending) and is_shown and world.held < world.table.held


def _list_ends(world: World) -> list[int]:
    """Return blocks in which something ends, and those after them."""
    job, tournament = world.referee.job(0), world.tournament
    ends = [board.position.deadline for board in tournament.boards.values()]
    ends += [*tournament.list_windows(), job.commit_deadline, job.reveal_deadline, job.window_end]
    wanted = {block for end in ends for block in (end, end + 1) if block > world.block + 1}
    return sorted(wanted)[:6]


def _list_joining(world: World) -> Iterator[Choice]:
    """Yield how accounts may join, show what they have claimed, and be paid."""
    job, claims = world.referee.job(0), world.table.claims
    for place, account in enumerate(world.table.accounts):
        standing = world.get_standing(account)
        if standing is Standing.NONE:
            name = "commit" if world.block <= job.commit_deadline else "join"
            if name == "commit" or world.block > job.reveal_deadline:
                yield from ((name, place, claim.name) for claim in claims)
        elif standing is Standing.COMMITTED:
            yield ("reveal", place)
        else:
            yield ("collect", place)


def _list_matches(world: World) -> Iterator[Choice]:
    """Yield the matches that may begin, and the ends of the job."""
    job, tournament = world.referee.job(0), world.tournament
    if world.block <= job.reveal_deadline:
        return
    for (one, top), (other, opposed) in combinations(tournament.contenders.items(), 2):
        if top != opposed:
            pair = order_pair(0, one, other)
            if pair not in tournament.boards:
                yield ("start", *_rank(world, pair))
    yield from (("settle", place) for place in range(len(tournament.get_claims()) or 1))
    yield ("annul", 0)


def _list_moves(world: World) -> Iterator[Choice]:
    """Yield what may be done in each match."""
    for pair, board in world.tournament.boards.items():
        names = _rank(world, pair)
        yield ("timeout", *names)
        for kind, side in _list_kinds(world, board):
            options = _get_options(world, board, kind, side)
            yield from ((kind, *names, side, place) for place in range(len(options)))


def _list_kinds(world: World, board: Board) -> Iterator[tuple[str, int]]:
    """Yield the kinds of moves that are to be tried in a match, each with its side."""
    mover = board.position.mover
    if board.position.phase in _DECISIVE:
        yield ("decide", mover)
        return
    yield ("move" if _find_own(world, board, mover) >= 0 else "push", mover)
    yield ("forge", mover)


def _find_own(world: World, board: Board, side: int) -> int:
    """Return the place among the adversary's accounts of a side of a match; -1 for the honest."""
    account = (board.pair.first, board.pair.second)[side]
    return -1 if account == world.table.honest else world.table.accounts.index(account)


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


def is_probe(world: World, choice: Choice) -> bool:
    """Whether a sound referee refuses a choice, whatever else there is."""
    judge = _PROBES.get(choice[0])
    return judge is not None and judge(world, choice)


def is_hasty(world: World, choice: Choice) -> bool:
    """Whether a move of a match could be made later."""
    return world.block < _find_board(world, choice).position.deadline


def _is_early(world: World, choice: Choice) -> bool:
    """Whether a timeout is one of a side whose clock runs."""
    return world.block <= _find_board(world, choice).position.deadline


def _is_foreign(world: World, choice: Choice) -> bool:
    """Whether a move for the honest side commits it to something."""
    _, _, _, side, number = choice
    options = _get_options(world, _find_board(world, choice), "push", side)
    return options[number].call not in FORCED


def _is_hidden(world: World, _: Choice) -> bool:
    """Whether claims are not shown now."""
    job = world.referee.job(0)
    return not job.commit_deadline < world.block <= job.reveal_deadline


def _is_disputed(world: World, _: Choice) -> bool:
    """Whether the job can't be closed yet."""
    job = world.referee.job(0)
    return world.block <= job.window_end or job.claims > 1


def _find_board(world: World, choice: Choice) -> Board:
    return world.tournament.boards[_find_pair(world, choice[1], choice[2])]


_PROBES: Mapping[str, Callable[[World, Choice], bool]] = {
    "forge": lambda *_: True,
    "annul": lambda *_: True,
    "timeout": _is_early,
    "push": _is_foreign,
    "collect": lambda world, _: not world.is_closed,
    "reveal": _is_hidden,
    "settle": _is_disputed,
}
"""What says of a choice of each kind whether it is refused by a sound referee."""


def _list_own(world: World) -> tuple[Address, ...]:
    """Return the adversary's accounts, its client's among them."""
    table = world.table
    return (*table.accounts, table.client) if table.is_shill else table.accounts


def _rank(world: World, pair: Pair) -> tuple[int, int]:
    """Return the places of a match's members: the adversary's accounts, and -1 for the honest."""
    table = world.table
    first, second = (
        -1 if account == table.honest else table.accounts.index(account)
        for account in (pair.first, pair.second)
    )
    return first, second


def _find_pair(world: World, one: int, other: int) -> Pair:
    table = world.table
    accounts = [table.honest if place < 0 else table.accounts[place] for place in (one, other)]
    return Pair(0, *accounts)
