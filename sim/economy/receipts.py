"""The receipts of a played case: what each call has cost, and what each account has, to the wei.

What every account has is known twice: from the chain, and from the judgement by the rules. Both
have to be the same.
"""

from collections import Counter
from collections.abc import Iterator, Mapping

from moot.contracts.model.checks import get_member
from moot.contracts.model.types import Address, Member
from moot.contracts.reasons import Standing, Status
from moot.offchain.disputes.play.actors import Player
from moot.offchain.disputes.referee.port import Answer, Call, Outcome
from moot.offchain.disputes.referee.stages import get_stage
from moot.offchain.errors import ChainError
from moot.sim.economy.cases import AccountReceipt, CallReceipt, Case, Receipts, burn, pay_seat
from moot.sim.economy.gas import REFUSED
from moot.sim.economy.played_case import PlayedCase
from moot.sim.relay import read_cost

WON, SLASHED, REFUNDED = "won", "slashed", "refunded"
"""What becomes of an account: it won, it lost its bond, or it has lost nothing."""


def read_receipts(played: PlayedCase, case: Case) -> Receipts:
    """Return the receipts of a case.

    Args:
        played: the case as it was played.
        case: its judgement.

    Raises:
        ChainError: somebody has another sum than the judgement says.
    """
    made = played.recorder.made
    fees, gases = Counter[Address](), Counter[Address]()
    for _, call, answer in made:
        gas, fee_wei = read_cost(answer)
        gases[call.sender] += gas
        fees[call.sender] += fee_wei
    check_money(played, case, fees)
    first = made[0][0]
    calls = tuple(_read_call(block - first, call, answer) for block, call, answer in made)
    return Receipts(calls, tuple(_list_accounts(played, gases, fees)))


def check_money(played: PlayedCase, case: Case, fees: Mapping[Address, int]) -> None:
    """Raise ChainError if somebody has another sum than a judgement says, less its fees."""
    changes, stakes = played.changes_wei, played.game.stakes
    bond_wei, reward_wei = stakes.bond_wei, stakes.reward_wei
    left = Counter(changes)
    left.update(fees)
    errors_wei = [abs(played.burned_wei - burn(case, bond_wei, reward_wei))]
    is_back = not case.sharers
    for party, seat in zip(played.parties, case.seats, strict=True):
        expected_wei = pay_seat(seat, case, bond_wei, reward_wei) - seat.accounts * bond_wei
        if seat.is_client:
            expected_wei -= reward_wei
        found_wei = sum(left.pop(player.address) for player in party.players)
        errors_wei.append(abs(found_wei - expected_wei))
    client = played.game.client
    if client in left:
        errors_wei.append(abs(left.pop(client) + (0 if is_back else reward_wei)))
    errors_wei += map(abs, left.values())
    if any(errors_wei):
        raise ChainError(
            f"the accounts of {played.label} do not add up by {sum(errors_wei)} wei; "
            "use a chain on which nobody else moves their money and none of them earns fees"
        )


def _read_call(block: int, call: Call, answer: Answer) -> CallReceipt:
    gas, fee_wei = read_cost(answer)
    receipt = answer.receipt if isinstance(answer, Outcome) else None
    return CallReceipt(
        block=block,
        stage=get_stage(call) if isinstance(answer, Outcome) else REFUSED,
        player=call.player,
        call=call.name,
        gas=gas,
        calldata=receipt.gas_calldata if receipt else None,
        execution=receipt.gas_execution if receipt else None,
        fee_wei=fee_wei,
    )


def _list_accounts(
    played: PlayedCase, gases: Mapping[Address, int], fees: Mapping[Address, int]
) -> Iterator[AccountReceipt]:
    """Yield what each account has: those of the parties, the client's and the verifier's."""
    changes = played.changes_wei
    for place, party in enumerate(played.parties):
        for player in party.players:
            member = _get_member(played, player)
            yield AccountReceipt(
                account=player.name,
                seat=place,
                behaviour=player.run.behaviour.describe(),
                is_right=member.standing not in (Standing.NONE, Standing.COMMITTED)
                and member.key == played.answer,
                fate=_name_fate(member, played.status),
                gas=gases[player.address],
                fees_wei=fees[player.address],
                profit_wei=changes[player.address],
            )
    others = {"client": played.game.client, "verifier": played.game.verifier}
    taken = {player.address for party in played.parties for player in party.players}
    for name, address in others.items():
        if address not in taken:
            spent = (gases[address], fees[address], changes[address])
            yield AccountReceipt(name, None, None, None, None, *spent)


def _get_member(played: PlayedCase, player: Player) -> Member:
    recorder = played.recorder
    assert recorder.closed is not None, "a game ends when its job is closed"
    return get_member(recorder.closed, recorder.job_id, player.address)


def _name_fate(member: Member, status: Status) -> str:
    if member.standing is not Standing.NONE and not member.keeps_bond(status):
        return SLASHED
    return WON if status is Status.WON and member.is_contender else REFUNDED
