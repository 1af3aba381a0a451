"""Small courts whose disputes need no computation, for the tests of their record and page."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import msgspec

from moot.contracts.deployment import deploy_referee
from moot.contracts.model.types import Address, Store
from moot.contracts.reasons import LeafMode, Outcome, Standing
from moot.offchain.arithmetic.base import Arithmetic
from moot.offchain.arithmetic.ordered import ORDERED
from moot.offchain.chain import Chain
from moot.offchain.disputes.play.game import Game
from moot.offchain.disputes.referee.on_chain import ChainReferee
from moot.offchain.disputes.referee.port import Answer, Call, ModelReferee, Referee
from moot.offchain.disputes.referee.port import Outcome as Made
from moot.offchain.disputes.referee.terms import Stakes
from moot.offchain.record.entries import Entry, read_encoding, read_leaf
from moot.offchain.record.reducer import Reducer
from moot.offchain.record.schema import Frame, Record, RecordedReferee, Value, make_record
from moot.sim.synthetic.products import Lie, Size, seat

SIZE = Size(checkpoints=5, checkpoint_every=4, operators=9, rows=8, columns=16, terms=70)
"""Trees of odd sizes, two chunks a tensor, and two rounds of a fold."""
SCALAR = Lie(step=6, operator=4, element=77, term=33)
SINK = Lie(step=6, operator=SIZE.operators)
SILENT = Lie(step=9, operator=5, is_silent=True)
STAKES = Stakes(
    commit_blocks=12, reveal_blocks=12, window_blocks=12, clock_blocks=40, increment_blocks=3
)
CHAIN_ID = 131277322940537
"""That of the chain in memory."""


class Recorder:
    """A referee in front of another one in memory, which notes the calls that are accepted."""

    def __init__(self, referee: Referee) -> None:
        self._referee = referee
        self.entries: list[Entry] = []

    def __getattr__(self, name: str) -> Any:
        return getattr(self._referee, name)

    def transact(self, name: str, *args: Any, sender: Address, value_wei: int = 0) -> Made:
        """Make a call, and note it."""
        outcome = self._referee.transact(name, *args, sender=sender, value_wei=value_wei)
        self._note(Call(name, sender, args, value_wei), outcome)
        return outcome

    def transact_all(self, calls: Sequence[Call]) -> list[Answer]:
        """Make calls at once, and note those that were accepted."""
        answers = self._referee.transact_all(calls)
        for call, answer in zip(calls, answers, strict=True):
            self._note(call, answer)
        return answers

    def _note(self, call: Call, answer: Answer) -> None:
        if not isinstance(answer, Made):
            return
        opened = [event for event in answer.events if event.name == "JobOpened"]
        self.entries.append(
            Entry(
                block=self._referee.block_number(),
                events=answer.events,
                call=call.name,
                sender=call.sender,
                job=self._referee.job(int(str(opened[0].args[0]))) if opened else None,
                encoding=read_encoding(call.name, call.args),
                leaf=read_leaf(call.name, call.args),
            )
        )


def seat_game(
    referee: ModelReferee | ChainReferee | Recorder,
    accounts: Sequence[str],
    lies: Sequence[Lie],
    leaf: LeafMode = LeafMode.SCALAR,
) -> Game:
    """Seat a client, an honest provider and liars; a verifier finds for the honest one."""
    client, honest, *others = accounts[: 2 + len(lies)]
    game = seat(referee, SIZE, [client, honest, *others], lies, STAKES)
    if leaf is LeafMode.OPERATOR:
        game.leaf_mode, game.verifier = leaf, accounts[-1]
        game.ruler = lambda _, board, __: Outcome(
            [board.pair.first, board.pair.second].index(honest)
        )
    return game


def open_model(
    lies: Sequence[Lie], arithmetic: Arithmetic = ORDERED, leaf: LeafMode = LeafMode.SCALAR
) -> tuple[Recorder, Game]:
    """Return a game on the model, behind a recorder."""
    accounts = [f"0x{7 * number:040x}" for number in range(1, 4 + len(lies))]
    model = ModelReferee(dict.fromkeys(accounts, 10**24), CHAIN_ID, arithmetic)
    recorder = Recorder(model)
    return recorder, seat_game(recorder, accounts, lies, leaf)


def open_chain(chain: Chain, lies: Sequence[Lie], arithmetic: Arithmetic = ORDERED) -> Game:
    """Return a game on a referee that is deployed on a chain."""
    first_block = chain.block_number()
    contract = deploy_referee(chain, chain.accounts[0], arithmetic)
    referee = ChainReferee(chain, contract, first_block, arithmetic)
    return seat_game(referee, chain.accounts, lies)


def reduce_model(recorder: Recorder) -> tuple[Reducer, list[Frame]]:
    """Return the reducer of a model's recorder, and all frames."""
    reducer = Reducer(recorder.address, recorder.chain_id, recorder.arithmetic)
    return reducer, reducer.reduce(recorder.entries)


def get_state(store: Store) -> dict[str, Any]:
    """Return a referee's state but for sealed commitments, which no event has."""
    members = {
        key: replace(it, key=b"") if it.standing is Standing.COMMITTED else it
        for key, it in store.members.items()
    }
    money = (store.balance_wei, store.burned_wei)
    matches = {pair: it for pair, it in store.matches.items() if it is not None}
    return {"jobs": store.jobs, "members": members, "claims": store.claims, "matches": matches} | {
        "money": money
    }


def make_small_record(lies: Sequence[Lie] = (SCALAR,)) -> Record:
    """Return the record of a game on the model that has been played."""
    recorder, game = open_model(lies)
    assert list(game.play())
    _, frames = reduce_model(recorder)
    names = {game.address_of(it.name).lower(): it.name for it in game.players}
    about = RecordedReferee(referee=recorder.address, chain_id=CHAIN_ID, arithmetic="ordered 1")
    return make_record(about, names | {game.client: "client"}, recorder.block_number(), frames)


def stretch(record: Record, number: str) -> Record:
    """Return a record all whose values mean this number, and have as many bits as one can have."""

    def replace_values(form: Any) -> Any:
        if isinstance(form, Value):
            return Value("0x80" + "1c" * 31, number)
        if isinstance(form, msgspec.Struct):
            fields = {name: replace_values(getattr(form, name)) for name in form.__struct_fields__}
            return msgspec.structs.replace(form, **fields)
        return [*map(replace_values, form)] if isinstance(form, list | tuple) else form

    return msgspec.structs.replace(record, frames=replace_values(record.frames))


def make_hostile(text: str) -> Record:
    """Return a record in which every text that somebody may choose is hostile."""
    record = make_small_record()
    about = msgspec.structs.replace(record.court, arithmetic=text)
    frames = [_spoil(frame, text) for frame in record.frames]
    return make_record(about, dict.fromkeys(record.names, text), record.head, frames)


def _spoil(frame: Frame, text: str) -> Frame:
    change = msgspec.structs.replace
    return change(
        frame,
        text=text,
        call=change(frame.call, name=text),
        pick=change(frame.pick, label=text) if frame.pick else None,
        matches=[change(match, phase=text) for match in frame.matches],
        members=[change(member, standing=text) for member in frame.members],
        jobs=[change(job, status=text) for job in frame.jobs],
    )
