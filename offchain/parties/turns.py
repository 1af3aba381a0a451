"""The turns of a party that lives: it looks at the chain, acts, sends, and waits for a block.

What there is to do is the planner's (`offchain/disputes/play/party.py`); this adds the time.
"""

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from hashlib import sha256

from moot.contracts.reasons import Reason, Status
from moot.offchain.chain.answers import clean
from moot.offchain.chain.head import Head
from moot.offchain.disputes.play.arena import ChainView, Made
from moot.offchain.disputes.play.game import is_overtaken
from moot.offchain.disputes.play.party import Party
from moot.offchain.disputes.referee.crowds import count_calls
from moot.offchain.disputes.referee.port import Call, Outcome
from moot.offchain.errors import ChainError, ChainUnavailable, MootError, RefereeError, Reverted
from moot.offchain.parties.context import PartyContext
from moot.offchain.parties.events import Tell

PATIENCE_S = 60.0
RETRY_S = 1.0
FAR_BLOCKS = 1 << 32
"""Where nothing of one's own ends, anything else is more urgent."""

CONTRADICTIONS = (
    *(ArithmeticError, AssertionError, AttributeError, LookupError, TypeError, ValueError),
)
"""What comes of a plan about a job of which a node has told what cannot be."""

MOST_WAIT_BLOCKS = 16
"""What could not be had is asked for again after 1, 2, 4 and so on blocks, but never later."""
_REASONS = frozenset(Reason)

PREMATURE = frozenset({Reason.TOO_EARLY, Reason.CLOCK_RUNNING})
"""Why a call is refused that is due later: its block came, after all, before what it waits for."""


@dataclass
class Seat:
    """A party at a job's table.

    Attributes:
        view: what the chain shows of the job.
        party: who acts.
        refused: what was refused for a reason that stays on this chain, and is not to be paid for
            again, and `returns` how often the chain had been replaced by then.
        failed: what has failed for a reason that the referee does not give, how often, and the
            block from which on it is made again.
        problem: why the party could not say what to do, as it was told last.
    """

    view: ChainView
    party: Party
    refused: set[str] = field(default_factory=set)
    failed: dict[str, tuple[int, int]] = field(default_factory=dict)
    returns: int = 0
    problem: str = ""

    @property
    def job_id(self) -> int:
        """The job's number."""
        return self.view.tournament.job_id

    def forget_refusals(self, returns: int) -> None:
        """Forget what was refused on a chain that has been replaced since."""
        if returns != self.returns:
            self.refused.clear()
            self.failed.clear()
            self.returns = returns

    def is_to_be_made(self, call: Call) -> bool:
        """Whether a call is made now for which there is a reason."""
        name = _name(call)
        _, block = self.failed.get(name, (0, 0))
        return name not in self.refused and self.view.block >= block

    def note_refusal(self, call: Call, reason: str) -> None:
        """See to it that a call is not made again, or not before the chain may have changed.

        What the referee refuses is refused for good. Any other failure is none of its words: the
        gas was not enough, or a node does not tell why. It is tried again after 1, 2, 4 and so on
        blocks, since a clock may run out meanwhile.
        """
        name = _name(call)
        if reason in _REASONS:
            self.refused.add(name)
            return
        tries, _ = self.failed.get(name, (0, 0))
        self.failed[name] = tries + 1, self.view.block + min(2**tries, MOST_WAIT_BLOCKS)

    def get_deadline(self) -> int:
        """Return the block in which something of the party's own ends soonest."""
        view, own = self.view, {member.address for member in self.party.members}
        clocks = [
            board.position.deadline
            for pair, board in view.tournament.boards.items()
            if not own.isdisjoint((pair.first, pair.second))
        ]
        ends = [*clocks, view.job.commit_deadline, view.job.reveal_deadline]
        return min((end for end in ends if end >= view.block), default=view.block + FAR_BLOCKS)


class Outages:
    """The failures of a node or a disk, which are waited for: each is told once.

    Args:
        tell: takes events.
    """

    def __init__(self, tell: Tell) -> None:
        self._tell, self._told = tell, ""

    def wait(self, error: MootError) -> None:
        """Say what has failed, unless that was said last, and wait until it may be tried again."""
        if str(error) != self._told:
            event = "unavailable" if isinstance(error, ChainUnavailable) else "failed"
            self._tell(event, str(error))
        self._told = str(error)
        time.sleep(RETRY_S)

    def end(self) -> None:
        """Note that nothing fails any more."""
        self._told = ""


def see(context: PartyContext, seat: Seat) -> bool:
    """Read what has happened at a table; False where what the node tells contradicts itself.

    All is then read anew with the next look, of another node if there is one.
    """
    try:
        seat.view.look()
    except CONTRADICTIONS as error:
        _doubt(context, seat, error)
        return False
    return True


def _doubt(context: PartyContext, seat: Seat, error: Exception) -> None:
    """Believe nothing of what the node has told of a job."""
    cause = error.__cause__ or error
    what = f"{type(cause).__name__} {cause}".strip()
    problem = f"what it tells of job {seat.job_id} cannot be ({clean(what)})"
    tell_failure(context, seat, context.referee.distrust(problem))


def tell_failure(context: PartyContext, seat: Seat, error: MootError) -> None:
    """Say why there is nothing to do in a job for now, unless that was said last."""
    if str(error) != seat.problem:
        context.tell("failed", f"job {seat.job_id}: {error}", job=seat.job_id)
    seat.problem = str(error)


def take_turns(context: PartyContext, seats: Sequence[Seat]) -> list[tuple[Seat, Made]]:
    """Let parties do at once what there is to do in all jobs, the most urgent first.

    The views are those of this look. As much is sent as one's share of a block has room for.
    Planning takes a block's time at most: what it has not come to is planned at the next look,
    after what is more urgent by then.
    """
    share = count_calls(context.referee.block_gas())
    end = time.monotonic() + context.settings.block_seconds
    planned: list[tuple[Seat, Call]] = []
    for seat in sorted(seats, key=Seat.get_deadline):
        seat.forget_refusals(context.referee.returns)
        for call in _list_calls(context, seat):
            if seat.is_to_be_made(call):
                planned.append((seat, call))
            if len(planned) >= share or time.monotonic() > end:
                break
        if planned and (len(planned) >= share or time.monotonic() > end):
            break
    if not planned:
        return []
    answers = context.referee.transact_all([call for _, call in planned])
    return [
        (seat, Made(call, answer)) for (seat, call), answer in zip(planned, answers, strict=True)
    ]


def _list_calls(context: PartyContext, seat: Seat) -> Iterator[Call]:
    """Yield what there is to do in a job; a disk or a run that fails concerns that job alone."""
    try:
        yield from seat.party.act(seat.view)
    except ChainError:
        raise
    except MootError as error:
        tell_failure(context, seat, error)
    except CONTRADICTIONS as error:
        _doubt(context, seat, error)


def note_refusal(seat: Seat, made: Made) -> None:
    """See to it that a call which was refused for a reason that stays is not made again."""
    answer = made.answer
    if isinstance(answer, RefereeError | Reverted) and not is_passing(answer):
        seat.note_refusal(made.call, answer.reason)


def is_passing(answer: RefereeError | ChainError) -> bool:
    """Whether a refused call was overtaken, or came too early: what is due then shows a look."""
    is_early = isinstance(answer, RefereeError | Reverted) and answer.reason in PREMATURE
    return is_early or is_overtaken(answer)


def tell_made(context: PartyContext, seat: Seat, made: Made) -> None:
    """Tell of a call, and of what came of it."""
    name, is_made = made.call.name, isinstance(made.answer, Outcome)
    result = "made" if is_made else f"refused: {made.answer}"
    line = f"job {seat.job_id}: {name} {result}"
    context.tell("call", line, job=seat.job_id, call=name, accepted=is_made)


def play(
    context: PartyContext,
    view: ChainView,
    party: Party,
    each_block: Callable[[], None] | None = None,
) -> None:
    """Play a job to its end, which is when it is closed and there is nothing to collect.

    Args:
        context: where the party works.
        view: what the chain shows of the job.
        party: who acts.
        each_block: what else is done once a block.

    Raises:
        RefereeError, ChainError: a call was refused for which there should have been a reason.
    """
    seat, head, outages = Seat(view, party), Head(context.chain), Outages(context.tell)
    while True:
        turn: list[tuple[Seat, Made]] = []
        try:
            context.referee.look()
            if see(context, seat):
                turn = take_turns(context, [seat])
                if each_block is not None:
                    each_block()
                if not turn and view.job.status is not Status.OPEN:
                    return
            context.chain.tend()
            outages.end()
        except ChainError as error:
            outages.wait(error)
        for _, made in turn:
            tell_made(context, seat, made)
            if not isinstance(made.answer, Outcome) and not is_passing(made.answer):
                raise made.answer
        try:
            await_block(context, head, is_eager=bool(view.tournament.boards))
        except ChainError as error:
            outages.wait(error)


def await_block(context: PartyContext, head: Head, *, is_eager: bool) -> None:
    """Wait for the next block, and say so if there is none for long."""
    if head.follow(PATIENCE_S, is_eager=is_eager) is None:
        line = f"no block has come after block {head.number} for {PATIENCE_S:.0f} s"
        context.tell("stalled", line, block=head.number)


def _name(call: Call) -> str:
    """Return what tells a call from another."""
    return sha256(repr((call.name, call.sender, call.args)).encode()).hexdigest()
