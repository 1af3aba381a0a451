"""Tables: a job of a real program, an honest provider, and the accounts of an adversary.

All that is the same in every game of a search's part is drawn here from the part's seed: clocks,
who has which address, who is the client, what the adversary can claim, and how the honest provider
acts for itself (alone at a table, or as the shipped provider that leaves the client some time).
"""

from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from functools import cached_property
from itertools import islice
from pathlib import Path
from random import Random

from moot.contracts.model.step_invariants import count_moves
from moot.contracts.model.types import FOLD_ARITY, Address, Terms
from moot.offchain.commitments.tensors import get_chunk_count
from moot.offchain.commitments.tree import Digest, get_height
from moot.offchain.disputes.play.actors import Client
from moot.offchain.disputes.play.party import Party
from moot.offchain.disputes.referee.port import ModelReferee
from moot.offchain.disputes.referee.terms import Stakes, make_terms
from moot.offchain.parties.context import Deputy, StandIn
from moot.offchain.providers.agreement import make_task
from moot.offchain.providers.behaviour import Behaviour
from moot.offchain.providers.run import Run
from moot.offchain.providers.setting import Setting
from moot.offchain.providers.store import Store
from moot.offchain.providers.task import Task
from moot.sim.adversary.memory import Memory, Recalling
from moot.sim.adversary.scripts import Claim, Script, draw_claims
from moot.sim.scratch import open_scratch

BOND_WEI, REWARD_WEI = 10**18, 10**17
MOST_ACCOUNTS = 3
"""An adversary has one to so many accounts, besides the client's where that is its own."""
LENGTHS = ((4, 2), (4, 1), (1, 1), (5, 3))
"""Steps of a job, and steps from one checkpoint to the next."""
WRONG, SCRIPTS = 3, 8
"""Wrong histories of a table, and ways to defend each of them."""
_ROUND_BITS = FOLD_ARITY.bit_length() - 1
PATIENCE = 4
"""Blocks that a shipped provider leaves the client to begin matches and to settle."""


@dataclass(frozen=True, slots=True)
class Place:
    """Where games are played: a chain, a referee on it, its latest block, accounts with money."""

    chain_id: int
    referee: Address
    block: int
    accounts: Sequence[Address]


NOWHERE = Place(
    1, "0x" + "00" * 18 + "4d07", 0, tuple(f"0x{number:040x}" for number in range(1, 9))
)
"""Where games on the model are played."""


@dataclass
class Shop:
    """A program that was captured once, and honest runs of it, of every length that tables have.

    Attributes:
        program: an example by its name, or a file of the user's.
        size: of an example.
    """

    program: str = "mlp"
    size: str = "tiny"
    _runs: dict[tuple[int, int], Run] = field(default_factory=dict)
    _stack: ExitStack = field(default_factory=ExitStack)

    def run(self, steps: int, every: int) -> Run:
        """Return an honest run of a length."""
        if (steps, every) not in self._runs:
            task = self._make_task(steps, every)
            folder = Path(self._stack.enter_context(open_scratch(task, 1)))
            run = Run(task, Behaviour(), Store(folder / "run"))
            run.compute()
            self._runs[steps, every] = run
        return self._runs[steps, every]

    def _make_task(self, steps: int, every: int) -> Task:
        captured = self._captured
        return Task(captured.program, captured.initial_state, captured.batch, steps, every)

    @cached_property
    def _captured(self) -> Task:
        return make_task(Setting(self.program, self.size, steps=1, checkpoint_every=1))

    def close(self) -> None:
        """Take away what was run."""
        self._runs.clear()
        self._stack.close()


@dataclass(frozen=True)
class Table:
    """A job, its honest provider, and what an adversary has.

    Attributes:
        number: the seed from which it is drawn.
        run: the honest run.
        terms: of the job.
        honest: the honest provider's account.
        client: whoever opens the job and pays for it.
        accounts: the adversary's, of which `client` is none.
        is_shill: whether the client is the adversary's, too.
        held: for how many blocks of a game the adversary can keep the honest provider's calls out.
        patience: of a shipped provider, in blocks; None for a player at its own table.
        claims: what the adversary can claim.
        place: where it is played.
        memory: what players have computed, for all games of the table.
    """

    number: int
    run: Run
    terms: Terms
    honest: Address
    client: Address
    accounts: tuple[Address, ...]
    is_shill: bool
    held: int
    patience: int | None
    claims: tuple[Claim, ...]
    place: Place
    memory: Memory = field(default_factory=Memory)

    def open(self) -> ModelReferee:
        """Return the referee's model as it is before the job is opened."""
        balances = dict.fromkeys(self.place.accounts, 10**24)
        referee = ModelReferee(balances, self.place.chain_id, self.run.task.program.arithmetic)
        referee.store.address = self.place.referee
        referee.mine(self.place.block)
        return referee

    def seat(self, *, remembers: bool = True) -> Party:
        """Return the honest provider; one that remembers computes each of its moves once."""
        salt = Random(self.number).randbytes(32)  # noqa: S311 - not a secret
        member = Recalling("honest", self.honest, self.testimony, salt)
        if remembers:
            member = Recalling("honest", self.honest, self.testimony, salt, self.memory)
        if self.patience is None:
            return Party([member], [Client("honest", self.honest, [member])])
        deputy = Deputy("honest", self.honest, (member,))
        return StandIn([member], [deputy], patience_blocks=self.patience)

    @cached_property
    def names(self) -> dict[int, Address]:
        """The accounts by their places: -1 is the honest provider's."""
        return dict(enumerate((self.honest, *self.accounts), -1))

    @cached_property
    def places(self) -> dict[Address, int]:
        """The places of accounts."""
        return {account: place for place, account in self.names.items()}

    @cached_property
    def ranks(self) -> dict[Address, int]:
        """The numbers of accounts, by which sides of a match are ordered."""
        return {account: int(account, 16) for account in self.places}

    @cached_property
    def testimony(self) -> Script:
        """The honest run, with its history at hand."""
        return Script(self.run, "the truth", self.run.history)

    @cached_property
    def top(self) -> Digest:
        """The right claim."""
        return self.testimony.history.top

    @cached_property
    def most_moves(self) -> int:
        """The most moves of a match about the program."""
        nodes = [node for node in self.run.task.program.nodes if node.elements]
        chunks = max(get_chunk_count(node.dtype, node.elements) for node in nodes)
        longest = max((node.fold_length for node in nodes if node.kind.folds), default=0)
        rounds = max(1, -(-max(longest - 1, 0).bit_length() // _ROUND_BITS)) + 1
        return count_moves(self.terms, get_height(chunks), rounds)

    @property
    def reward_wei(self) -> int:
        """What the client pays for the job."""
        return REWARD_WEI

    def name_account(self, account: Address) -> str:
        """Return what an account is called in what is told of a game."""
        if account in self.accounts:
            return f"account-{self.accounts.index(account) + 1}"
        return "honest" if account == self.honest else "client"

    @cached_property
    def tops(self) -> dict[str, Claim]:
        """The adversary's claims by their names."""
        return {claim.name: claim for claim in self.claims}


def draw_table(shop: Shop, number: int, place: Place = NOWHERE) -> Table:
    """Return the table of a number; where it is played changes addresses and blocks alone."""
    random = Random(f"table {number}")  # noqa: S311 - not a secret
    run = shop.run(*random.choice(LENGTHS))
    clock = random.choice((3, 6, 12))
    stakes = Stakes(
        bond_wei=BOND_WEI,
        reward_wei=REWARD_WEI,
        commit_blocks=random.choice((2, 3)),
        reveal_blocks=random.choice((2, 3)),
        window_blocks=random.choice((3, 8)),
        clock_blocks=clock,
        increment_blocks=random.choice((1, 2)),
    )
    accounts = iter(_shuffle(place.accounts, random))
    honest, client = next(accounts), next(accounts)
    own = tuple(islice(accounts, random.randint(1, MOST_ACCOUNTS)))
    return Table(
        number=number,
        run=run,
        terms=make_terms(run.task, stakes),
        honest=honest,
        client=client,
        accounts=own,
        is_shill=random.random() < 0.3,
        held=random.choice((0, 0, 1, clock // 2)),
        patience=random.choice((None, PATIENCE)),
        claims=draw_claims(run, random, WRONG, SCRIPTS),
        place=place,
    )


def _shuffle(accounts: Sequence[Address], random: Random) -> Iterator[Address]:
    """Yield the first accounts in a drawn order, which is one of their addresses' ranks."""
    ranked = sorted(accounts, key=lambda account: int(account, 16))[: 2 + MOST_ACCOUNTS]
    yield from random.sample(ranked, len(ranked))
