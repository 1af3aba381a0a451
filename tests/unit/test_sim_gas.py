"""The gas table: its rows hold the receipts, all of them, each once."""

from hypothesis import given
from hypothesis import strategies as st

from moot.offchain.chain import Address, Receipt
from moot.offchain.chain.gas import TRANSACTION_GAS
from moot.offchain.disputes.play.accounts import get_costs, sum_stages
from moot.offchain.disputes.play.game import Played
from moot.offchain.disputes.referee.stages import STAGE_ORDER
from moot.sim.gas import GasRow, Spread, summarise

CALLS = ("commit", "descend", "enter_claimed", "leaf", "collect")


def make_played(stage: str, call: str, calldata: int | None, execution: int = 0) -> Played:
    """Return an accepted call; with no calldata given, one that no chain has charged for."""
    if calldata is None:
        return Played(stage, "honest-1", call, (), None)
    receipt = Receipt(
        call=call,
        sender=Address("0x" + "11" * 20),
        transaction_hash="0x" + "22" * 32,
        block=1,
        gas_used=TRANSACTION_GAS + calldata + execution,
        calldata_bytes=0,
        gas_calldata=calldata,
        gas_execution=execution,
        effective_gas_price=1,
        events=(),
    )
    return Played(stage, "honest-1", call, (), receipt)


amounts = st.integers(0, 200_000)
calls = st.builds(
    make_played, st.sampled_from(STAGE_ORDER), st.sampled_from(CALLS), amounts | st.none(), amounts
)
games = st.lists(calls, max_size=30)


@given(games)
def test_the_rows_sum_to_the_receipts(played: list[Played]) -> None:
    """Moves, gas, calldata and execution of all rows are those of all receipts."""
    receipts = [move.receipt for move in played if move.receipt]
    rows = summarise(played)
    assert sum(row.moves for row in rows) == len(receipts)
    assert sum(row.gas.total for row in rows) == sum(r.gas_used for r in receipts)
    assert sum(row.calldata.total for row in rows) == sum(r.gas_calldata for r in receipts)
    assert sum(row.execution.total for row in rows) == sum(r.gas_execution for r in receipts)
    assert sum_stages(get_costs(played)) == {
        stage: sum(row.gas.total for row in rows if row.stage == stage) for stage in STAGE_ORDER
    }


@given(games)
def test_the_parts_of_a_row_make_its_gas(played: list[Played]) -> None:
    """In every row 21,000 a move, calldata and execution add up to the gas."""
    for row in summarise(played):
        parts = row.calldata.total + row.execution.total
        assert TRANSACTION_GAS * row.moves + parts == row.gas.total


@given(games, st.randoms(use_true_random=False))
def test_the_order_of_play_does_not_matter(played: list[Played], random: object) -> None:
    """Rows come stage after stage, whatever was played first."""
    shuffled = sorted(played, key=lambda _: random.random())  # type: ignore[attr-defined] # Random
    assert summarise(shuffled) == summarise(played)
    stages = [STAGE_ORDER.index(row.stage) for row in summarise(played)]
    assert stages == sorted(stages)


@given(st.lists(amounts, min_size=1))
def test_a_spread_is_of_amounts_that_occurred(values: list[int]) -> None:
    """Minimum, median and maximum are among the amounts, and half of them lie on either side."""
    spread = Spread.of(values)
    assert {spread.minimum, spread.median, spread.maximum} <= set(values)
    assert sum(value < spread.median for value in values) <= len(values) / 2
    assert sum(value > spread.median for value in values) <= len(values) / 2
    assert all(spread.minimum <= value <= spread.maximum for value in values)


def test_calls_of_one_name_are_kept_apart_by_stage() -> None:
    """A step down the history and one in the trace are two rows, in a game's order."""
    played = [
        make_played("trace", "descend", 100, 10),
        make_played("history", "descend", 50, 7),
        make_played("history", "descend", 70, 5),
        make_played("history", "start_match", None),
    ]
    assert summarise(played) == [
        GasRow(
            "history",
            "descend",
            2,
            Spread(21_057, 21_057, 21_075, 42_132),
            Spread(50, 50, 70, 120),
            Spread(5, 5, 7, 12),
        ),
        GasRow(
            "trace",
            "descend",
            1,
            Spread(21_110, 21_110, 21_110, 21_110),
            Spread(100, 100, 100, 100),
            Spread(10, 10, 10, 10),
        ),
    ]
