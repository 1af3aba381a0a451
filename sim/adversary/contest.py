"""Contests: games that are played again, in part, without memory, or on the contract."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby

from moot.contracts.model.store_invariants import BrokenInvariantError
from moot.contracts.model.types import Event
from moot.offchain.arithmetic.base import Arithmetic
from moot.offchain.chain import Chain
from moot.offchain.disputes.referee.port import Call, Outcome, Referee
from moot.offchain.errors import MootError
from moot.sim.adversary.judge import Verdict, bound_blocks
from moot.sim.adversary.play import Tally, apply, finish
from moot.sim.adversary.tables import MOST_ACCOUNTS, Place, Shop, Table, draw_table
from moot.sim.adversary.world import Choice, World, begin
from moot.sim.checked_referee import CheckedReferee

ACCOUNTS = 8
"""Accounts of a chain in memory, of which a table takes the five of the lowest addresses."""


@dataclass(frozen=True, slots=True)
class Contest:
    """What became of a game's calls on the contract.

    Attributes:
        verdict: on the model, whose players remembered nothing.
        calls: all accepted calls of the model, with their blocks.
        refused: what the contract said of the first that it did otherwise; empty if it agrees.
    """

    verdict: Verdict
    calls: tuple[tuple[int, Call], ...]
    refused: str


def replay(
    table: Table, choices: Sequence[Choice], *, remembers: bool = True, records: bool = False
) -> tuple[World, Verdict]:
    """Play a game again by its choices; what can't be done any more is left out.

    After the last of them the adversary does nothing more.
    """
    world, tally = begin(table, remembers=remembers, records=records), Tally()
    bound = world.opened_block + bound_blocks(table, MOST_ACCOUNTS)
    for choice in choices:
        apply(world, choice, tally)
    while not world.is_closed and world.block <= bound:
        world.advance()
        world.release()
    return world, finish(world)


def shrink(table: Table, choices: Sequence[Choice]) -> tuple[Choice, ...]:
    """Return the fewest choices, left out one after the other, that still break a promise."""
    kept = list(choices)
    place = len(kept) - 1
    while place >= 0:
        tried = kept[:place] + kept[place + 1 :]
        if replay(table, tried)[1].broken:
            kept = tried
        place = min(place - 1, len(kept) - 1)
    return tuple(kept)


class Court:
    """The contract on a chain in memory, which is as it was at first for each game.

    Args:
        arithmetic: that of the program.
    """

    def __init__(self, arithmetic: Arithmetic) -> None:
        from moot.contracts.deployment import deploy_referee  # noqa: PLC0415 - the EVM, seldom used
        from moot.offchain.chain.tester import Tester  # noqa: PLC0415 - likewise

        self._chain = Chain(Tester(ACCOUNTS), None)
        self._arithmetic = arithmetic
        self._contract = deploy_referee(self._chain, self._chain.accounts[0], arithmetic)
        self._mark = self._chain.snapshot()

    def contest(self, shop: Shop, number: int, choices: Sequence[Choice]) -> Contest:
        """Make a game's calls on the contract, and compare what it says, call by call.

        The game is played anew on the model by the shipped players, who remember nothing, with the
        chain's accounts and blocks.

        Args:
            shop: the program, of which the table is drawn again.
            number: the table's.
            choices: the game's.
        """
        from moot.offchain.disputes.referee.on_chain import ChainReferee  # noqa: PLC0415 - likewise

        self._chain.revert(self._mark)
        self._mark = self._chain.snapshot()
        referee = ChainReferee(self._chain, self._contract, 0, self._arithmetic)
        return contest(shop, number, choices, referee, self._chain.accounts)


def contest(
    shop: Shop, number: int, choices: Sequence[Choice], referee: Referee, accounts: Sequence[str]
) -> Contest:
    """Make a game's calls on another referee, on which no job was opened before."""
    place = Place(referee.chain_id, referee.address, referee.block_number(), accounts)
    table = draw_table(shop, number, place)
    world, verdict = replay(table, choices, remembers=False, records=True)
    calls = tuple(world.calls or ())
    return Contest(verdict, calls, _repeat(world, calls, referee))


def _repeat(world: World, calls: Sequence[tuple[int, Call]], referee: Referee) -> str:
    """Make calls in their blocks; return what was first said otherwise, or nothing."""
    checked = CheckedReferee(referee, f"table {world.table.number}")
    checked.watcher.honest[0] = frozenset([world.table.honest])
    for block, group in groupby(calls, key=lambda made: made[0]):
        made = [call for _, call in group]
        missing = block - 1 - checked.block_number()
        if missing < 0:
            return f"block {block} is past: the calls of one block took several"
        if missing:
            checked.mine(missing)
        try:
            answers = checked.transact_all(made)
        except BrokenInvariantError as error:
            return error.message
        for call, answer in zip(made, answers, strict=True):
            if not isinstance(answer, Outcome):
                return f"{call.name} in block {block} is refused: {_explain(answer)}"
    return _compare(world.log, checked.events(0))


def _explain(error: MootError) -> str:
    return error.message


def _compare(log: Sequence[Event], other: Sequence[Event]) -> str:
    """Return the first event that is not the same; nothing if all are."""
    for one, another in zip(log, other, strict=False):
        if one != another:
            return f"{another} was announced instead of {one}"
    return "" if len(log) == len(other) else f"{len(other)} events instead of {len(log)}"
