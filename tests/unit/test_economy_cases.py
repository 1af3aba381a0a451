"""Cases on the model: who wins, who is slashed, what everybody has, and what conducts draw."""

from dataclasses import replace

import numpy as np
import pytest

from moot.offchain.errors import ChainError, UsageError
from moot.offchain.providers.catalogue import CHEATS
from moot.sim.economy.casting import STAKES, check_conducts, draw_behaviours, take_stretch
from moot.sim.economy.receipts import REFUNDED, SLASHED, WON, read_receipts
from moot.sim.economy.streams import open_conduct_stream
from moot.sim.strategies import STRATEGIES, TRICKS
from tests.case_helpers import CheckedCase, run_case
from tests.quick import every
from tests.sim_helpers import make_task

POSSIBLE = [name for name in STRATEGIES if name != "stale-optimizer"]
"""The conducts that the tiny program allows: it has no optimizer."""

PLAIN = [name for name in CHEATS if name in POSSIBLE]


@pytest.mark.parametrize("conduct", every(6, POSSIBLE))
def test_one_honest_party_is_enough(conduct: str) -> None:
    """Whoever is honest is right and wins against every conduct, and the client is answered."""
    for lineup in ((conduct, "honest"), ("honest", conduct)):
        checked = run_case(*lineup)
        assert checked.case.outcome == "right"
        honest = checked.list_accounts("honest")
        assert all(row.is_right and row.fate == WON and row.profit_wei > 0 for row in honest)


def test_without_an_honest_party_a_wrong_answer_is_seen() -> None:
    """A case among cheats alone may be settled on a lie, and is then counted as wrong."""
    checked = run_case("lazy", "wrong-start")
    winners = [row for row in checked.receipts.accounts if row.fate == WON]
    assert checked.case.outcome == "wrong"
    assert winners
    assert not any(row.is_right for row in winners)


@pytest.mark.parametrize("conduct", every(8, PLAIN))
def test_claims_that_differ_leave_one(conduct: str) -> None:
    """Each match defeats one account, and those who are left share one claim."""
    for lineup in ((conduct, "honest"), (conduct, "lazy", "honest"), (conduct, conduct)):
        checked = run_case(*lineup)
        store, job_id = checked.referee.store, checked.played.recorder.job_id
        claims = sum(job == job_id for job, _ in store.claims)
        slashed = [row for row in checked.receipts.accounts if row.fate == SLASHED]
        matches = len(checked.played.game.ended)
        assert len(slashed) == matches >= claims - 1
        assert checked.case.is_disputed == bool(matches) == (claims > 1)


@pytest.fixture(scope="module")
def checked() -> CheckedCase:
    """A dispute."""
    return run_case("lazy", "honest")


def test_what_nobody_has_was_burned(checked: CheckedCase) -> None:
    """What all accounts have lost together is what the rules have burned."""
    lost_wei = -sum(row.profit_wei for row in checked.receipts.accounts)
    assert lost_wei == checked.played.burned_wei > 0


@pytest.mark.parametrize("whose", ["lazy-1.1", "honest-1.1", "client", "verifier", "referee"])
@pytest.mark.parametrize("error_wei", [1, -(10**18)])
def test_a_wei_too_many_or_too_few_is_an_error(
    checked: CheckedCase, whose: str, error_wei: int
) -> None:
    """Money that comes from nowhere, or is lost, is named in one line, whoever has it."""
    played = checked.played
    addresses = {p.name: p.address for party in played.parties for p in party.players}
    game = played.game
    addresses |= {"client": game.client, "verifier": game.verifier}
    addresses["referee"] = checked.referee.address
    moved = {addresses[whose]: played.changes_wei[addresses[whose]] + error_wei}
    wrong = replace(played, changes_wei={**played.changes_wei, **moved})
    with pytest.raises(ChainError, match=f"do not add up by {abs(error_wei)} wei") as refusal:
        read_receipts(wrong, checked.case)
    assert "case 0 of lazy+honest" in refusal.value.message
    assert "\n" not in refusal.value.message


def test_money_that_changes_hands_is_an_error(checked: CheckedCase) -> None:
    """A sum that is right in all is none if one has what is another's."""
    played = checked.played
    (liar,), (honest,) = (party.players for party in played.parties)
    changes = dict(played.changes_wei)
    changes[liar.address] += 5
    changes[honest.address] -= 5
    with pytest.raises(ChainError, match="do not add up by 10 wei"):
        read_receipts(replace(played, changes_wei=changes), checked.case)


def test_a_judgement_that_burns_less_is_an_error(checked: CheckedCase) -> None:
    """What the rules have burned is checked, too."""
    with pytest.raises(ChainError, match="do not add up"):
        read_receipts(checked.played, replace(checked.case, defeated=0))


def test_who_has_lost_nothing_is_refunded() -> None:
    """An account that never joined, or is owed its bond, has neither won nor lost it."""
    rows = {row.account: row.fate for row in run_case("honest", "copy").receipts.accounts}
    assert rows["honest-1.1"] == WON
    assert set(rows.values()) <= {WON, REFUNDED, None}


def test_what_is_heard_twice_is_the_same() -> None:
    """A case depends on its lineup and its number, and on nothing that was played before."""
    once, again, other = (run_case("wrong-output", "lazy", number=k) for k in (1, 1, 2))
    assert once.case == again.case
    assert once.receipts == again.receipts
    behaviours = [
        [row.behaviour for row in it.list_accounts("wrong-output")] for it in (once, other)
    ]
    assert behaviours[0] != behaviours[1]


def test_a_conduct_draws_the_same_whoever_else_is_there() -> None:
    """A conduct's stream depends on its name, its place among its like, and the case alone."""
    alone = run_case("wrong-output", "honest").list_accounts("wrong-output")
    beside = run_case("honest", "lazy", "wrong-output").list_accounts("wrong-output")
    twice = run_case("wrong-output", "wrong-output").list_accounts("wrong-output")
    assert alone[0].behaviour == beside[0].behaviour == twice[0].behaviour
    assert twice[1].behaviour != twice[0].behaviour
    streams = [("lazy", 0, 0), ("lazy", 0, 1), ("lazy", 1, 0), ("silent", 0, 0)]
    assert len({int(open_conduct_stream(*it).integers(2**63)) for it in streams}) == len(streams)


@pytest.mark.parametrize("conduct", POSSIBLE)
def test_behaviours_are_drawn_from_the_stream_alone(conduct: str) -> None:
    """The same stream gives the same behaviours, one for each account."""
    row, task = STRATEGIES[conduct], make_task()
    once, again = (draw_behaviours(row, task, np.random.default_rng(5)) for _ in range(2))
    assert [vars(it) for it in once] == [vars(it) for it in again]
    assert len(once) == row.accounts
    expected = "honest" if conduct == "watcher" else conduct
    assert conduct in TRICKS or once[0].name == expected


def test_the_honest_draw_nothing() -> None:
    """The stream of an honest party is as it was."""
    rng = np.random.default_rng(5)
    draw_behaviours(STRATEGIES["honest"], make_task(), rng)
    assert rng.integers(2**63) == np.random.default_rng(5).integers(2**63)


def test_an_impossible_conduct_is_refused_before_anything_runs() -> None:
    """A program without an optimizer's state has no provider that keeps it stale."""
    with pytest.raises(UsageError, match="stale-optimizer needs a program whose optimizer"):
        check_conducts(["honest", "stale-optimizer"], make_task())
    check_conducts(POSSIBLE, make_task())


def test_jobs_have_data_of_their_own() -> None:
    """Job n trains on the n-th stretch of the data, and its data root shows it."""
    task = make_task()
    stretches = [take_stretch(task, number) for number in range(3)]
    assert stretches[0].data_root == task.data_root
    assert len({stretch.data_root for stretch in stretches}) == 3
    assert len({stretch.start_root for stretch in stretches}) == 1
    assert np.array_equal(stretches[2].batch(1)[0], task.batch(2 * task.steps + 1)[0])


def test_stakes_are_those_of_the_job() -> None:
    """Who loses has lost the bond that was locked, and who wins shares the reward."""
    profits = {
        row.account: row.profit_wei for row in run_case("honest", "honest").receipts.accounts
    }
    assert profits["honest-1.1"] == profits["honest-2.1"] == STAKES.reward_wei // 2
    assert profits["client"] == -STAKES.reward_wei
