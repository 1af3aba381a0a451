"""The record of a dispute, as far as it has been played, read back from its chain."""

from collections.abc import Sequence

from moot.contracts.deployment import bind_referee
from moot.contracts.model.types import Terms
from moot.offchain.chain import Address
from moot.offchain.disputes.play.game import Game
from moot.offchain.disputes.referee.on_chain import ChainReferee
from moot.offchain.record.names import list_names
from moot.offchain.record.reducer import Reducer
from moot.offchain.record.referee_log import RefereeLog
from moot.offchain.record.schema import Record, RecordedReferee, make_record


def record_dispute(game: Game, referee: ChainReferee) -> Record:
    """Return the record of a game's referee, with the names of its accounts and operators."""
    program = game.task.program
    contract = bind_referee(referee.chain, Address(referee.address), referee.arithmetic)
    log = RefereeLog(referee.chain, contract, referee.arithmetic, referee.first_block)
    names = list_names(program)
    top = game.task.commitment.header.top

    def find_names(terms: Terms) -> Sequence[str]:
        return names if terms.program_top == top else ()

    chain_id = referee.chain_id
    reducer = Reducer(log.address, chain_id, log.arithmetic, find_names)
    frames = reducer.reduce(log.read())
    about = RecordedReferee(
        referee=log.address, chain_id=chain_id, arithmetic=str(program.arithmetic)
    )
    players = ["client", "verifier", *(player.name for player in game.players)]
    accounts = {game.address_of(name).lower(): name for name in players}
    return make_record(about, accounts, log.head, frames)
