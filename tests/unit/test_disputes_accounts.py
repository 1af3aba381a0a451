"""Money: fees come from receipts, and burning from the rules."""

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from moot.contracts.model.types import Job
from moot.offchain.chain import Address, Receipt
from moot.offchain.disputes.play.accounts import calculate_burned, calculate_fees
from moot.offchain.disputes.play.game import Played
from moot.offchain.disputes.referee.terms import make_terms
from tests.sim_helpers import make_task

ADDRESS = Address("0x" + "11" * 20)
TERMS = make_terms(make_task())

bills = st.tuples(
    st.sampled_from(["client", "honest-1"]), st.integers(21_000, 10**7), st.integers(0, 10**12)
)


def make_played(player: str, gas_used: int, price_wei: int) -> Played:
    """Return an accepted call with this bill."""
    receipt = Receipt(
        call="descend",
        sender=ADDRESS,
        transaction_hash="0x" + "22" * 32,
        block=1,
        gas_used=gas_used,
        calldata_bytes=0,
        gas_calldata=0,
        gas_execution=gas_used - 21_000,
        effective_gas_price=price_wei,
        events=(),
    )
    return Played("trace", player, "descend", (), receipt)


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
    assert calculate_fees([Played("trace", "client", "descend", (), None)]) == {}


counts = st.integers(0, 4)


def close_job(counted: tuple[int, int, int], bond_wei: int, reward_wei: int) -> Job:
    """Return a job with so many hidden members, lost bonds and prizes that nobody is owed."""
    hidden, defeated, forfeits = counted
    return Job(
        client=ADDRESS,
        terms=replace(TERMS, bond_wei=bond_wei),
        reward_wei=reward_wei,
        opened_block=1,
        window_end=9,
        hidden=hidden,
        defeated=defeated,
        forfeits=forfeits,
    )


@given(st.tuples(counts, counts, counts), st.integers(0, 10**20), st.integers(0, 10**20), counts)
def test_what_nobody_is_owed_is_burned(
    counted: tuple[int, int, int], bond_wei: int, reward_wei: int, sharers: int
) -> None:
    """What goes in is what is burned, and what winners, prizes and sharers get, to the wei."""
    hidden, defeated, forfeits = counted
    job = close_job(counted, bond_wei, reward_wei)
    paid_in = (hidden + defeated) * bond_wei + reward_wei
    prizes = (defeated - forfeits) * (bond_wei // 2)
    rewards = sharers * (reward_wei // sharers) if sharers else reward_wei
    assert paid_in == calculate_burned(job, sharers) + prizes + rewards
