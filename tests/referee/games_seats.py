"""The members of each job, drawn from its number, and the counts over all jobs."""

from collections import Counter
from dataclasses import dataclass, field
from random import Random

from moot.contracts.model.types import MIN_BOND_WEI, Address
from moot.offchain.arithmetic.base import Arithmetic
from moot.offchain.arithmetic.ordered import ORDERED
from moot.offchain.disputes.referee.terms import Stakes
from tests.referee.games_stories import HONEST, LIES, SHAPES, Story, make_deck

STAKES = Stakes(MIN_BOND_WEI, 1001, 6, 6, 4, 12, 2)
ACCOUNTS = tuple("0x" + f"{number:02x}" * 20 for number in range(0x21, 0x27))
CLIENT, *MEMBERS = ACCOUNTS
DECK_JOBS = 4_000
"""Jobs that draw from one deck of lies."""
TIRELESS = 1_000
FIRST_JOIN = 2 + STAKES.commit_blocks + STAKES.reveal_blocks
"""The first block in which somebody may join late."""


@dataclass(slots=True)
class Seat:
    """A member: its claim, its way to play, and the time for which it plays.

    Attributes:
        story: what it says.
        patience: how many moves it makes in the job before it falls silent.
        reveals: whether it shows what it has committed to.
        join_block: when it joins, if it comes late.
        moves: how many moves it has made.
    """

    story: Story
    patience: int = TIRELESS
    reveals: bool = True
    join_block: int | None = None
    moves: int = 0

    @property
    def is_silent(self) -> bool:
        """Whether it has stopped moving."""
        return self.moves >= self.patience

    @property
    def is_honest(self) -> bool:
        """Whether it tells the truth to the end."""
        return self.names == (HONEST,)

    @property
    def names(self) -> tuple[str, ...]:
        """All that is wrong with it, if anything is."""
        names = [] if self.story.kind == HONEST else [self.story.kind]
        if not self.reveals:
            names.append("never reveals")
        if self.patience < TIRELESS:
            names.append("falls silent" if self.patience else "never moves")
        return tuple(names) or (HONEST,)


@dataclass(slots=True)
class Tally:
    """The counts over some jobs; `add` adds the counts of other jobs.

    Attributes:
        jobs: jobs opened and closed.
        games: matches played to their verdict.
        duels: those of them in which neither side was honest.
        late: members that joined when claims had been shown.
        calls: accepted calls.
        refused: calls that were refused, as they had to be.
        wrong: what was not as the stories say: verdicts, winners of jobs, payments, durations.
        locked_wei: what was left when all had collected.
        cheats: members by what is wrong with them, the honest among them.
        lost: those of them that lost a match.
        endings: games by what decided them.
        statuses: jobs by how they were closed.
        fingerprint: of all that has happened; the sum of those of the jobs.
    """

    jobs: int = 0
    games: int = 0
    duels: int = 0
    late: int = 0
    calls: int = 0
    refused: int = 0
    wrong: Counter[str] = field(default_factory=Counter)
    locked_wei: int = 0
    cheats: Counter[str] = field(default_factory=Counter)
    lost: Counter[str] = field(default_factory=Counter)
    endings: Counter[str] = field(default_factory=Counter)
    statuses: Counter[str] = field(default_factory=Counter)
    fingerprint: int = 0

    def add(self, other: "Tally") -> None:
        """Add what has come of other jobs."""
        for name in Tally.__slots__:
            setattr(self, name, getattr(self, name) + getattr(other, name))


def draw_seats(rng: Random, deck: dict[str, tuple[Story, ...]], truth: Story) -> list[Seat]:
    """Return the members of a job: one to four liars, and nearly always somebody honest."""
    stories = [rng.choice(deck[kind]) for kind in rng.choices(list(LIES), k=rng.randint(1, 4))]
    seats = [Seat(story) for story in stories]
    if len(seats) < len(MEMBERS) - 1 and rng.random() < 0.1:
        seats.append(Seat(stories[0]))
    if rng.random() < 0.8:
        seats.append(Seat(truth))
    if rng.random() < 0.2:
        rng.choice(seats).patience = rng.randrange(6)
    if rng.random() < 0.1:
        rng.choice(seats).reveals = False
    elif rng.random() < 0.2:
        late = rng.choice(seats)
        late.join_block = FIRST_JOIN + rng.randrange(rng.choice((STAKES.window_blocks, 20)))
        late.story = rng.choice([late, *seats]).story
    rng.shuffle(seats)
    return seats[: len(MEMBERS)]


def seat_members(
    number: int, arithmetic: Arithmetic = ORDERED
) -> tuple[Random, str, dict[Address, Seat]]:
    """Return what is drawn for a job: its chance, its shape and its members."""
    rng = Random(number)
    shape = rng.choice(list(SHAPES))
    deck = make_deck(number // DECK_JOBS, shape, arithmetic)
    seats = draw_seats(rng, deck, Story(HONEST, shape, arithmetic=arithmetic))
    return rng, shape, dict(zip(MEMBERS, seats, strict=False))
