"""A case that is played: who takes part in a game, all that is called in it, and its judgement."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from moot.contracts.model.checks import get_member
from moot.contracts.model.types import Address, Job, Member, Store, copy_store
from moot.contracts.reasons import Standing, Status
from moot.offchain.disputes.play.game import Game
from moot.offchain.disputes.referee.port import Answer, Call, Outcome
from moot.offchain.disputes.referee.stages import get_stage
from moot.sim.checked_referee import CheckedReferee
from moot.sim.economy.cases import Case, Move, Seat
from moot.sim.economy.casting import Party
from moot.sim.economy.gas import Effect, Kind, classify, find_effect
from moot.sim.relay import Relay, read_cost


class Recorder(Relay):
    """A relay that writes down every call, and how a job stands when it is closed.

    Args:
        checked: the referee.
        job_id: the job that will be played next.

    Attributes:
        made: all calls, with the blocks that they were in and what came of them.
        kinds: the kind of each, as the table of gas knows it.
        closed: what the referee remembered when the job was closed, and nobody paid yet.
    """

    def __init__(self, checked: CheckedReferee, job_id: int) -> None:
        super().__init__(checked)
        self._checked = checked
        self.job_id = job_id
        self.made: list[tuple[int, Call, Answer]] = []
        self.kinds: list[Kind] = []
        self.closed: Store | None = None

    @property
    def burned_wei(self) -> int:
        """What the rules have burned in all jobs so far."""
        return self._checked.store.burned_wei

    def transact_all(self, calls: Sequence[Call]) -> list[Answer]:
        """Make calls, and write them down."""
        effects: list[Effect] = []
        self._checked.on_step = lambda step: effects.append(find_effect(step))
        answers = self.referee.transact_all(calls)
        block, store = self.referee.block_number(), self._checked.store
        accepted = iter(effects)
        for call, answer in zip(calls, answers, strict=True):
            self.made.append((block, call, answer))
            self.kinds.append(classify(call, next(accepted) if _is_accepted(answer) else None))
        if self.closed is None and store.jobs[self.job_id].status is not Status.OPEN:
            self.closed = copy_store(store)
        return answers


@dataclass(frozen=True, slots=True)
class PlayedCase:
    """A case that was played to its end.

    Attributes:
        parties: who took part, in the order of the lineup.
        recorder: all calls, and the referee's memory.
        game: the game, which is over.
        answer: the key of the claim of an honest run.
        label: what it was about, in errors.
        changes_wei: of the balances of all who took part, and of the referee's own.
        burned_wei: what the rules have burned.
    """

    parties: Sequence[Party]
    recorder: Recorder
    game: Game
    answer: bytes
    label: str
    changes_wei: Mapping[Address, int]
    burned_wei: int

    @property
    def status(self) -> Status:
        """How the job was closed."""
        assert self.recorder.closed is not None, "a game ends when its job is closed"
        return self.recorder.closed.jobs[self.recorder.job_id].status

    def read_gas(self) -> list[int]:
        """Return the gas of each call, from its receipt."""
        return [read_cost(answer)[0] for _, _, answer in self.recorder.made]

    def judge(self, gases: Sequence[int]) -> Case:
        """Return what the case has come to, if its calls have used so much gas each."""
        store, job_id, made = self.recorder.closed, self.recorder.job_id, self.recorder.made
        assert store is not None, "a game ends when its job is closed"
        job = store.jobs[job_id]
        spent: Counter[Address] = Counter()
        for (_, call, _), gas in zip(made, gases, strict=True):
            spent[call.sender] += gas
        seats = tuple(self._judge_party(party, store, job, spent) for party in self.parties)
        members = [
            get_member(store, job_id, p.address) for party in self.parties for p in party.players
        ]
        winners = [it for it in members if job.status is Status.WON and it.is_contender]
        sharers = sum(seat.shares for seat in seats)
        is_void = job.status is Status.VOID
        first, last = made[0][0], made[-1][0]
        return Case(
            seats=seats,
            outcome=self._name_outcome(winners),
            sharers=sharers,
            defeated=0 if is_void else job.defeated,
            forfeits=0 if is_void else job.forfeits,
            hidden=0 if is_void else job.hidden,
            is_disputed=bool(self.game.ended),
            blocks=last - first + 1,
            client_gas=spent.total() - sum(seat.gas for seat in seats),
            moves=tuple(
                Move(block - first, get_stage(call), call.player, call.name, gas)
                for (block, call, answer), gas in zip(made, gases, strict=True)
                if _is_accepted(answer)
            ),
        )

    def _name_outcome(self, winners: Sequence[Member]) -> str:
        if not winners:
            return "void"
        return "right" if winners[0].key == self.answer else "wrong"

    def _judge_party(
        self, party: Party, store: Store, job: Job, spent: Mapping[Address, int]
    ) -> Seat:
        """Return what a party's accounts have come to together."""
        members = [get_member(store, self.recorder.job_id, p.address) for p in party.players]
        joined = [member for member in members if member.standing is not Standing.NONE]
        kept = [member for member in joined if member.keeps_bond(job.status)]
        is_paid = job.status is Status.WON and not job.is_client_owed
        shown = {Standing.NONE, Standing.COMMITTED}
        return Seat(
            conduct=party.conduct,
            accounts=len(members),
            lost=len(joined) - len(kept),
            prizes=0 if job.status is Status.VOID else sum(member.prizes for member in kept),
            shares=sum(is_paid and member.standing is Standing.REVEALED for member in kept),
            is_client=party.is_client,
            is_right=members[0].standing not in shown and members[0].key == self.answer,
            work=party.work,
            gas=sum(spent[player.address] for player in party.players),
            held_blocks=party.trick.held_blocks if party.trick else 0,
        )


def play_case(
    game: Game, parties: Sequence[Party], recorder: Recorder, answer: bytes, label: str
) -> PlayedCase:
    """Play a game to its end, and return it as a case; the arguments are those of `PlayedCase`."""
    accounts = {recorder.address, game.client, game.verifier}
    accounts |= {player.address for party in parties for player in party.players}
    before = {address: recorder.balance(address) for address in accounts}
    burned_wei = recorder.burned_wei
    for _ in game.play():
        continue
    return PlayedCase(
        parties=parties,
        recorder=recorder,
        game=game,
        answer=answer,
        label=label,
        changes_wei={it: recorder.balance(it) - before[it] for it in accounts},
        burned_wei=recorder.burned_wei - burned_wei,
    )


def _is_accepted(answer: Answer) -> bool:
    return isinstance(answer, Outcome)
