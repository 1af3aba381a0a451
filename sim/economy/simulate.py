"""One run of a simulated market, from its configuration to its counts."""

import sys
from collections.abc import Callable
from contextlib import redirect_stdout
from functools import lru_cache

from moot.offchain.collection import without_collection
from moot.offchain.errors import UsageError
from moot.offchain.plugins import forget_files
from moot.sim.economy.case_runner import CaseRunner
from moot.sim.economy.chain_rules import ChainRule, make_rule
from moot.sim.economy.config import Chain, Config, Program
from moot.sim.economy.market import Market
from moot.sim.economy.outcomes import MixedOutcomes, ModelledOutcomes, Outcomes, PlayedOutcomes
from moot.sim.economy.reporting import Counts, InvalidRunError, Sink
from moot.sim.economy.streams import Stream
from moot.sim.strategies import is_conduct

Progress = Callable[[str, int, int], None]
"""Is called during long work: its name, how much is done, and how much there is."""


class DisagreementError(InvalidRunError):
    """A dispute ends otherwise on the chain than the table of cases has it."""


def simulate(
    config: Config, sink: Sink, run: int = 0, progress: Progress = lambda *_: None
) -> Counts:
    """Run a market.

    Args:
        config: what is configured.
        sink: takes the rows of its tables.
        run: the run's number, the first value of every row.
        progress: is told how far the work is.

    Raises:
        UsageError: something that is configured is impossible.
        BrokenLedgerError: the money does not add up.
        DisagreementError: a dispute that was modelled ended otherwise on the chain.
    """
    forget_files()
    outcomes = make_outcomes(config, progress)
    # What a user's code prints is not the result.
    is_modelled = config.fidelity == "modelled"  # a run that leaves no cycles behind
    with without_collection(is_wanted=is_modelled), redirect_stdout(sys.stderr):
        market = Market(config, outcomes, sink, run)
        counts = market.play(lambda done: progress("jobs", done, config.jobs))
    if counts.disagreements:
        raise DisagreementError(
            f"{counts.disagreements} of {counts.played} disputes end otherwise on the chain than "
            'in the table; run it again with fidelity = "played" and compare `games`',
            counts,
        )
    return counts


def make_outcomes(config: Config, progress: Progress = lambda *_: None) -> Outcomes:
    """Return the outcomes that are configured; those of one process share what they know.

    Games are played on a contract of their own: what they cost depends on nothing that was before.
    """
    runner = _make_runner(config.program, config.chain.url, _find_rule(config.chain))
    runner.progress = progress
    _check_conducts(config)
    if config.fidelity != "modelled":
        runner.leave_chain()
    if config.fidelity == "played":
        return PlayedOutcomes(runner)
    if config.fidelity == "modelled":
        return ModelledOutcomes(runner)
    stream = Stream(config.seed, "sample")
    return MixedOutcomes(runner, share=config.sample, stream=stream)


def _check_conducts(config: Config) -> None:
    """Refuse tricks and cheats of a user's files where cases are kept by the names of conducts."""
    own = [it.strategy for it in config.providers if ".py:" in it.strategy]
    if config.fidelity != "played" and (found := next(filter(is_conduct, own), None)):
        raise UsageError(
            f"{found} is a trick or a cheat, and no table knows how jobs with it end; play them: "
            'set fidelity = "played"'
        )


def prepare(config: Config, progress: Progress = lambda *_: None) -> None:
    """Measure on this machine what runs of a configuration need, unless that is in the cache.

    Every process would do so itself otherwise, all of them at the same time. Where all is played,
    nothing is measured, and what is impossible is said before anything runs.

    Raises:
        UsageError: there is no such program, or a conduct is impossible with it.
    """
    _check_conducts(config)
    runner = _make_runner(config.program, config.chain.url, _find_rule(config.chain))
    runner.progress = progress
    if config.fidelity == "played":
        named = {group.strategy for group in (*config.providers, *config.watchers) if group.count}
        runner.check(sorted(filter(is_conduct, named)))
    else:
        _ = runner.gas


@lru_cache(maxsize=4)
def _make_runner(program: Program, url: str, rule: ChainRule | None) -> CaseRunner:
    return CaseRunner(program, url, rule)


def _find_rule(chain: Chain) -> ChainRule | None:
    """Return the rule of a configured chain; None where a call costs what was measured."""
    rule = make_rule(chain.kind, chain.base_fee_gwei, chain.tip_gwei)
    return None if rule.is_usual else rule
