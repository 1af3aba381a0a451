"""One run of a simulated market, from its configuration to its counts."""

import gc
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, redirect_stdout
from functools import lru_cache

from moot.offchain.errors import UsageError
from moot.offchain.plugins import forget_files
from moot.sim.economy.config import Config, Program
from moot.sim.economy.court import Court, MixedCourt, ModelledCourt, PlayedCourt
from moot.sim.economy.courtroom import Courtroom
from moot.sim.economy.market import Market
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
    court = make_court(config, progress)
    # What a user's code prints is not the result.
    with _resting(config), redirect_stdout(sys.stderr):
        market = Market(config, court, sink, run)
        counts = market.play(lambda done: progress("jobs", done, config.jobs))
    if counts.disagreements:
        raise DisagreementError(
            f"{counts.disagreements} of {counts.played} disputes end otherwise on the chain than "
            'in the table; run it again with fidelity = "played" and compare `games`',
            counts,
        )
    return counts


@contextmanager
def _resting(config: Config) -> Iterator[None]:
    """Let Python's collector of cycles rest during a modelled run, which leaves none behind.

    It would look at all open jobs again and again, for a tenth of the time.
    """
    is_resting = config.fidelity == "modelled" and gc.isenabled()
    if is_resting:
        gc.disable()
    try:
        yield
    finally:
        if is_resting:
            gc.enable()


def make_court(config: Config, progress: Progress = lambda *_: None) -> Court:
    """Return the court that is configured; courts of one process share what they know.

    Games are played on a contract of their own: what they cost depends on nothing that was before.
    """
    courtroom = _open_courtroom(config.program, config.chain.url)
    courtroom.progress = progress
    _check_conducts(config)
    if config.fidelity != "modelled":
        courtroom.leave_chain()
    if config.fidelity == "played":
        return PlayedCourt(courtroom)
    if config.fidelity == "modelled":
        return ModelledCourt(courtroom)
    stream = Stream(config.seed, "sample")
    return MixedCourt(courtroom, share=config.sample, stream=stream)


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
    courtroom = _open_courtroom(config.program, config.chain.url)
    courtroom.progress = progress
    if config.fidelity == "played":
        named = {group.strategy for group in (*config.providers, *config.watchers) if group.count}
        courtroom.check(sorted(filter(is_conduct, named)))
    else:
        _ = courtroom.gas


@lru_cache(maxsize=4)
def _open_courtroom(program: Program, url: str) -> Courtroom:
    return Courtroom(program, url)
