"""The judge of a game that is over: from its log alone, by the rules, and not by the model's books.

What the honest provider is owed follows from who has shown which claim and how each match ended;
what an adversary may have at most is what it would have had without a lie, less half a bond for
each wrong claim. A referee that pays otherwise is found out whatever it remembers.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from moot.contracts.model.types import PRIZE_DIVISOR, Address, Event, Terms
from moot.contracts.reasons import Outcome, Status
from moot.offchain.commitments.tree import Digest
from moot.sim.adversary.tables import Table
from moot.sim.adversary.world import World


class Rule(StrEnum):
    """The promises to an honest provider, each of which a game may break."""

    CLAIM = "the right claim wins"
    BOND = "the honest provider has its bond, its prizes and its share of the reward"
    PROFIT = "the adversary has no more than honest accounts would have"
    TIME = "the job is over when the rules say"
    MOVES = "the honest provider's calls are taken, unless somebody was faster"


@dataclass(frozen=True, slots=True)
class Verdict:
    """What a game has come to.

    Attributes:
        broken: the promises that were not kept.
        honest_wei: what the honest provider has gained, and what it is owed by the rules.
        adversary_wei: what the adversary has gained, and what it may have at most.
        blocks: from the job's opening to its end, and how many it may take.
        refused: why a call of the honest provider was refused, if one was.
    """

    broken: tuple[Rule, ...]
    honest_wei: tuple[int, int]
    adversary_wei: tuple[int, int]
    blocks: tuple[int, int]
    refused: str = ""


@dataclass(frozen=True, slots=True)
class _Books:
    """What a log says of a job."""

    tops: dict[Address, Digest]
    late: frozenset[Address]
    defeated: frozenset[Address]
    prizes: Counter[Address]
    paid_in: Counter[Address]
    paid_out: Counter[Address]
    settled: tuple[Status, Digest] | None


def read_log(log: Sequence[Event], terms: Terms) -> _Books:
    """Return what a job's log says of its members."""
    tops: dict[Address, Digest] = {}
    committed, late, defeated = set[Address](), set[Address](), set[Address]()
    prizes, paid_in, paid_out = Counter[Address](), Counter[Address](), Counter[Address]()
    settled = None
    for event in log:
        match event.name, event.args[1:]:
            case "Committed", (str(account),):
                committed.add(account)
                paid_in[account] += terms.bond_wei
            case "Claimed", (str(account), bytes(top)):
                tops[account] = top
                if account not in committed:
                    late.add(account)
                    paid_in[account] += terms.bond_wei
            case "MatchEnded", (str(first), str(second), Outcome() as outcome, *_):
                members = (first, second)
                defeated |= {it for side, it in enumerate(members) if side != outcome}
                if outcome < len(members):
                    prizes[members[outcome]] += 1
            case "Settled", (Status() as status, bytes(top)):
                settled = status, top
            case "Collected", (str(account), int(amount)):
                paid_out[account] += amount
    return _Books(tops, frozenset(late), frozenset(defeated), prizes, paid_in, paid_out, settled)


def judge(world: World, last_block: int) -> Verdict:
    """Judge a game.

    Args:
        world: the game, after everybody has collected.
        last_block: the block in which the job was closed, or in which it was given up.
    """
    table = world.table
    terms, right = table.terms, table.top
    books = read_log(world.log, terms)
    honest = books.paid_out[table.honest] - books.paid_in[table.honest]
    sharers = [
        account
        for account, top in books.tops.items()
        if top == right and account not in books.late and account not in books.defeated
    ]
    share = table.reward_wei // len(sharers) if sharers else 0
    due = books.prizes[table.honest] * _get_prize(terms) + share
    gained = _sum_adversary(table, books)
    allowed = _bound_adversary(table, books, sharers, share)
    blocks = last_block - world.opened_block
    bound = bound_blocks(table, len(books.tops.keys() - {table.honest}))
    broken = [
        rule
        for rule, is_kept in (
            (Rule.CLAIM, books.settled == (Status.WON, right)),
            (Rule.BOND, honest == due and table.honest not in books.defeated),
            (Rule.PROFIT, gained <= allowed),
            (Rule.TIME, blocks <= bound),
            (Rule.MOVES, not world.refused),
        )
        if not is_kept
    ]
    return Verdict(tuple(broken), (honest, due), (gained, allowed), (blocks, bound), world.refused)


def _sum_adversary(table: Table, books: _Books) -> int:
    """Return what all of the adversary's accounts have gained."""
    accounts = {*table.accounts, *([table.client] if table.is_shill else [])}
    gained = sum(books.paid_out[it] - books.paid_in[it] for it in accounts)
    return gained - table.is_shill * table.reward_wei


def _bound_adversary(table: Table, books: _Books, sharers: Sequence[Address], share: int) -> int:
    """Return what the adversary may have gained: its shares, less half a bond for each lie.

    A bond that nobody shows a claim for is lost whole.
    """
    terms, right = table.terms, table.top
    allowed = share * sum(account in sharers for account in table.accounts)
    for account in table.accounts:
        if account in books.tops:
            is_right = books.tops[account] == right
            allowed -= 0 if is_right else terms.bond_wei - _get_prize(terms)
        else:
            allowed -= books.paid_in[account]
    return allowed - table.is_shill * table.reward_wei


def _get_prize(terms: Terms) -> int:
    """Return the prize of a match: what the rules say, and not what the model makes of them."""
    return terms.bond_wei // PRIZE_DIVISOR


def bound_blocks(table: Table, crowd: int) -> int:
    """Return the blocks that a job takes at most in which so many others show a claim.

    Each of the rounds that a provider reckons with (`bound_locked_blocks`) is a window and a match,
    which has two clocks and an increment a move. It needs a block to answer, and may leave others
    twice its patience to begin matches and to settle.
    """
    terms, patience = table.terms, 1 + 2 * (table.patience or 0)
    match_blocks = 2 * terms.clock_blocks + terms.increment_blocks * table.most_moves + 2
    windows = terms.commit_blocks + terms.reveal_blocks + terms.window_blocks
    blocks = windows + crowd.bit_length() * (terms.window_blocks + match_blocks + patience)
    return blocks + patience + table.held + 1
