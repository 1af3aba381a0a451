"""Crowds of liars against one provider that has the balance its check asks for, and no wei more.

    python -m tests.parties.crowds --liars 18 32 300 1000 --gwei 5 40 200

The match is played on the model, and the client is silent. What the provider decides is the
shipped code's: whether to join and to go on (`Resources`), what a call is offered and what it
reserves. Each of its calls takes the most gas that is known of its name, at the highest fee.
"""

# ruff: noqa: T201 - a script that prints

import argparse
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from random import Random

from moot.contracts.model.types import MIN_BOND_WEI, ZERO, Address
from moot.contracts.reasons import Standing, Status
from moot.offchain.chain.accounts.budget import calculate_reserve, find_shortage
from moot.offchain.chain.accounts.fees import GWEI, Fees
from moot.offchain.chain.receipts import Address as ChainAddress
from moot.offchain.chain.receipts import Transaction
from moot.offchain.disputes.play.actors import Actor, Player, View
from moot.offchain.disputes.play.arena import ChainView
from moot.offchain.disputes.play.pairing import choose_pairs
from moot.offchain.disputes.play.party import Party
from moot.offchain.disputes.play.tournament import Tournament, order_pair
from moot.offchain.disputes.referee.board import Board
from moot.offchain.disputes.referee.crowds import Pace, calculate_least_clock, count_calls
from moot.offchain.disputes.referee.gas import MOST_GAS, calculate_gas_limit
from moot.offchain.disputes.referee.port import Answer, Call, ModelReferee
from moot.offchain.disputes.referee.terms import Stakes, make_terms
from moot.offchain.errors import TransactionRefused
from moot.offchain.parties.context import Deputy, StandIn
from moot.offchain.parties.resources import Resources, make_stand
from moot.offchain.parties.settings import Settings
from moot.sim.synthetic.products import FIRST_PRODUCT, Lie, ProductRun, Size, make_task

SIZE = Size(checkpoints=16, operators=8, rows=8, columns=16, terms=16)
SALT = b"\x5a" * 32
LONG = b"\x01" * 4_096
"""Calldata longer than any call of a match was measured with."""
BLOCK_GAS = 30_000_000
INCREMENT_BLOCKS = 4
FAR = 10**4


class Charged(ModelReferee):
    """The model, at which one account pays for gas as on a chain, and can't pay more than it has.

    Args:
        balances_wei: by account.
        payer: who pays.
        price_wei: what a unit of gas costs.
    """

    def __init__(self, balances_wei: dict[Address, int], payer: Address, price_wei: int) -> None:
        super().__init__(balances_wei)
        self.payer, self.price_wei = payer, price_wei
        self.gas = self.shortages = 0

    def transact_all(self, calls: Sequence[Call]) -> list[Answer]:
        """Make calls in one block; what the payer can't reserve is refused by its sender."""
        kept: list[Call] = []
        refused: dict[int, Answer] = {}
        reserves: list[int] = []
        for number, call in enumerate(calls):
            reserve_wei = self._reserve(call) if call.sender == self.payer else 0
            if reserve_wei and find_shortage(self.balance(self.payer), [*reserves, reserve_wei]):
                refused[number] = TransactionRefused(call.name, "fund it")
                self.shortages += 1
                continue
            reserves += [reserve_wei] if reserve_wei else []
            kept.append(call)
        made = iter(super().transact_all(kept))
        for call in kept:
            if call.sender == self.payer:
                self.gas += MOST_GAS[call.name]
                self._balances[self.payer] -= MOST_GAS[call.name] * self.price_wei
        return [refused[it] if it in refused else next(made) for it in range(len(calls))]

    def _reserve(self, call: Call) -> int:
        sender, gas_limit = ChainAddress(call.sender), calculate_gas_limit(call.name, LONG)
        offered = Transaction(1, call.name, sender, None, b"", call.value_wei, gas_limit)
        return calculate_reserve(offered, Fees(self.price_wei, GWEI))


@dataclass(frozen=True, slots=True)
class Waiting(Player):
    """A liar that answers so many blocks before its clock runs out."""

    spare_blocks: int = FAR

    def move(self, view: View, board: Board) -> Call | None:
        """Move, but not too early, and call nobody late."""
        left = board.position.deadline - view.block
        is_time = 0 <= left <= self.spare_blocks
        return super(Waiting, self).move(view, board) if is_time else None


@dataclass(frozen=True, slots=True)
class Opener(Actor):
    """A liar that begins all matches with its rival that may begin, in one block."""

    rival: Address = ""

    def manage(self, view: View) -> Iterator[Call]:
        """Begin them."""
        tournament = view.tournament
        meeting = tournament.meetings.get(tournament.contenders.get(self.rival, ZERO))
        others = tournament.get_claims().get(meeting.rival, []) if meeting else []
        pairs = [order_pair(tournament.job_id, self.rival, other) for other in others]
        for pair in dict.fromkeys([*pairs, *choose_pairs(tournament, view.block)]):
            if self.rival in {pair.first, pair.second} and pair not in tournament.boards:
                yield self.call("start_match", *tournament.name_match(pair))


@dataclass(frozen=True, slots=True)
class Case:
    """A crowd: how many liars behind how many claims, at which fee, and whether all at once."""

    liars: int
    gwei: int
    is_at_once: bool
    roots: int = 1


@dataclass(frozen=True, slots=True)
class Result:
    """How a crowd ended: whether the provider won and was never short, and what it had and spent.

    `least_wei` is the least that its account ever held.
    """

    has_won: bool
    shortages: int
    asked_wei: int
    least_wei: int
    gas: int
    blocks: int


def play(case: Case, *, missing_wei: int = 0, feared: int = 0) -> Result | str:
    """Play a crowd to its end, or return why the provider did not join.

    Args:
        case: the crowd.
        missing_wei: what the account has less than the check asks for.
        feared: the crowd of its settings, if that is another.
    """
    crowd = feared or case.liars
    resources = Resources(Settings(crowd=crowd, max_fee_gwei=float(case.gwei)))
    pace = Pace(count_calls(BLOCK_GAS))
    clock = calculate_least_clock(case.liars, INCREMENT_BLOCKS, pace)
    stakes = Stakes(bond_wei=MIN_BOND_WEI, reward_wei=0, clock_blocks=clock, window_blocks=20)
    task = make_task(SIZE)
    terms = make_terms(task, stakes)
    asked_wei = terms.bond_wei + resources.crowd_wei - missing_wei
    problem = resources.find_obstacle(asked_wei, terms)
    if problem:
        return problem
    rng = Random(case.liars)
    honest, client, *accounts = (
        f"0x{number:040x}" for number in rng.sample(range(1, 1 << 30), case.liars + 2)
    )
    rich = dict.fromkeys([client, *accounts], 10**24)
    referee = Charged(rich | {honest: asked_wei}, honest, case.gwei * GWEI)
    referee.transact("open_job", terms, sender=client, value_wei=stakes.reward_wei)
    resources.take(0, 0, terms.bond_wei)
    lies = [Lie(6, FIRST_PRODUCT + 1, 77, 5, 1 << root) for root in range(case.roots)]
    runs = [ProductRun(task, lie) for lie in lies]
    waits = [FAR if case.is_at_once else rng.randrange(clock + 1) for _ in accounts]
    liars = [
        Waiting(f"liar-{n}", address, runs[n % case.roots], SALT, waits[n])
        for n, address in enumerate(accounts)
    ]
    others = [Opener("opener", accounts[0], honest)] if case.is_at_once else []
    member = Player("honest", honest, ProductRun(task), SALT)
    party = StandIn([member], [Deputy("honest", honest, (member,))], patience_blocks=4)
    table = _Table(referee, ChainView(referee, Tournament(0, terms)), resources, party)
    return table.play(Party(liars, others, joins_at_once=True), asked_wei)


@dataclass
class _Table:
    """A job with a provider that decides as a daemon does."""

    referee: Charged
    view: ChainView
    resources: Resources
    party: Party

    def play(self, crowd: Party, asked_wei: int) -> Result:
        """Let both sides act in every block, the crowd first, until the provider is paid."""
        referee, share = self.referee, count_calls(BLOCK_GAS)
        least_wei, has_won = asked_wei, False
        while True:
            view = self.view.look()
            own = referee.member(0, referee.payer).standing
            has_won |= view.job.status is Status.WON and own is Standing.REVEALED
            if own in {Standing.PAID, Standing.DEFEATED} or view.block > FAR:
                break
            calls = list(islice(self.party.act(view), share)) if self._may_pay() else []
            referee.transact_all([*crowd.act(view), *calls])
            self._note(calls)
            least_wei = min(least_wei, referee.balance(referee.payer))
        blocks = referee.block_number() - self.view.job.reveal_deadline
        return Result(has_won, referee.shortages, asked_wei, least_wei, referee.gas, blocks)

    def _may_pay(self) -> bool:
        address, job = self.referee.payer, self.view.job
        member = self.referee.member(0, address)
        if job.status is not Status.OPEN or member.standing is Standing.NONE:
            return True
        stand = make_stand(address, job, member, self.view.tournament)
        return self.resources.may_go_on(stand, self.referee.price_wei)

    def _note(self, calls: Sequence[Call]) -> None:
        for call in calls:
            self.resources.note(0, call, MOST_GAS[call.name], self.referee.price_wei)


def main() -> None:
    """Play crowds, and print a row for each."""
    parser = argparse.ArgumentParser(prog="python -m tests.parties.crowds", description=__doc__)
    parser.add_argument("--liars", type=int, nargs="+", default=[18, 32, 300, 1_000])
    parser.add_argument("--gwei", type=int, nargs="+", default=[5, 40, 200])
    parser.add_argument("--roots", type=int, nargs="+", default=[1])
    chosen = parser.parse_args()
    print("| liars | claims | gwei | matches | asked, ETH | spent, ETH | gas, M | blocks | won |")
    print("|---|---|---|---|---|---|---|---|---|")
    for roots in chosen.roots:
        for liars in chosen.liars:
            for gwei in chosen.gwei:
                for at_once in (True, False):
                    _show(replace(Case(liars, gwei, at_once), roots=roots))


def _show(case: Case) -> None:
    found = play(case)
    assert isinstance(found, Result)
    spent = found.gas * case.gwei * GWEI
    matches = "at once" if case.is_at_once else "spread"
    ending = "yes" if found.has_won and not found.shortages else "no"
    print(
        f"| {case.liars} | {case.roots} | {case.gwei} | {matches}"
        f" | {found.asked_wei / 10**18:.2f} | {spent / 10**18:.2f} | {found.gas / 10**6:.1f}"
        f" | {found.blocks} | {ending} |",
        flush=True,
    )


if __name__ == "__main__":
    main()
