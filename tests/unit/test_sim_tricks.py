"""Tricks: none takes anything from an honest provider, and none pays where one is watching."""

from functools import cache

import pytest

from moot.offchain.disputes.referee.port import Outcome
from moot.sim.economy.casting import STAKES
from moot.sim.economy.receipts import SLASHED, WON
from moot.sim.strategies import TRICKS
from tests.case_helpers import CheckedCase, run_case
from tests.quick import every, only

REWARD_WEI = STAKES.reward_wei
WORKERS = {"split", "self-play", "grabber"}
"""Those that have accounts behind the true claim, and get these accounts' shares."""
DIFFERENT = {
    "front-runner": {"reveal", "collect", "commit", "pick_element"},
    "grabber": {"commit", "reveal", "join", "settle", "collect", "rule", "timeout", "descend"},
}
"""Calls that are refused to some tricks; none is to the others."""


@cache
def list_watched(trick: str, other: str = "") -> list[CheckedCase]:
    """Return cases in which a trick is played and somebody is honest, in various places."""
    lineups = [(trick, "honest"), ("honest", trick), ("honest", trick, "honest")]
    if other:
        lineups = [(other, *lineup) for lineup in lineups[:2]]
    return [run_case(*lineup, number=number) for number, lineup in enumerate(lineups)]


def get_profit(checked: CheckedCase, conduct: str) -> int:
    """Return what all accounts of a conduct have gained in a case, in wei."""
    return sum(row.profit_wei for row in checked.list_accounts(conduct))


@pytest.mark.parametrize("trick", every(8, sorted(set(TRICKS) - {"split"})))
def test_honest_payouts_are_not_reduced(trick: str) -> None:
    """Every honest provider gets at least what it gets if the other one is honest, too.

    It shares the reward with nobody but who has worked.
    """
    for checked in list_watched(trick):
        honest = checked.list_accounts("honest")
        twin_wei = REWARD_WEI // len(checked.played.parties)
        share_wei = REWARD_WEI // (len(honest) + (trick in WORKERS))
        assert checked.case.outcome == "right"
        assert all(row.fate == WON for row in honest)
        assert all(row.profit_wei >= max(twin_wei, share_wei) for row in honest)


@pytest.mark.parametrize("other", only([""], ["", "lazy"]))
@pytest.mark.parametrize("trick", every(8, TRICKS))
def test_no_trick_pays(trick: str, other: str) -> None:
    """Who tries one earns no more than its accounts would by working, and if it lies, it loses."""
    for checked in list_watched(trick, other):
        own, accounts = checked.list_accounts(trick), checked.receipts.accounts
        profit_wei = get_profit(checked, trick)
        if any(row.fate == SLASHED for row in own):
            assert profit_wei < 0
            continue
        sharers = sum(row.fate == WON and bool(row.is_right) for row in accounts)
        work_wei = len(own) * (REWARD_WEI // sharers)
        prizes_wei = len(checked.played.game.ended) * STAKES.bond_wei // 2
        assert profit_wei <= work_wei + prizes_wei
        assert trick in WORKERS or any(row.is_right for row in own)


def test_shares_go_by_accounts() -> None:
    """Who works once and joins three times has three shares, but of one reward: that is allowed."""
    for checked in list_watched("split"):
        honest = checked.list_accounts("honest")
        share_wei = REWARD_WEI // (3 + len(honest))
        assert all(row.profit_wei == share_wei for row in honest)
        assert get_profit(checked, "split") == 3 * share_wei


@pytest.mark.parametrize("trick", every(8, [name for name, it in TRICKS.items() if it.trick]))
def test_tricks_are_really_tried(trick: str) -> None:
    """Schemes make calls of their own, and are refused what they should be, and nothing else."""
    made, refused = set[str](), set[str]()
    for checked in [*list_watched(trick), *list_watched(trick, "lazy")]:
        own = {row.account for row in checked.list_accounts(trick)}
        for _, call, answer in checked.played.recorder.made:
            if not isinstance(answer, Outcome):
                refused.add(call.name)
            elif call.player in own:
                made.add(call.name)
    assert made & {"commit", "join"}
    assert refused >= DIFFERENT.get(trick, set())
    assert trick in DIFFERENT or not refused
    assert ("join" in made) == (trick in {"late-lie", "copy", "revenant"})
    assert ("reveal" not in made) == (trick in {"hidden", "late-lie", "copy", "front-runner"})


@pytest.mark.slow
def test_some_tricks_take_time() -> None:
    """Moving late, censoring, coming late and coming back make jobs longer, as is intended."""
    usual = run_case("hidden", "honest").case.blocks
    for trick in ("last-block", "censor", "late-lie", "revenant"):
        assert run_case(trick, "honest").case.blocks > usual


def test_giving_up_saves_gas() -> None:
    """Who gives up loses the same bond as who goes on to the leaf, for less gas, of both sides."""
    stubborn, quitter = run_case("wrong-output", "honest"), run_case("quitter", "honest")
    gas = {}
    for name, checked in (("wrong-output", stubborn), ("quitter", quitter)):
        (liar,), (honest,) = checked.list_accounts(name), checked.list_accounts("honest")
        assert (liar.fate, honest.fate) == (SLASHED, WON)
        assert liar.profit_wei == stubborn.list_accounts("wrong-output")[0].profit_wei
        seats = {seat.conduct: seat for seat in checked.case.seats}
        gas[name] = len([it for it in checked.case.moves if it.player.startswith(name)])
        assert seats[name].lost == 1
        assert seats["honest"].prizes == 1
    assert gas["quitter"] < gas["wrong-output"]
    assert len(quitter.case.moves) < len(stubborn.case.moves)
    assert "leaf" in {move.call for move in stubborn.case.moves}
    assert "timeout" in {move.call for move in quitter.case.moves}


def test_giving_up_among_liars_is_not_hopeless_for_the_other() -> None:
    """Against another lie that goes on, who gives up loses; undisputed, its lie is accepted."""
    checked = run_case("quitter", "wrong-start")
    (quitter,) = checked.list_accounts("quitter")
    assert quitter.fate == SLASHED
    alone = run_case("quitter", "quitter").case
    assert alone.outcome in ("wrong", "void")
    assert run_case("quitter").case.outcome == "wrong"
