"""Money: fees come from receipts, burning from the rules, and what does not add up is an error."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from contracts.model.types import Match
from contracts.reasons import Ending
from offchain.chain import Address, Receipt
from offchain.disputes.accounts import calculate_burned, calculate_fees
from offchain.disputes.board import Board
from offchain.disputes.game import Ended, Played
from offchain.errors import ChainError
from sim.ledger import Flows

amounts = st.integers(-(10**24), 10**24)
bills = st.tuples(
    st.sampled_from(["client", "honest-1"]), st.integers(21_000, 10**7), st.integers(0, 10**12)
)


def make_played(player: str, gas_used: int, price_wei: int) -> Played:
    """Return an accepted call with this bill."""
    receipt = Receipt(
        call="open",
        sender=Address("0x" + "11" * 20),
        transaction_hash="0x" + "22" * 32,
        block=1,
        gas_used=gas_used,
        calldata_bytes=0,
        gas_calldata=0,
        gas_execution=gas_used - 21_000,
        effective_gas_price=price_wei,
        events=(),
    )
    return Played("trace", player, "open", (), receipt)


@given(st.lists(bills))
def test_fees_are_the_receipts_gas_at_the_receipts_prices(
    given_bills: list[tuple[str, int, int]],
) -> None:
    """Everybody pays for each own transaction at that transaction's price."""
    fees = calculate_fees(make_played(*bill) for bill in given_bills)
    for player in ("client", "honest-1"):
        expected = sum(gas * price for payer, gas, price in given_bills if payer == player)
        assert fees.get(player, 0) == expected


def test_the_model_charges_no_fees() -> None:
    """A call that no chain has charged for costs nobody anything."""
    assert calculate_fees([Played("trace", "client", "open", (), None)]) == {}


@given(st.integers(0, 4), st.integers(0, 4), st.integers(0, 10**20))
def test_each_defeat_burns_what_the_winner_does_not_get(
    defeats: int, voids: int, bond_wei: int
) -> None:
    """Half of a defeated bond is burned, rounded up; a void match burns nothing."""
    match = Match(0, 0, 1, 1, 1, 0)
    ended = [Ended(match, Board(), 0, 1, Ending.CLOCK)] * defeats
    ended += [Ended(match, Board(), None, None, Ending.VERIFIER)] * voids
    assert calculate_burned(ended, bond_wei) == defeats * ((bond_wei + 1) // 2)


@given(amounts, amounts, amounts)
def test_flows_that_balance_pass(accounts: int, contract: int, burned: int) -> None:
    """Whatever leaves one place and arrives in the others is conserved."""
    Flows(accounts, contract, burned, -accounts - contract - burned).check()


@given(amounts, amounts, amounts, amounts.filter(bool))
def test_a_wei_too_many_or_too_few_is_an_error(
    accounts: int, contract: int, burned: int, error_wei: int
) -> None:
    """Any amount that comes from nowhere, or is lost, is named in an error of one line."""
    flows = Flows(accounts, contract, burned, -accounts - contract - burned + error_wei)
    with pytest.raises(ChainError, match=f"do not add up by {error_wei} wei") as refusal:
        flows.check()
    assert "\n" not in str(refusal.value)


@given(st.lists(st.builds(Flows, amounts, amounts, amounts, amounts)))
def test_flows_add_up(flows: list[Flows]) -> None:
    """The sum of flows moves the sum of what they move."""
    total = sum(flows, Flows())
    assert total.sum_wei == sum(flow.sum_wei for flow in flows)
    assert total.fees_wei == sum(flow.fees_wei for flow in flows)
