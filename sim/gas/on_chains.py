"""What played calls cost on other chains than the one that they were played on.

A receipt of the chain in memory says what Prague charges. Another chain charges the same execution
and the same calldata by its own rule. Where the floor of Prague decided a call's gas, the receipt
does not show its execution, and the most that it can have been is taken: 6 gas a token.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from moot.offchain.chain.gas import (
    STANDARD_GAS_PER_TOKEN,
    TRANSACTION_GAS,
    count_calldata_tokens,
)
from moot.offchain.disputes.play.game import Played
from moot.offchain.disputes.referee.stages import STAGE_ORDER
from moot.sim.chains.calldata import Calldata
from moot.sim.chains.chain import Chain
from moot.sim.chains.clocks import measure_clocks
from moot.sim.gas.report import OPENING


@dataclass(frozen=True, slots=True)
class PaidCall:
    """A call as any chain may charge for it.

    Attributes:
        stage: of the dispute.
        player: who made it.
        call: the function's name.
        execution: gas without the transaction's and the calldata's, refunds subtracted.
        calldata: the bytes.
    """

    stage: str
    player: str
    call: str
    execution: int
    calldata: Calldata


@dataclass(frozen=True, slots=True)
class Bill:
    """What calls cost on a chain.

    Attributes:
        gas: of the chain's own.
        execution_wei: what the gas costs.
        data_wei: for putting data on the layer below; 0 where there is none.
        largest_gas: of one call.
    """

    gas: int = 0
    execution_wei: int = 0
    data_wei: int = 0
    largest_gas: int = 0

    @property
    def total_wei(self) -> int:
        """Gas and data together."""
        return self.execution_wei + self.data_wei

    def to_dict(self, chain: Chain) -> dict[str, Any]:
        """Return the bill with its sums in ETH and in the chain's currency."""
        return {
            "gas": self.gas,
            "execution_eth": self.execution_wei / 10**18,
            "data_eth": self.data_wei / 10**18,
            "eth": self.total_wei / 10**18,
            "currency": chain.money.currency,
            "fiat": chain.to_fiat(self.total_wei),
        }


def read_calls(played: Iterable[Played]) -> list[PaidCall]:
    """Return the calls that a chain has charged for."""
    found = []
    for move in played:
        receipt = move.receipt
        if receipt is not None:
            tokens = count_calldata_tokens(receipt.data)
            execution = receipt.gas_used - TRANSACTION_GAS - STANDARD_GAS_PER_TOKEN * tokens
            data = Calldata(receipt.data)
            found.append(PaidCall(move.stage, move.player, move.call, execution, data))
    return found


def charge(calls: Iterable[PaidCall], chain: Chain) -> Bill:
    """Return what calls cost on a chain, together."""
    gas = execution_wei = data_wei = largest = 0
    for call in calls:
        own = chain.calculate_gas(call.execution, call.calldata)
        cost = chain.fees.charge(own, call.calldata)
        gas, largest = gas + own, max(largest, own)
        execution_wei += cost.execution_wei
        data_wei += cost.data_wei
    return Bill(gas, execution_wei, data_wei, largest)


def charge_stages(calls: Sequence[PaidCall], chain: Chain) -> Mapping[str, Bill]:
    """Return what the calls of every stage cost, in the order of a game."""
    return {
        stage: charge([call for call in calls if call.stage == stage], chain)
        for stage in STAGE_ORDER
    }


def make_object(played: Iterable[Played], chain: Chain) -> dict[str, Any]:
    """Return what a scenario costs on a chain as one object for JSON.

    As in the report on a scenario, what the client paid to open the job is apart.
    """
    calls = read_calls(played)
    disputed = [call for call in calls if call.call != OPENING]
    bill = charge(disputed, chain)
    clocks = measure_clocks(chain)
    return {
        "chain": chain.name,
        "kind": chain.kind,
        "fork": chain.fork,
        **bill.to_dict(chain),
        "calldata_bytes": sum(len(call.calldata.data) for call in disputed),
        "zero_bytes": sum(call.calldata.zeros for call in disputed),
        "largest_call_gas": bill.largest_gas,
        "fits": bill.largest_gas <= chain.block.transaction_gas_limit,
        "open_job": charge([c for c in calls if c.call == OPENING], chain).to_dict(chain),
        "by_phase": {
            stage: it.to_dict(chain) for stage, it in charge_stages(disputed, chain).items()
        },
        "eth_price": chain.money.eth_price,
        "prices_of": chain.money.date,
        "gas_price_gwei": chain.fees.price_wei / 10**9,
        "seconds": {
            "block_number": chain.block.number_seconds,
            "joining": clocks.joining_s,
            "clock": clocks.clock_s,
            "longest": clocks.longest_s,
            "finality": chain.delay.finality_s,
            "force_inclusion": chain.delay.force_inclusion_s,
            "withdrawal": chain.delay.withdrawal_s,
        },
        "clock_covers_sequencer": clocks.covers(),
    }
