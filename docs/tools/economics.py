"""Prints what the literature on disputes publishes beside what Moot computes, simulates and plays.

`python docs/tools/economics.py` prints the summary of `economics.md`, and with a source's name, as
`dave`, the table of that source. Everything is computed when it is printed: nothing is read but
`gas-snapshot.txt` and `swarm.csv`.
"""

import argparse
import csv
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from rich.console import Console
from rich.table import Table

from moot.offchain.disputes.referee.terms import USUAL, Stakes
from moot.sim.estimates import Estimate
from moot.sim.gas.snapshot import NAME, read
from moot.sim.swarm import STAKES
from moot.sim.theory import bold, dave, dispute, fraud, knockout, optimism, prt, truebit, verde

ROOT = Path(__file__).parents[2]
ETHER = 10**18
GWEI = 10**9
WIDTH = 132
SEED = 1
WEEK_BLOCKS = 7 * 24 * 300
"""The blocks of a week, 12 seconds each."""
WEEK = Stakes(window_blocks=WEEK_BLOCKS, clock_blocks=WEEK_BLOCKS, increment_blocks=25)
"""Clocks and windows that outlast a week of censorship; 25 blocks are the 5 minutes of PRT."""
PLAYED = {2: True, 4: True, 8: True, 16: True, 64: False, 256: False}
"""The numbers of claims that are played, and whether on the contract or on the model."""
PRICES_GWEI = (1, 10, 50, 100, 200, 500)


@dataclass(frozen=True, slots=True)
class Check:
    """A value that is published, or follows from what is, beside ours."""

    what: str
    published: str
    ours: str
    remark: str = ""


def ether(amount_wei: float, digits: int = 3) -> str:
    """Return an amount in ETH, as text."""
    return f"{amount_wei / ETHER:,.{digits}f}"


def show(interval: Estimate, digits: int = 4) -> str:
    """Return an interval as text."""
    return f"{interval.value:.{digits}f} ± {interval.margin:.{digits}f}"


def place(interval: Estimate, value: float) -> str:
    """Return where a published value lies, as text."""
    return "in the interval" if interval.contains(value) else "outside the interval"


def make_table(title: str, section: str, columns: Sequence[str], *, words: int = 1) -> Table:
    """Return an empty table; all but the first columns are of numbers."""
    table = Table(title=title, caption=f"python docs/tools/economics.py {section}", min_width=40)
    for place, name in enumerate(columns):
        table.add_column(name, justify="left" if place < words else "right")
    return table


def check_dave() -> Iterator[Check]:
    """Yield the rounds of tournaments with groups."""
    tables = (
        ("groups of 4", dave.Rules(), dave.PUBLISHED, False),
        ("groups of 2", dave.Rules(group=2), dave.PUBLISHED_PAIRS, False),
        ("groups of 4, censored", dave.Rules(), dave.PUBLISHED_CENSORED, True),
    )
    for name, rules, published, is_censored in tables:
        ours = [dave.count_rounds(1 << n, rules, is_censored=is_censored) for n in published]
        yield Check(
            f"Dave: rounds of 2^4 to 2^32 claims, {name}",
            " ".join(map(str, published.values())),
            " ".join(map(str, ours)),
        )


def tabulate_dave() -> Iterator[Table]:
    """Yield the rounds of Dave's tournaments, and of ours."""
    rules = dave.Rules()
    columns = (
        *("claims", "published", "simulated", "fit, below", "censored: published", "simulated"),
        "days",
    )
    table = make_table("Dave: groups of 4 claims, 21 demotions", "dave", columns)
    for exponent, published in dave.PUBLISHED.items():
        claims = 1 << exponent
        rounds = dave.count_rounds(claims, rules)
        censored = dave.count_rounds(claims, rules, is_censored=True)
        table.add_row(
            f"2^{exponent}",
            *(str(published), str(rounds), f"{dave.bound_rounds(claims, rules):.1f}"),
            *(str(dave.PUBLISHED_CENSORED[exponent]), str(censored)),
            f"{rounds * dave.ROUND_HOURS / 24:.2f}",
        )
    yield table
    columns = ("claims", "on", "rounds, at most", "met", "matches", "blocks", "at most", "won")
    table = make_table("Moot: different lies against one honest provider", "dave", columns, words=2)
    for claims, is_on_chain in PLAYED.items():
        played = knockout.play(claims, is_on_chain=is_on_chain)
        table.add_row(
            str(claims),
            "contract" if is_on_chain else "model",
            *map(str, (knockout.count_rounds(claims), played.meetings, played.matches)),
            *map(str, (played.blocks, knockout.bound_blocks(claims, STAKES))),
            "yes" if played.has_won else "no",
        )
    yield table
    columns = ("claims", "Dave, days", "Moot, days at most", "bonds of the claims, ETH")
    table = make_table("Clocks that outlast a week of censorship", "dave", columns)
    for exponent in dave.PUBLISHED:
        claims = 1 << exponent
        days = dave.count_rounds(claims, rules) * dave.ROUND_HOURS / 24
        blocks = knockout.bound_blocks(claims, WEEK)
        bonds = ether(claims * dispute.BOND_WEI, 1)
        table.add_row(f"2^{exponent}", f"{days:.2f}", f"{7 * blocks / WEEK_BLOCKS:.1f}", bonds)
    yield table


def check_optimism() -> Iterator[Check]:
    """Yield the ladder of bonds."""
    ladder = optimism.make_ladder()
    pairs = (
        ("growth a depth", "1.09493", f"{optimism.GROWTH:.5f}"),
        (
            "first and last bond, ETH",
            "0.08 60.0",
            f"{ether(ladder.first_wei, 2)} {ether(ladder.last_wei, 1)}",
        ),
        ("both sides, ETH", "330 361", f"{ether(ladder.even_wei, 0)} {ether(ladder.odd_wei, 0)}"),
        ("sum, ETH", "691", ether(ladder.total_wei, 0)),
    )
    yield from (Check(f"Optimism: {what}", *values) for what, *values in pairs)


def tabulate_optimism() -> Iterator[Table]:
    """Yield the ladder, and what a dispute of ours locks and costs at the same price of gas."""
    table = make_table("Optimism: bonds by depth, 200 gwei", "optimism", ("depth", "bond, ETH"))
    for depth in (0, 1, 2, 10, 30, 50, 72, optimism.MAX_DEPTH):
        table.add_row(str(depth), ether(optimism.calculate_bond_wei(depth)))
    yield table
    ladder, sides = optimism.make_ladder(), dispute.measure_reference()
    least, most = dispute.bound_gas(read(ROOT / NAME))
    price = optimism.PRICE_WEI
    columns = ("a dispute to the end", "one side, ETH", "the other, ETH", "both, ETH")
    table = make_table("Locked and spent, at 200 gwei", "optimism", columns)
    rows = (
        ("Optimism locks", ladder.even_wei, ladder.odd_wei),
        ("Moot locks, least bond", dispute.BOND_WEI, dispute.BOND_WEI),
        ("Moot locks, usual bond", USUAL.bond_wei, USUAL.bond_wei),
        ("Moot spends on gas: honest, liar", sides.honest * price, sides.liar * price),
    )
    for name, one, other in rows:
        table.add_row(name, ether(one), ether(other), ether(one + other))
    bounds = f"{ether(least * price)} to {ether(most * price)}"
    table.add_row("the same by gas-snapshot.txt", "", "", bounds)
    yield table


def check_prt() -> Iterator[Check]:
    """Yield the bonds of the three levels."""
    ours = " ".join(ether(prt.calculate_bond_wei(level)) for level in range(len(prt.HEIGHTS)))
    yield Check("Cartesi PRT: bonds of levels 0, 1, 2, ETH", "0.242 0.102 0.148", ours)


def tabulate_prt() -> Iterator[Table]:
    """Yield the bonds, and ours by the same rule."""
    columns = ("match", "halvings", "gas", "bond by the rule, ETH", "bond asked for, ETH")
    table = make_table("Worst-case gas of a match at 50 gwei", "prt", columns)
    for level, height in enumerate(prt.HEIGHTS):
        bond = ether(prt.calculate_bond_wei(level))
        gas = f"{prt.calculate_match_gas(height):,}"
        table.add_row(f"PRT, level {level}", str(height), gas, bond, bond)
    lines = read(ROOT / NAME)
    own = {"reference": ("64", dispute.bound_gas(lines)[1])}
    own["longest legal"] = ("", dispute.bound_longest_gas(lines))
    for name, (halvings, amount) in own.items():
        bond = ether(amount * prt.PRICE_WEI)
        table.add_row(f"Moot, {name}", halvings, f"{amount:,}", bond, ether(dispute.BOND_WEI))
    yield table


def check_bold() -> Iterator[Check]:
    """Yield the resource ratio, and the stakes that follow from it."""
    price, stakes = bold.PUBLISHED_PRICE_WEI, bold.PUBLISHED_STAKES_WEI
    ratios = bold.calculate_ratios(bold.ARBITRUM, stakes, price)
    yield Check(
        "BoLD: resource ratio at 500 gwei, by level",
        f"{bold.PUBLISHED_RATIO}",
        " ".join(f"{ratio:.2f}" for ratio in ratios),
        f"up to {max(abs(r / bold.PUBLISHED_RATIO - 1) for r in ratios):.1%}",
    )
    again = bold.calculate_stakes_wei(bold.ARBITRUM, ratios[-1], price)
    yield Check(
        f"BoLD: stakes for a ratio of {ratios[-1]:.3f}, ETH",
        " ".join(ether(stake, 0) for stake in stakes),
        " ".join(ether(stake, 0) for stake in again),
        f"up to {max(abs(a / b - 1) for a, b in zip(again, stakes, strict=True)):.1%}",
    )


def read_swarms() -> Mapping[str, tuple[int, int, int]]:
    """Return, for each family, the largest fighting swarm that was played on the contract.

    Its liars, the honest provider's gas, and theirs.
    """
    found = {}
    with (ROOT / "docs" / "measurements" / "swarm.csv").open() as file:
        for row in csv.DictReader(file):
            if row["referee"] == "contract" and row["kind"] == "fighting":
                honest, total = int(row["honest_gas"]), int(row["total_gas"])
                found[row["family"]] = (int(row["liars"]), honest, total - honest)
    return found


def tabulate_bold() -> Iterator[Table]:
    """Yield BoLD's resource ratios, and ours, by the price of gas."""
    levels = ("blocks", "big steps", "small steps")
    names = [f"{price} gwei" for price in PRICES_GWEI]
    table = make_table("What an attack costs, over what the defence costs", "bold", ("", *names))
    by_price = [
        bold.calculate_ratios(bold.ARBITRUM, bold.PUBLISHED_STAKES_WEI, price * GWEI)
        for price in PRICES_GWEI
    ]
    for place, name in enumerate(levels):
        table.add_row(f"BoLD, {name}", *(f"{ratios[place]:.2f}" for ratios in by_price))
    table.add_section()
    level = dispute.measure_reference().level
    for bond_wei in (dispute.BOND_WEI, USUAL.bond_wei):
        ratios = [bold.calculate_ratios([level], [bond_wei], p * GWEI)[0] for p in PRICES_GWEI]
        name = f"Moot, reference, bond {ether(bond_wei, 1)} ETH"
        table.add_row(name, *(f"{ratio:.2f}" for ratio in ratios))
    for family, (liars, honest, others) in read_swarms().items():
        own = bold.Level(shared_gas=others, honest_gas=honest - others)
        stake = liars * dispute.BOND_WEI
        ratios = [bold.calculate_ratios([own], [stake], p * GWEI)[0] for p in PRICES_GWEI]
        name = f"Moot, {liars} liars {family}, 0.2 ETH"
        table.add_row(name, *(f"{ratio:.2f}" for ratio in ratios))
    yield table
    table = make_table("Bonds of Moot for a resource ratio of 6.46", "bold", ("", *names))
    bonds = [
        bold.calculate_stakes_wei([level], bold.PUBLISHED_RATIO, price * GWEI)[0]
        for price in PRICES_GWEI
    ]
    table.add_row("bond, ETH", *(ether(bond) for bond in bonds))
    yield table


def check_verde() -> Iterator[Check]:
    """Yield the disputes of eight providers."""
    for is_crowd, name in ((False, "all different"), (True, "behind one claim")):
        played = verde.play(8, is_crowd=is_crowd)
        ours = f"{played.matches}, {'won' if played.has_won else 'lost'}"
        yield Check(f"Verde: disputes of 8 providers, 7 lies {name}", "7, won", ours)


def tabulate_verde() -> Iterator[Table]:
    """Yield jobs of two to eight providers, all but one of whom lie."""
    columns = (
        *("liars", "providers", "disputes: k - 1", "played", "rounds", "won"),
        *("honest gas", "liars' gas", "honest gas a dispute"),
    )
    table = make_table("Verde: one honest provider among k, on the contract", "verde", columns)
    for is_crowd, name in ((False, "all different"), (True, "behind one claim")):
        for providers in range(2, 9):
            played = verde.play(providers, is_crowd=is_crowd)
            table.add_row(
                name,
                *map(str, (providers, providers - 1, played.matches, played.rounds)),
                "yes" if played.has_won else "no",
                *(f"{gas:,}" for gas in (played.gas.honest, played.gas.liar)),
                f"{played.gas.honest // played.matches:,}",
            )
        table.add_section()
    yield table


def check_fraud() -> Iterator[Check]:
    """Yield the equilibrium of the published baseline, and what populations come to."""
    game = fraud.PUBLISHED
    solved = solve(game)
    audits, cheats = fraud.simulate(game, SEED)
    yield Check("Fraud game: audit rate v*", "0.0300", f"{solved.audit_rate:.4f}")
    yield Check("Fraud game: v*, simulated", "0.0300", show(audits), place(audits, 0.03))
    yield Check("Fraud game: cheating rate q*", "0.0564", f"{solved.cheating_rate:.4f}")
    yield Check("Fraud game: q*, simulated", "0.0564", show(cheats), place(cheats, 0.0564))


def solve(game: fraud.FraudGame) -> fraud.Equilibrium:
    """Return the equilibrium of a game."""
    return fraud.solve_fraud_game(
        *(game.honest_cost, game.faked_cost, game.payment, game.stake),
        *(game.audit_cost, game.loss, game.reward),
    )


def tabulate_fraud() -> Iterator[Table]:
    """Yield equilibria beside simulations, and the published rewards beside their formula."""
    base = fraud.PUBLISHED
    games = {
        "published baseline": base,
        "half the stake": fraud.set_stake(base.stake / 2),
        "twice the stake": fraud.set_stake(base.stake * 2),
        "audits for 2": replace(base, audit_cost=2),
        "audits for 15": replace(base, audit_cost=15),
        "audits that never pay": replace(base, audit_cost=150),
    }
    columns = ("game", "v*", "audited", "q*", "cheated")
    table = make_table("Fraud game: equilibria and populations", "fraud", columns)
    for name, game in games.items():
        solved = solve(game)
        audits, cheats = map(show, fraud.simulate(game, SEED))
        rates = (f"{solved.audit_rate:.4f}", audits, f"{solved.cheating_rate:.4f}", cheats)
        table.add_row(name, *rates)
    yield table
    columns = ("disputes won", "Delta published", "Delta by formula", "q* by formula")
    table = make_table("Fraud game: reward of a dispute", "fraud", columns)
    for win_rate, published in fraud.PUBLISHED_REWARDS.items():
        reward = fraud.calculate_reward(win_rate)
        rate = solve(replace(base, reward=reward)).cheating_rate
        table.add_row(f"{win_rate:.2f}", f"{published:.2f}", f"{reward:.2f}", f"{rate:.4f}")
    yield table


def check_truebit() -> Iterator[Check]:
    """Yield what the condition says, and what best responses come to."""
    game = truebit.EXAMPLE
    share = truebit.count_checkers(game) / game.verifiers
    baited = truebit.simulate(game, SEED)
    bare = truebit.simulate(replace(game, error_rate=0), SEED)
    for what, derived, found in (
        ("share that checks, forced errors", share, baited.checking),
        ("jobs unchecked, forced errors", 0, baited.unchecked),
        ("jobs wrong and accepted, the same", 0, baited.cheated),
    ):
        yield Check(f"Truebit: {what}", f"{derived:.2f}", show(found, 2), place(found, derived))
    yield Check("Truebit: jobs unchecked, none forced", "above 0", show(bare.unchecked, 2))


def tabulate_truebit() -> Iterator[Table]:
    """Yield the rates of checking by what forced errors pay."""
    base = truebit.EXAMPLE
    columns = (
        *("r J / C", "x*", "checkers m*", "checking", "unchecked", "wrong and accepted"),
        "least J for all",
    )
    title = f"Truebit: {base.verifiers} verifiers, a check costs 1, an error pays {base.prize:g}"
    table = make_table(title, "truebit", columns)
    for bait in (0.0, 0.5, 2.0, 10.0, 100.0, 600.0):
        game = replace(base, error_rate=0.001 if bait else 0, jackpot=1000 * bait)
        came = truebit.simulate(game, SEED)
        least = f"{truebit.calculate_least_jackpot(game):,.0f}" if bait else "-"
        table.add_row(
            *(f"{bait:g}", f"{truebit.solve_rate(game):.3f}", str(truebit.count_checkers(game))),
            *(show(each, 3) for each in (came.checking, came.unchecked, came.cheated)),
            least,
        )
    yield table


SECTIONS: Mapping[str, tuple[Callable[[], Iterator[Check]], Callable[[], Iterator[Table]]]] = {
    "dave": (check_dave, tabulate_dave),
    "optimism": (check_optimism, tabulate_optimism),
    "prt": (check_prt, tabulate_prt),
    "bold": (check_bold, tabulate_bold),
    "verde": (check_verde, tabulate_verde),
    "fraud": (check_fraud, tabulate_fraud),
    "truebit": (check_truebit, tabulate_truebit),
}


def tabulate_summary() -> Iterator[Table]:
    """Yield every published value beside ours, with the command that makes it."""
    table = Table(title="Published values, and ours", caption="python docs/tools/economics.py")
    for name in ("what", "published, or derived", "ours", "difference", "command in docs/tools"):
        table.add_column(name)
    for section, (check, _) in SECTIONS.items():
        for row in check():
            remark = row.remark or ("none" if row.published == row.ours else "")
            table.add_row(row.what, row.published, row.ours, remark, f"economics.py {section}")
        table.add_section()
    yield table


def main() -> None:
    """Print the tables that are asked for."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("section", nargs="?", choices=SECTIONS, help="one source; else the summary")
    section = parser.parse_args().section
    console = Console(width=WIDTH, highlight=False)
    for table in SECTIONS[section][1]() if section else tabulate_summary():
        console.print(table)


if __name__ == "__main__":
    main()
