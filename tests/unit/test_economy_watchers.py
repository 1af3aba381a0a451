"""Several watchers on one job: who is asked, what they share, and what that leaves to each."""

from collections import Counter
from dataclasses import dataclass

import pytest

from moot.offchain.errors import UsageError
from moot.sim.economy.config import GWEI
from moot.sim.economy.facts import Job, Own
from moot.sim.economy.plugins import holding
from moot.sim.economy.strategies.base import WATCHER, Strategy
from moot.sim.economy.streams import Stream
from moot.sim.theory.truebit import Dilemma, calculate_gain, divide_jackpot
from tests.economy_helpers import FixedOutcomes, Row, make_config, make_group, play

JACKPOT, FORCED, WORK = 2.0, 0.25, 0.02
BAITED = {"name": "forced-errors", "rate": 1.0, "forced": FORCED, "jackpot_eth": JACKPOT}
FEED = {"name": "constant", "rate": 1.0, "margin": 0.5}
HONEST = [make_group("honest", count=8)]


def list_watchers(rows: list[Row]) -> list[Row]:
    """Return the rows of the agents that are watchers."""
    return [row for row in rows if row["role"] == "watcher"]


@pytest.mark.parametrize("asked", [1, 2, 3])
def test_a_jackpot_is_divided_as_truebit_does(asked: int) -> None:
    """Each of k who find a forced error is paid J / 2^(k - 1), and nobody is paid more."""
    config = make_config(
        providers=HONEST,
        watchers=[make_group("watcher", count=4)],
        watchers_asked=asked,
        audit=BAITED,
    )
    kept, counts = play(config, FixedOutcomes())
    forced = sum(row["conduct"] == "forced-error" for row in kept.read("jobs"))
    watchers = list_watchers(kept.read("agents"))
    assert forced > 20
    assert sum(row["jobs"] for row in watchers) == asked * counts.jobs
    earned = sum(row["profit_gwei"] + row["work_gwei"] for row in watchers)
    assert earned == round(forced * asked * divide_jackpot(JACKPOT, asked) * GWEI)


def test_a_fee_is_divided_among_those_who_check() -> None:
    """Twice the watchers cost the client no more, and each of them is paid half."""
    fees = {}
    for asked in (1, 2, 4):
        config = make_config(
            providers=HONEST,
            watchers=[make_group("watcher", count=4)],
            watchers_asked=asked,
            audit=FEED,
        )
        kept, counts = play(config, FixedOutcomes())
        watchers = list_watchers(kept.read("agents"))
        fees[asked] = sum(row["profit_gwei"] + row["work_gwei"] for row in watchers)
        assert counts.audited == counts.checked == counts.jobs
    assert fees[1] == fees[2] == fees[4] == 200 * round(1.5 * WORK * GWEI)


def test_the_prize_of_a_lie_is_the_first_finder_s() -> None:
    """One of three finders joins the dispute and has the prize; the others have worked for nothing.

    Whoever is asked first or is faster is the first.
    """
    lies = [make_group("lazy", count=8)]
    watchers = [make_group("watcher", count=2, blocks=20), make_group("rational-watcher", blocks=5)]
    config = make_config(
        burn_in=0.0,
        providers=lies,
        watchers=watchers,
        watchers_asked=3,
        audit={"name": "volunteers"},
    )
    kept, counts = play(config, FixedOutcomes())
    assert counts.caught == counts.jobs
    won = Counter[str]()
    for row in list_watchers(kept.read("agents")):
        won[row["strategy"]] += row["profit_gwei"] > -row["work_gwei"]
    assert won == {"rational-watcher": 1, "watcher": 0}
    parties = {row["conduct"] for row in kept.read("parties")}
    assert parties == {"lazy", WATCHER}
    assert len(kept.read("parties")) == 2 * counts.jobs


@dataclass
class Sometimes(Strategy):
    """A watcher that checks a share of what it is shown."""

    rate: float = 0.5

    def look(self, job: Job, own: Own, stream: Stream) -> str | None:
        """Draw."""
        del job, own
        return WATCHER if stream.draw() < self.rate else None


@pytest.mark.parametrize("others", [0, 3])
def test_dilution_has_its_closed_form(others: int) -> None:
    """A check brings r J (1 - x / 2)^n - C if each of n others makes half of all checks."""
    game = Dilemma(others + 1, WORK, FORCED, JACKPOT, 0.0)
    watchers = [make_group("watcher"), make_group("sometimes", count=others)]
    with holding({"sometimes": Sometimes()}):
        config = make_config(
            jobs=1200, providers=HONEST, watchers=watchers, watchers_asked=others + 1, audit=BAITED
        )
        kept, _ = play(config, FixedOutcomes())
    (diligent, *_) = list_watchers(kept.read("agents"))
    gain = diligent["profit_gwei"] / diligent["jobs"] / GWEI
    assert gain == pytest.approx(calculate_gain(game, others, 0.5), rel=0.2)
    if others:
        assert gain < 0.85 * calculate_gain(game, 0, 0.5)


def test_who_is_late_or_silent_shares_nothing() -> None:
    """A late watcher takes nothing of the jackpot away from the one that is in time."""
    watchers = [make_group("watcher"), make_group("rational-watcher", blocks=1000)]
    config = make_config(providers=HONEST, watchers=watchers, watchers_asked=2, audit=BAITED)
    kept, counts = play(config, FixedOutcomes())
    forced = sum(row["conduct"] == "forced-error" for row in kept.read("jobs"))
    in_time, late = list_watchers(kept.read("agents"))
    assert in_time["profit_gwei"] + in_time["work_gwei"] == forced * JACKPOT * GWEI
    assert late["profit_gwei"] == -late["work_gwei"] < 0
    assert counts.late == 0, "somebody was in time"


def test_more_watchers_than_there_are_can_t_be_asked() -> None:
    """Asking more, or nobody, or half a watcher, is refused in one line; one is the default."""
    for asked, there in ((3, 2), (2, 0), (0, 2), (1.5, 2)):
        watchers = [make_group("watcher", count=there)]
        with pytest.raises(UsageError) as refusal:
            make_config(watchers=watchers, watchers_asked=asked)
        assert "watchers_asked" in str(refusal.value)
        assert "\n" not in str(refusal.value)
    assert make_config(watchers=[]).watchers_asked == 1
    with pytest.raises(UsageError, match="share no jackpot"):
        divide_jackpot(1.0, 0)
