"""Time in a market: checks take some and may be late, and slots are held as long as work takes."""

from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from moot.command.main import cli
from moot.sim.economy.audits import is_short, list_shortfalls
from moot.sim.economy.casting import STAKES
from moot.sim.economy.checks import MOST_BLOCKS, SHOWN_BLOCKS, SOON_BLOCKS
from moot.sim.economy.config import GWEI
from moot.sim.report.results import Results
from moot.sim.report.summary import summarise
from moot.sim.theory.capacity import calculate_audit_rate, calculate_loss, calculate_threshold
from moot.sim.theory.fraud import FraudGame
from tests.case_helpers import run_case
from tests.economy_helpers import FixedOutcomes, make_config, make_group, play

HALF = {"name": "constant", "rate": 0.5}
ALWAYS = {"name": "constant", "rate": 1.0}
CALM = {"volatility": 0.0}


def list_rows(counts: Any) -> list[dict[str, Any]]:
    """Return counts as the rows of `runs` that have them."""
    return [{name: getattr(counts, name) for name in counts.__dataclass_fields__}]


def test_too_few_watchers_are_told_of() -> None:
    """Of three jobs a block two watchers audit a fifth, and it is said, with the reason."""
    config = make_config(
        jobs=3000,
        clients={"jobs_per_block": 3.0},
        providers=[make_group("honest", count=20)],
        watchers=[make_group("watcher", count=2, slots=8)],
        audit=HALF,
    )
    _, counts = play(config, FixedOutcomes())
    assert counts.audit_rate_asked == pytest.approx(0.5)
    theory = calculate_audit_rate(0.5, 3.0, watchers=2, slots=8, blocks=24)
    assert counts.audit_rate_achieved == pytest.approx(theory, rel=0.07)
    assert counts.audit_rate_achieved == counts.audited / counts.jobs < 0.3
    (told,) = list_shortfalls(list_rows(counts))
    assert "50.0%" in told
    assert f"{counts.audit_rate_achieved:.1%}" in told
    assert f"{counts.busy:,} jobs no watcher that was asked had a free slot" in told


def test_enough_watchers_are_not_worth_a_word() -> None:
    """Where all audits happen, but for chance, there is no warning, however few jobs there are."""
    for jobs in (5, 100, 2000):
        _, counts = play(make_config(jobs=jobs, audit=HALF), FixedOutcomes())
        assert list_shortfalls(list_rows(counts)) == []
    assert counts.audit_rate_achieved == pytest.approx(0.5, abs=0.03)
    quiet = {"audit_rate_asked": 0.0, "audit_rate_achieved": 0.0, "jobs": 9, "unserved": 0}
    assert not is_short(quiet)


@pytest.mark.parametrize(
    ("watchers", "why"),
    [
        ([], "there are no watchers"),
        ([make_group("sleeping-watcher", count=2)], "did not look"),
        ([make_group("watcher", count=2, blocks=MOST_BLOCKS + 1)], "took longer than a claim"),
        ([make_group("watcher", slots=1)], "free slot"),
    ],
)
def test_a_shortfall_says_why(watchers: list[Any], why: str) -> None:
    """The commonest reason is named: nobody there, nobody who looks, too late, or too busy."""
    config = make_config(jobs=500, audit=HALF, watchers=watchers)
    _, counts = play(config, FixedOutcomes())
    (told,) = list_shortfalls([*list_rows(counts), *list_rows(counts)])
    assert why in told
    assert "2 of 2 runs" in told


def test_a_check_that_is_too_late_joins_no_dispute() -> None:
    """One block decides whether a lie is caught or its wrong answer accepted, and events say so."""
    lies = [make_group("lazy", count=4)]
    for blocks in (MOST_BLOCKS, MOST_BLOCKS + 1):
        watchers = [make_group("watcher", count=2, blocks=blocks)]
        kept, counts = play(
            make_config(providers=lies, watchers=watchers, audit=ALWAYS), FixedOutcomes()
        )
        late = [row for row in kept.read("events") if row["kind"] == "late-check"]
        if blocks == MOST_BLOCKS:
            assert counts.caught == counts.audited == counts.jobs == 200
            assert not late
            continue
        assert counts.wrong == counts.late == len(late) == 200
        assert counts.caught == counts.audited == counts.checked == counts.disputed == 0
        assert all("a wrong answer was accepted" in row["detail"] for row in late)
        (first, *_) = (row for row in kept.read("agents") if row["role"] == "watcher")
        assert first["work_gwei"] == first["jobs"] * 20_000_000 == -first["profit_gwei"] > 0


def test_a_slow_check_makes_the_dispute_begin_later() -> None:
    """Each block beyond those that revealing takes is one more until the job is settled."""
    lies = [make_group("lazy", count=4)]
    waited = {}
    for blocks in (1, SOON_BLOCKS, SOON_BLOCKS + 7):
        watchers = [make_group("watcher", count=2, blocks=blocks)]
        kept, _ = play(
            make_config(providers=lies, watchers=watchers, audit=ALWAYS), FixedOutcomes()
        )
        (waited[blocks],) = {row["settled"] - row["arrived"] for row in kept.read("jobs")}
    assert waited[1] == waited[SOON_BLOCKS] == waited[SOON_BLOCKS + 7] - 7


def test_times_of_checks_are_those_of_a_case() -> None:
    """Claims are shown, and may be challenged first and last, in the blocks that games have."""
    blocks = {move.call: move.block for move in run_case("lazy", "watcher").case.moves}
    assert blocks["reveal"] == SHOWN_BLOCKS
    assert blocks["join"] == SHOWN_BLOCKS + SOON_BLOCKS
    late = {move.call: move.block for move in run_case("honest", "late-lie").case.moves}
    assert late["join"] == SHOWN_BLOCKS + MOST_BLOCKS
    assert late["join"] == STAKES.commit_blocks + STAKES.reveal_blocks + STAKES.window_blocks


def serve(conduct: str, blocks: int = 50, **values: Any) -> float:
    """Return the share of jobs that one provider with two slots serves."""
    groups = [make_group(conduct, slots=2, blocks=blocks)]
    config = make_config(jobs=2000, providers=groups, chain=CALM, **values)
    _, counts = play(config, FixedOutcomes(work={"early-stop": 0.5}))
    return 1 - counts.unserved / counts.jobs


@pytest.mark.parametrize(("conduct", "work"), [("honest", 1.0), ("early-stop", 0.5), ("lazy", 0.0)])
def test_a_lie_frees_its_slot(conduct: str, work: float) -> None:
    """A slot is held for the share of the work that is done: jobs are lost as Erlang has it."""
    clients = {"jobs_per_block": 0.05}
    expected = 1 - calculate_loss(2, 0.05 * 50 * work)
    assert serve(conduct, clients=clients, audit={"name": "constant", "rate": 0.0}) == (
        pytest.approx(expected, abs=0.04)
    )


def test_settling_holds_no_slot() -> None:
    """How long a dispute takes does not matter to how many jobs a provider runs."""
    clients = {"jobs_per_block": 0.05}
    assert serve("honest", blocks=1, clients=clients) == pytest.approx(1.0, abs=0.01)


def find_threshold(jobs_per_block: float) -> float:
    """Return the audit rate at which one provider earns by lies what it earns by honesty."""
    profits = {}
    for conduct, rate in (("honest", 0.0), ("lazy", 0.0), ("lazy", 0.5)):
        config = make_config(
            jobs=3000,
            providers=[make_group(conduct, slots=2)],
            clients={"jobs_per_block": jobs_per_block},
            audit={"name": "constant", "rate": rate},
            chain=CALM,
        )
        kept, counts = play(config, FixedOutcomes())
        (row,) = (row for row in kept.read("agents") if row["role"] == "provider")
        profits[conduct, rate] = row["profit_gwei"], counts.audit_rate_achieved
    (honest, _), (free, _), (caught, achieved) = profits.values()
    return float(achieved * (free - honest) / (free - caught))


@pytest.mark.parametrize("jobs_per_block", [0.01, 0.05, 0.5])
def test_the_threshold_of_a_lie_counts_the_slot_that_it_frees(jobs_per_block: float) -> None:
    """Where capacity binds, it takes more audits until lying stops to pay, by the closed form."""
    fee = 150_000 * 21 / GWEI
    game = FraudGame(0.02, 0.0, 0.08, 1.0 + fee, 0.02, 0.0, 1.0)
    share = 1 - calculate_loss(2, jobs_per_block * 50)
    found = find_threshold(jobs_per_block)
    assert found == pytest.approx(calculate_threshold(game, fee, share), rel=0.1)
    if share < 0.5:
        assert found > 1.5 * calculate_threshold(game, fee)
    assert calculate_threshold(game, fee) == pytest.approx(0.02 / (0.08 + 1.0 + fee))


def test_capacity_has_its_closed_form() -> None:
    """Erlang's formula is that of the textbook; nobody waits without jobs, all without slots."""
    assert calculate_loss(1, 1.0) == pytest.approx(1 / 2)
    assert calculate_loss(2, 2.0) == pytest.approx(2 / 5)
    assert calculate_loss(10, 0.0) == 0
    assert calculate_loss(0, 3.0) == 1
    assert calculate_audit_rate(0.5, 1.0, watchers=0, slots=1, blocks=1) == 0


def test_a_folder_has_both_rates(tmp_path: Path) -> None:
    """The rates are columns of `runs`, and the warning is a field of the results."""
    import moot  # noqa: PLC0415 - its first use imports much

    few = {"set": {"clients.jobs_per_block": 3.0, "audit.rate": 0.5}, "jobs": 600}
    results = moot.simulate("baseline", output=tmp_path / "few", **few)
    (row,) = results.to_arrow("runs").to_pylist()
    assert row["audit_rate_achieved"] < 0.4 < row["audit_rate_asked"]
    assert len(results.warnings) == 1
    assert results.to_dict()["warnings"] == list(results.warnings)
    assert moot.simulate("baseline", jobs=600).warnings == ()
    summary = summarise(Results(tmp_path / "few"))
    shown = dict(zip(summary.heads, summary.rows[0], strict=True))
    assert shown["audits asked for (mean)"] == "50.0%"
    assert shown["audits made (mean)"] == f"{row['audit_rate_achieved']:.1%}"
    assert f"Audits: {results.warnings[0]}." in summary.notices


@pytest.mark.parametrize("rest", [(), ("--json",)])
def test_the_command_warns_in_one_line(rest: tuple[str, ...]) -> None:
    """`moot market` says on stderr that audits fall short, once, and nothing where they do not."""
    few = ("--set", "clients.jobs_per_block=3.0", "--set", "audit.rate=0.5")
    told = CliRunner().invoke(cli, ["market", "baseline", "--jobs", "600", *few, *rest])
    assert told.exit_code == 0
    (line,) = told.stderr.strip().splitlines()
    assert line.startswith("moot: warning: the rule asks for audits of 50.0% of the jobs, and ")
    assert "asked for: 50.0%" in told.stdout or '"warnings": [\n' in told.stdout
    quiet = CliRunner().invoke(cli, ["market", "baseline", "--jobs", "600", *rest])
    assert quiet.exit_code == 0
    assert not quiet.stderr
