"""How fast the sides of matches answer, and what they miss, from the log of a referee."""

from collections.abc import Iterable
from dataclasses import dataclass, field

from moot.contracts.model.types import Address, Event, Pair, Position
from moot.contracts.reasons import Ending, Outcome
from moot.offchain.disputes.referee.board import get_pair


@dataclass(slots=True)
class Answers:
    """What one account did in its matches.

    Attributes:
        blocks: of every answer, the blocks from the one in which it became this side's turn; 1
            where it was in the next.
        missed: how often its clock ran out.
        matches: how many it played, and `most_matches` how many of them at once.
    """

    blocks: list[int] = field(default_factory=list)
    missed: int = 0
    matches: int = 0
    most_matches: int = 0

    @property
    def worst(self) -> int:
        """The most blocks that an answer took; 0 without any."""
        return max(self.blocks, default=0)

    @property
    def mean(self) -> float:
        """The blocks that an answer took in the mean."""
        return sum(self.blocks) / max(1, len(self.blocks))


@dataclass(slots=True)
class _Table:
    """Matches that are played: whose turn it is, and since which block."""

    turns: dict[Pair, tuple[int, int]] = field(default_factory=dict)
    found: dict[Address, Answers] = field(default_factory=dict)

    def apply(self, block: int, event: Event) -> None:
        """Note an event of a match."""
        pair = get_pair(event)
        match event.name, event.args[3:]:
            case "MatchStarted", (Position() as position,):
                self._start(pair, position.mover, block)
            case "Moved", (Position() as position, *_) if pair in self.turns:
                mover, since = self.turns[pair]
                self._get(pair, mover).blocks.append(block - since)
                self.turns[pair] = position.mover, block
            case "MatchEnded", (Outcome() as outcome, Ending() as ending, _) if pair in self.turns:
                self._end(pair, outcome, ending, block)

    def _start(self, pair: Pair, mover: int, block: int) -> None:
        self.turns[pair] = mover, block
        for side in (0, 1):
            answers, member = self._get(pair, side), (pair.first, pair.second)[side]
            answers.matches += 1
            now = sum(member in {it.first, it.second} for it in self.turns)
            answers.most_matches = max(answers.most_matches, now)

    def _end(self, pair: Pair, outcome: Outcome, ending: Ending, block: int) -> None:
        mover, since = self.turns[pair]
        if ending is Ending.CLOCK:
            self._get(pair, mover).missed += 1
        elif ending is not Ending.VERIFIER and outcome is not Outcome.NEITHER:
            self._get(pair, outcome.value).blocks.append(block - since)
        losers = {
            member for side, member in enumerate((pair.first, pair.second)) if side != outcome
        }
        for it in [it for it in self.turns if it.job_id == pair.job_id]:
            if not losers.isdisjoint((it.first, it.second)):
                del self.turns[it]

    def _get(self, pair: Pair, side: int) -> Answers:
        return self.found.setdefault((pair.first, pair.second)[side], Answers())


OF_MATCHES = frozenset({"MatchStarted", "Moved", "MatchEnded"})


def list_answers(log: Iterable[tuple[int, Event]]) -> dict[Address, Answers]:
    """Return what every account did in its matches.

    Args:
        log: the events of a referee, in order, each with its block.
    """
    table = _Table()
    for block, event in log:
        if event.name in OF_MATCHES:
            table.apply(block, event)
    return table.found
