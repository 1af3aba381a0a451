"""Small games that have equal calls on every chain, and the facts that are compared."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from moot.contracts.deployment import deploy_referee
from moot.contracts.model.types import Address
from moot.offchain.chain import Chain
from moot.offchain.chain.tester import Tester
from moot.offchain.disputes.play.game import Game, Played
from moot.offchain.disputes.referee.on_chain import ChainReferee
from moot.offchain.disputes.referee.terms import Stakes
from moot.sim.synthetic.products import Lie, Size, seat
from tests.node.anvil import ACCOUNTS, MNEMONIC

SIZE = Size(checkpoints=5, checkpoint_every=4, operators=9, rows=8, columns=16, terms=70)
"""Trees of odd sizes, two chunks a tensor, and two rounds of a fold."""
SCALAR = Lie(step=6, operator=4, element=77, term=33)
FIRST = Lie(step=0)
SINK = Lie(step=6, operator=SIZE.operators)
SILENT = Lie(step=9, operator=5, is_silent=True)
STAKES = Stakes(
    commit_blocks=12, reveal_blocks=12, window_blocks=12, clock_blocks=40, increment_blocks=3
)
"""Every window has room for all calls again after as many blocks as a chain may replace."""
HONEST = "honest-1"


def open_tester() -> Chain:
    """Return a new chain in memory, with the accounts that anvil has."""
    return Chain(Tester(ACCOUNTS, mnemonic=MNEMONIC), None)


def set_up(chain: Chain) -> ChainReferee:
    """Deploy a referee."""
    first_block = chain.block_number()
    return ChainReferee(chain, deploy_referee(chain, chain.accounts[0]), first_block)


def make_game(referee: ChainReferee, *lies: Lie) -> Game:
    """Seat an honest provider and liars."""
    accounts = referee.accounts[1 : 3 + len(lies)]
    return seat(referee, SIZE, accounts, lies, STAKES)


@dataclass(frozen=True)
class Course:
    """The course of a finished game: the facts that have to be equal on all chains.

    Attributes:
        winners: the names of those that were left.
        endings: of the matches, in order: who won and why.
        payouts: by account, what the contract has paid it in wei.
    """

    winners: Sequence[str]
    endings: Sequence[tuple[Any, Any]]
    payouts: dict[Address, int]


def get_course(game: Game) -> Course:
    """Return the course of a game that is over, from the chain's events."""
    payouts: dict[Address, int] = {}
    for event in game.referee.events(game.job_id):
        match event.name, event.args:
            case "Collected", (_, str(account), int(owed_wei)):
                payouts[account] = payouts.get(account, 0) + owed_wei
    endings = [(ended.outcome, ended.ending) for ended in game.ended]
    return Course(game.get_winners(), endings, payouts)


def play(game: Game) -> tuple[Course, list[Played]]:
    """Play a game to its end."""
    moves = list(game.play())
    return get_course(game), moves


def describe(moves: Iterable[Played]) -> list[tuple[Any, ...]]:
    """Return all that is known of calls but their hashes and the price of gas."""
    found = []
    for move in moves:
        receipt = move.receipt
        assert receipt is not None
        costs = (receipt.gas_used, receipt.gas_calldata, receipt.gas_execution)
        found.append((move.player, move.call, receipt.sender, receipt.block, *costs, move.events))
    return found
