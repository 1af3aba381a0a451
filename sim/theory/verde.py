"""Verde's claim about k providers, played: one honest among k - 1 liars wins in k - 1 disputes.

Verde (arXiv 2502.19405) needs one honest provider among any number. Each dispute takes out a liar,
so that k - 1 of them are enough. Here the same providers play on the contract, where disputes of
different pairs go on side by side.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from moot.contracts.deployment import deploy_referee
from moot.offchain.chain import Chain
from moot.offchain.chain.tester import Tester
from moot.offchain.disputes.play.game import Played
from moot.offchain.disputes.referee.on_chain import ChainReferee
from moot.offchain.errors import UsageError
from moot.sim.swarm import SIZE, STAKES, draw_crowds, draw_lies
from moot.sim.synthetic.products import seat
from moot.sim.theory.dispute import SideGas, divide_gas

SEED = 1


@dataclass(frozen=True, slots=True)
class Dispute:
    """What came of a job of one honest provider and liars.

    Attributes:
        providers: how many there were in all.
        has_won: whether the honest one, and nobody else, was left.
        matches: how many disputes were begun.
        rounds: how many times the claims that were left met anew.
        gas: of both sides, from receipts.
    """

    providers: int
    has_won: bool
    matches: int
    rounds: int
    gas: SideGas


def play(providers: int, *, is_crowd: bool, seed: int = SEED) -> Dispute:
    """Play a job on the contract, in a chain in memory.

    Args:
        providers: how many there are, at least 2; one of them is honest.
        is_crowd: whether all liars are behind one claim, or each behind its own.
        seed: where the lies are drawn from.

    Raises:
        UsageError: there is no liar.
    """
    if providers < 2:
        raise UsageError(f"{providers} providers have no dispute; take at least 2")
    liars = providers - 1
    lies = draw_crowds(1, liars, seed) if is_crowd else draw_lies(liars, seed)
    chain = Chain(Tester(providers + 1), None)
    referee = ChainReferee(chain, deploy_referee(chain, chain.accounts[0]), 0)
    game = seat(referee, SIZE, chain.accounts, lies, STAKES)
    played = list(game.play())
    starts = [move for move in played if move.call == "start_match"]
    return Dispute(
        providers=providers,
        has_won=game.get_winners() == [game.players[0].name],
        matches=len(starts),
        rounds=_count_rounds(starts),
        gas=divide_gas(played),
    )


def _count_rounds(starts: Sequence[Played]) -> int:
    """Return in how many rounds matches began: a round's are at least a window after the last's."""
    blocks = sorted(move.receipt.block for move in starts if move.receipt is not None)
    gaps = (later - earlier for earlier, later in pairwise(blocks))
    return 1 + sum(gap >= STAKES.window_blocks for gap in gaps)
