"""Closed forms: published values to their digits, and algebra that holds for all others."""

import re
from collections.abc import Mapping
from dataclasses import replace

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from rich.console import Console

from docs.tools.economics import ROOT, SECTIONS, WIDTH, tabulate_summary
from moot.offchain.disputes.play.game import Played
from moot.offchain.errors import UsageError
from moot.sim.estimates import Estimate
from moot.sim.gas.scenarios import REFERENCE
from moot.sim.gas.snapshot import NAME, Line, read
from moot.sim.swarm import STAKES
from moot.sim.theory import bold, dave, dispute, fraud, knockout, optimism, prt, truebit, verde

ETHER = 10**18
GWEI = 10**9

rules = st.builds(dave.Rules, st.integers(2, 9), st.integers(1, 30))
gas = st.integers(0, 10**8)
one_level = st.builds(bold.Level, shared_gas=gas, honest_gas=st.integers(1, 10**8))
levels = st.lists(one_level, min_size=1, max_size=4)
money = st.floats(0.01, 1000)
games = st.builds(fraud.FraudGame, money, money, money, money, money, money, money)
dilemmas = st.builds(
    truebit.Dilemma, st.integers(1, 20), money, st.floats(0, 1), st.floats(0, 10**6), money
)


@pytest.mark.parametrize(
    ("game", "published", "is_censored"),
    [
        (dave.Rules(4, 21), dave.PUBLISHED, False),
        (dave.Rules(2, 21), dave.PUBLISHED_PAIRS, False),
        (dave.Rules(4, 21), dave.PUBLISHED_CENSORED, True),
    ],
)
def test_published_rounds_of_dave(
    game: dave.Rules, published: Mapping[int, int], *, is_censored: bool
) -> None:
    """The simulation has the paper's rounds for all of its numbers of claims."""
    ours = {n: dave.count_rounds(1 << n, game, is_censored=is_censored) for n in published}
    assert ours == published


def test_another_strategy_is_not_the_published_one() -> None:
    """One more claim, demotion or place in a group gives other rounds than the published 29."""
    others = [(17, dave.Rules(4, 21)), (16, dave.Rules(4, 22)), (16, dave.Rules(5, 21))]
    assert all(dave.count_rounds(*other) != dave.PUBLISHED[4] for other in others)


@pytest.mark.parametrize("group", [2, 3, 4])
@pytest.mark.parametrize("is_censored", [False, True])
def test_no_adversary_delays_longer(group: int, *, is_censored: bool) -> None:
    """In small tournaments nothing that an adversary can do lasts longer than the strategy."""
    for demotions in range(1, 6):
        game = dave.Rules(group, demotions)
        for claims in range(1, 14):
            counted = dave.count_rounds(claims, game, is_censored=is_censored)
            assert counted == dave.search_rounds(claims, game, is_censored=is_censored)


@given(st.integers(1, 1 << 40), rules)
def test_rounds_grow_with_claims_and_stay_below_the_fit(claims: int, game: dave.Rules) -> None:
    """More claims never take fewer rounds; above 100 claims, the fit is a bound."""
    rounds = dave.count_rounds(claims, game)
    assert rounds <= dave.count_rounds(claims + 1, game)
    assert claims <= 100 or rounds < dave.bound_rounds(claims, game)


@given(st.integers(2, 1 << 40), rules)
def test_censorship_buys_so_many_rounds_as_demotions(claims: int, game: dave.Rules) -> None:
    """Whoever can demote the honest claim wins up to K - 1 rounds, the paper's R + K - 1."""
    free = dave.count_rounds(claims, game)
    censored = dave.count_rounds(claims, game, is_censored=True)
    assert free <= censored <= free + game.demotions - 1


@pytest.mark.parametrize(("group", "demotions"), [(1, 21), (4, 0), (0, -1)])
def test_impossible_rules_are_refused(group: int, demotions: int) -> None:
    """A group of one demotes nobody, and no demotions eliminate at once."""
    with pytest.raises(UsageError, match="make no tournament"):
        dave.Rules(group, demotions)


def test_tournaments_without_claims_are_refused() -> None:
    """Nobody wins where nobody plays."""
    for count in (dave.count_rounds, dave.search_rounds):
        with pytest.raises(UsageError, match="no winner"):
            count(0, dave.Rules())
    with pytest.raises(UsageError, match="no winner"):
        knockout.count_rounds(0)


def test_published_ladder_of_optimism() -> None:
    """The first and last bond, both sides and the sum are the published ones."""
    ladder = optimism.make_ladder()
    assert f"{optimism.GROWTH:.5f}" == "1.09493"
    assert ladder.first_wei == 8 * ETHER // 100
    assert f"{ladder.last_wei / ETHER:.1f}" == "60.0"
    sums = (ladder.even_wei, ladder.odd_wei, ladder.total_wei)
    assert [round(amount / ETHER) for amount in sums] == [330, 361, 691]


@given(st.integers(1, optimism.MAX_DEPTH))
def test_a_deeper_bond_is_larger(depth: int) -> None:
    """Each bond is the one above times the growth, up to a unit of gas."""
    above, bond = (optimism.calculate_bond_wei(d) // optimism.PRICE_WEI for d in (depth - 1, depth))
    assert abs(bond - above * optimism.GROWTH) <= 2


@pytest.mark.parametrize("depth", [-1, 74])
def test_depths_outside_the_game_have_no_bond(depth: int) -> None:
    """A game has depths 0 to 73."""
    with pytest.raises(UsageError, match="not in the game"):
        optimism.calculate_bond_wei(depth)


def test_published_bonds_of_prt() -> None:
    """The bonds of levels 0, 1 and 2 are 0.242, 0.102 and 0.148 ETH."""
    bonds = [f"{prt.calculate_bond_wei(level) / ETHER:.3f}" for level in range(3)]
    assert bonds == ["0.242", "0.102", "0.148"]


def test_prt_has_three_levels_of_trees_with_leaves() -> None:
    """Other levels, and trees without halves, are refused."""
    for level in (-1, 3):
        with pytest.raises(UsageError, match="no level"):
            prt.calculate_bond_wei(level)
    with pytest.raises(UsageError, match="height 0"):
        prt.calculate_match_gas(0)


def test_sums_near_the_published_ratio_of_bold() -> None:
    """No sum of the published gas and stakes that we know is 6.46; the nearest is 6.466."""
    price, stakes = bold.PUBLISHED_PRICE_WEI, bold.PUBLISHED_STAKES_WEI
    top, next_stake = bold.ARBITRUM[0], stakes[1]
    gas, own = top.shared_gas * price, top.honest_gas * price
    all_gas = price * sum(level.shared_gas for level in bold.ARBITRUM)
    all_own = price * sum(level.honest_gas for level in bold.ARBITRUM)
    sums = (
        (stakes[0] + gas) / (next_stake + gas + own),
        stakes[0] / (next_stake + gas + own),
        stakes[0] / (next_stake + own),
        (sum(stakes) + all_gas) / (sum(stakes[1:]) + all_gas + all_own),
    )
    assert [f"{ratio:.3f}" for ratio in sums] == ["6.405", "6.394", "6.466", "6.403"]
    text = (ROOT / "docs" / "measurements" / "economics.md").read_text()
    assert all(f"| {ratio:.3f} |" in text for ratio in sums)
    assert all(f"{ratio:.2f}" != f"{bold.PUBLISHED_RATIO}" for ratio in sums)


def test_published_stakes_of_bold() -> None:
    """The published stakes have one ratio at all levels, 1% below the published one."""
    price, stakes = bold.PUBLISHED_PRICE_WEI, bold.PUBLISHED_STAKES_WEI
    ratios = bold.calculate_ratios(bold.ARBITRUM, stakes, price)
    assert [f"{ratio:.2f}" for ratio in ratios] == ["6.41", "6.39", "6.39"]
    assert all(abs(ratio / bold.PUBLISHED_RATIO - 1) < 0.011 for ratio in ratios)
    again = bold.calculate_stakes_wei(bold.ARBITRUM, 6.395, price)
    assert [round(stake / ETHER) for stake in again] == [3596, 555, 79]


@pytest.mark.parametrize(("level", "price"), [(0, 161), (1, 442), (2, 494)])
def test_prices_of_gas_at_which_bold_has_its_ratio(level: int, price: int) -> None:
    """The published ratio is that of 161, 442 and 494 gwei, as the page says."""
    below, above = (
        bold.calculate_ratios(bold.ARBITRUM, bold.PUBLISHED_STAKES_WEI, at)[level]
        for at in ((price + 1) * GWEI - GWEI // 2, price * GWEI - GWEI // 2)
    )
    assert below < bold.PUBLISHED_RATIO < above


@given(levels, st.floats(1, 100), st.integers(1, 10**12))
def test_stakes_make_the_ratio(challenge: list[bold.Level], ratio: float, price_wei: int) -> None:
    """The ratio of the stakes for a ratio is that ratio, at every level."""
    stakes = bold.calculate_stakes_wei(challenge, ratio, price_wei)
    assert bold.calculate_ratios(challenge, stakes, price_wei) == pytest.approx(
        [ratio] * len(challenge)
    )


@given(st.tuples(gas, gas, gas), st.integers(0, 60), st.floats(1, 100))
def test_one_level_has_the_papers_stake(
    costs: tuple[int, int, int], bisections: int, ratio: float
) -> None:
    """A single level takes S = rho (G_proof + (k+1) G_update + G_bisect) + (rho-1) k G_bisect."""
    proof, update, bisect = costs
    challenge = [bold.Level.of(proof, update, bisect, bisections)]
    paper = ratio * (proof + (bisections + 1) * update + bisect)
    paper += (ratio - 1) * bisections * bisect
    assert bold.calculate_stakes_wei(challenge, ratio, 1) == [pytest.approx(paper)]


@given(one_level, st.integers(1, 10**12), st.integers(1, 10**12))
def test_dearer_gas_never_helps_the_defence(
    level: bold.Level, one_wei: int, other_wei: int
) -> None:
    """A stake weighs less where gas is dear: a higher price never raises the ratio."""
    cheap, dear = sorted((one_wei, other_wei))
    ratios = [bold.calculate_ratios([level], [ETHER], price)[0] for price in (cheap, dear)]
    assert ratios[0] >= ratios[1] * (1 - 1e-9)


@pytest.mark.parametrize(("ratio", "price_wei"), [(0, 1), (-1, 1), (2, 0), (2, -1)])
def test_stakes_need_a_ratio_and_a_price(ratio: float, price_wei: int) -> None:
    """Neither can be zero or negative."""
    with pytest.raises(UsageError, match="positive"):
        bold.calculate_stakes_wei(bold.ARBITRUM, ratio, price_wei)


def test_receipts_of_the_reference_are_within_the_snapshot() -> None:
    """What the two sides spend adds up to what the committed snapshot allows for."""
    sides = dispute.measure_reference()
    lines = read(ROOT / NAME)
    least, most = dispute.bound_gas(lines)
    assert least <= sides.total <= most < dispute.bound_longest_gas(lines)
    assert 0 < sides.liar < sides.honest
    assert sides.level.defence_gas == sides.honest


def test_a_snapshot_without_the_reference_bounds_nothing() -> None:
    """A scenario that was not measured has no gas, rather than none."""
    line = Line("small", "joining.commit", 1, 1, 1, 1)
    for bound in (dispute.bound_gas, dispute.bound_longest_gas):
        with pytest.raises(UsageError, match=f"no scenario '{REFERENCE.name}'"):
            bound([line])


def test_calls_that_no_chain_charged_for_are_no_costs() -> None:
    """A game on the model has no receipts to divide."""
    with pytest.raises(ValueError, match="no chain has charged"):
        dispute.divide_gas([Played("joining", "honest-1", "commit", (), None)])


@given(st.integers(1, 1 << 40))
def test_knockouts_halve(claims: int) -> None:
    """A round leaves half of the claims, rounded up; one claim is left in no other way."""
    rounds = knockout.count_rounds(claims)
    assert 2**rounds >= claims
    assert rounds == 0 or 2 ** (rounds - 1) < claims
    assert knockout.count_rounds(2 * claims) == rounds + 1


@pytest.mark.parametrize("claims", [2, 5, 16])
def test_knockouts_that_are_played_keep_to_the_bound(claims: int) -> None:
    """The true claim wins, in the rounds and blocks that the protocol allows."""
    played = knockout.play(claims, is_on_chain=False)
    assert played.has_won
    assert played.meetings <= knockout.count_rounds(claims)
    assert 0 < played.blocks <= knockout.bound_blocks(claims, STAKES)
    assert played.matches == claims - 1


def test_knockouts_and_disputes_need_two() -> None:
    """Nobody plays alone."""
    with pytest.raises(UsageError, match="at least 2"):
        knockout.play(1, is_on_chain=False)
    with pytest.raises(UsageError, match="at least 2"):
        verde.play(1, is_crowd=False)


@pytest.mark.parametrize("is_crowd", [False, True])
def test_one_honest_provider_wins_in_so_many_disputes(*, is_crowd: bool) -> None:
    """Among four providers of whom three lie, three disputes are enough, on the contract."""
    played = verde.play(4, is_crowd=is_crowd)
    assert played.has_won
    assert played.matches == 3
    assert played.rounds == (1 if is_crowd else 2)
    assert played.gas.honest > 0
    assert played.gas.liar > 0


@pytest.mark.slow
@pytest.mark.parametrize("is_crowd", [False, True])
@pytest.mark.parametrize("providers", [2, 3, 5, 6, 7, 8])
def test_any_number_of_liars_loses(providers: int, *, is_crowd: bool) -> None:
    """One of k providers wins in k - 1 disputes and at most ceil(log2 k) rounds."""
    played = verde.play(providers, is_crowd=is_crowd)
    assert played.has_won
    assert played.matches == providers - 1
    assert played.rounds <= knockout.count_rounds(providers)


def solve(game: fraud.FraudGame) -> fraud.Equilibrium:
    """Return the equilibrium of a game."""
    return fraud.solve_fraud_game(
        *(game.honest_cost, game.faked_cost, game.payment, game.stake),
        *(game.audit_cost, game.loss, game.reward),
    )


def test_published_equilibrium_of_the_fraud_game() -> None:
    """The published baseline has v* = 0.0300 and q* = 0.0564."""
    solved = fraud.solve_fraud_game(5, 0.5, 50, 100, 8, 50, 91.75)
    assert f"{solved.audit_rate:.4f}" == "0.0300"
    assert f"{solved.cheating_rate:.4f}" == "0.0564"
    half = replace(fraud.PUBLISHED, reward=fraud.PUBLISHED_REWARDS[0.5])
    assert f"{solve(half).cheating_rate:.4f}" == "0.0847"


def test_published_rewards_that_are_not_their_formulas() -> None:
    """Three of the seven published rewards are what the formula gives, and four are larger."""
    wrong = {
        rate: round(reward - fraud.calculate_reward(rate), 2)
        for rate, reward in fraud.PUBLISHED_REWARDS.items()
    }
    assert wrong == {0.5: 0, 0.6: 0.1, 0.7: 0.2, 0.8: 0.3, 0.9: 0.4, 0.95: 0, 1.0: 0}


@given(games)
def test_nobody_gains_by_leaving_the_equilibrium(game: fraud.FraudGame) -> None:
    """A side that mixes gains nothing by either action; one that does not would only lose."""
    solved = solve(game)
    cheating = game.saving - solved.audit_rate * (game.payment + game.stake)
    auditing = solved.cheating_rate * (game.loss + game.reward) - game.audit_cost
    for rate, gain in ((solved.cheating_rate, cheating), (solved.audit_rate, auditing)):
        assert 0 <= rate <= 1
        assert rate == 0 or gain >= -1e-9
        assert rate == 1 or gain <= 1e-9


@given(st.floats(0.01, 0.99), st.floats(0.01, 0.99), money, money, st.floats(1.01, 10))
def test_stakes_save_audits_and_not_cheats(
    saving: float, audit: float, stake: float, loss: float, factor: float
) -> None:
    """With a larger stake fewer jobs are audited, and as many are cheated in."""
    game = fraud.FraudGame(saving * stake, 0, 0, stake, audit * loss, loss, 0)
    one, other = solve(game), solve(replace(game, stake=game.stake * factor))
    assert other.audit_rate < one.audit_rate
    assert other.cheating_rate == one.cheating_rate


def test_a_simulated_fraud_game_comes_to_its_equilibrium() -> None:
    """The intervals hold the closed form, are narrow, and are those of the seed."""
    solved = solve(fraud.PUBLISHED)
    audits, cheats = fraud.simulate(fraud.PUBLISHED, seed=1)
    assert audits.contains(solved.audit_rate)
    assert cheats.contains(solved.cheating_rate)
    assert audits.margin < solved.audit_rate / 20
    assert cheats.margin < solved.cheating_rate / 20
    assert (audits, cheats) == fraud.simulate(fraud.PUBLISHED, seed=1)
    assert (audits, cheats) != fraud.simulate(fraud.PUBLISHED, seed=2)


def test_a_simulation_tells_the_rates_apart() -> None:
    """The intervals do not hold the equilibrium of another game, nor the rates interchanged."""
    audits, cheats = fraud.simulate(fraud.PUBLISHED, seed=1)
    other = solve(replace(fraud.PUBLISHED, stake=60, audit_cost=9))
    assert not audits.contains(other.audit_rate)
    assert not cheats.contains(other.cheating_rate)
    assert not audits.contains(solve(fraud.PUBLISHED).cheating_rate)


def test_intervals_hold_the_truth_as_often_as_they_say() -> None:
    """Over 50 seeds about 95% of the intervals hold the equilibrium."""
    solved, held = solve(fraud.PUBLISHED), 0
    for seed in range(50):
        audits, cheats = fraud.simulate(fraud.PUBLISHED, seed, steps=1000)
        held += audits.contains(solved.audit_rate) + cheats.contains(solved.cheating_rate)
    assert 86 <= held < 100


@pytest.mark.parametrize(
    "change",
    [{"audit_cost": 0}, {"payment": -100}, {"payment": 0, "stake": 0}, {"loss": -91.75}],
)
def test_fraud_games_without_stakes_are_refused(change: dict[str, float]) -> None:
    """An audit costs something, and both sides have something to lose."""
    with pytest.raises(UsageError):
        replace(fraud.PUBLISHED, **change)


def test_a_stake_makes_audits_and_cheats_rarer() -> None:
    """The reward of a dispute has half of the stake in it, as in the published source."""
    assert fraud.set_stake(fraud.PUBLISHED.stake) == fraud.PUBLISHED
    rates = [solve(fraud.set_stake(stake)) for stake in (50, 100, 200)]
    assert [round(it.cheating_rate, 3) for it in rates] == [0.068, 0.056, 0.042]
    assert [round(it.audit_rate, 3) for it in rates] == [0.045, 0.03, 0.018]


def test_short_simulations_are_refused() -> None:
    """Without a second half, or without runs, there is nothing to estimate."""
    with pytest.raises(UsageError, match="steps"):
        fraud.simulate(fraud.PUBLISHED, seed=1, steps=1)
    with pytest.raises(UsageError, match="needs a repetition"):
        fraud.simulate(fraud.PUBLISHED, seed=1, populations=0)
    with pytest.raises(UsageError, match="periods"):
        truebit.simulate(truebit.EXAMPLE, seed=1, periods=1)


@given(dilemmas)
def test_verifiers_mix_where_a_check_gains_nothing(game: truebit.Dilemma) -> None:
    """At the symmetric rate a check gains nothing; at 0 it would cost, at 1 it pays."""
    rate, others = truebit.solve_rate(game), game.verifiers - 1
    gain = truebit.calculate_gain(game, others, rate)
    assert 0 <= rate <= 1
    if 0 < rate < 1:
        assert gain == pytest.approx(0, abs=1e-6 * game.check_cost)
    else:
        assert gain >= 0 if rate else gain <= 0


@given(dilemmas)
def test_the_last_checker_gains_and_another_would_not(game: truebit.Dilemma) -> None:
    """So many check that each of them gains by it, and nobody else would."""
    checkers = truebit.count_checkers(game)
    assert checkers == 0 or truebit.calculate_gain(game, checkers - 1, 1) > 0
    assert checkers == game.verifiers or truebit.calculate_gain(game, checkers, 1) <= 0


@given(dilemmas)
def test_the_least_jackpot_makes_everybody_check(game: truebit.Dilemma) -> None:
    """With the least jackpot and a little more all check, with a little less not all."""
    assume(game.error_rate > 1e-6)
    least = truebit.calculate_least_jackpot(game)
    above, below = (replace(game, jackpot=least * by) for by in (1.001, 0.999))
    assert truebit.solve_rate(above) == 1
    assert truebit.solve_rate(below) < 1
    assert truebit.count_checkers(above) == game.verifiers
    assert truebit.count_checkers(below) == game.verifiers - 1


def test_forced_errors_end_the_dilemma() -> None:
    """With them the number of the closed form checks every job; without, a share goes unchecked."""
    game = truebit.EXAMPLE
    baited = truebit.simulate(game, seed=1)
    assert baited.checking == make_certain(truebit.count_checkers(game) / game.verifiers)
    assert baited.unchecked == baited.cheated == make_certain(0.0)
    for change in ({"error_rate": 0.0}, {"jackpot": 900}):
        bare = truebit.simulate(replace(game, **change), seed=1)
        assert bare.unchecked.value - bare.unchecked.margin > 0.2
        assert bare.cheated.value - bare.cheated.margin > 0.02
        assert bare == truebit.simulate(replace(game, **change), seed=1)


@pytest.mark.parametrize("change", [{"verifiers": 0}, {"check_cost": 0}, {"error_rate": 1.5}])
def test_impossible_dilemmas_are_refused(change: dict[str, float]) -> None:
    """There has to be a verifier, a cost and a rate."""
    with pytest.raises(UsageError, match="dilemma needs"):
        replace(truebit.EXAMPLE, **change)


def test_no_jackpot_pays_without_forced_errors() -> None:
    """Without forced errors no jackpot is large enough."""
    with pytest.raises(UsageError, match="no jackpot"):
        truebit.calculate_least_jackpot(replace(truebit.EXAMPLE, error_rate=0))


def make_certain(value: float) -> Estimate:
    """Return what all repetitions came to."""
    return Estimate(value, value, value)


def show(section: str) -> str:
    """Return what the command of a section prints."""
    console = Console(width=WIDTH, highlight=False, file=None)
    with console.capture() as captured:
        for table in SECTIONS[section][1]() if section else tabulate_summary():
            console.print(table)
    return "\n".join(line.rstrip() for line in captured.get().strip().splitlines())


def read_block(section: str) -> str:
    """Return what the page says that the command prints."""
    page = (ROOT / "docs" / "measurements" / "economics.md").read_text()
    command = f"python docs/tools/economics.py {section}".strip()
    found = re.search(rf"<!-- output of: {command} -->\n```text\n(.*?)\n```", page, re.DOTALL)
    assert found is not None, f"the page has no output of `{command}`"
    return found[1]


@pytest.mark.parametrize("section", ["optimism", "prt", "bold", "fraud", "truebit"])
def test_the_page_is_up_to_date(section: str) -> None:
    """The page has what its commands print now."""
    assert read_block(section) == show(section)


@pytest.mark.slow
@pytest.mark.parametrize("section", ["", "dave", "verde"])
def test_the_page_is_up_to_date_about_what_is_played(section: str) -> None:
    """The page has what its commands print now, also of disputes on the contract."""
    assert read_block(section) == show(section)


def test_every_source_is_in_the_page() -> None:
    """No section is missing."""
    assert all(read_block(section) for section in SECTIONS)
