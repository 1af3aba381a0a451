"""Answers about markets in Python: honest twins, what decides a market, and the best design."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from moot.answered import Design, Sensitivity, Twins
from moot.asking import ask
from moot.offchain.errors import UsageError
from moot.sim.analysis.design import check_numbers, find_design
from moot.sim.analysis.goals import Goal, parse_limit
from moot.sim.analysis.journal import FILE, Journal
from moot.sim.analysis.measures import check_measures, measure
from moot.sim.analysis.meter import Meter, describe_files
from moot.sim.analysis.sensitivity import RESAMPLES, check_samples, measure_sensitivity
from moot.sim.analysis.space import make_dimensions, make_space
from moot.sim.economy.audits import list_shortfalls
from moot.sim.economy.config import Config
from moot.sim.economy.plugins import holding
from moot.sim.estimates import estimate_mean
from moot.sim.experiments.engines import Engine, Here, Processes
from moot.sim.experiments.parts import Progress, ignore

if TYPE_CHECKING:
    from moot.sim.analysis.trials import Laboratory

MEASURES = ("wrong_share", "client_eth")
"""What sensitivity is measured of, unless something is named."""


def twins(
    config: Config | str = "baseline",
    *,
    strategy: str | None = None,
    reps: int = 10,
    set: Mapping[str, Any] | None = None,  # noqa: A002 - as the option of the command line
    processes: int = 1,
    engine: Engine | None = None,
    progress: Progress = ignore,
    **settings: Any,
) -> Twins:
    """Compare a market with its honest twin, in which nobody attacks.

    Args:
        config: as of `simulate`; `set` and `settings`, too.
        strategy: only this strategy is the attack; None for all providers that are not honest.
        reps: repetitions, with other seeds; intervals of 95% are over these.
        set: values by their dotted keys.
        processes: how many play at once; 1 where something is held in memory.
        engine: what plays the runs, instead of so many processes.
        progress: is called with a name, how much of it is done, and how much there is.
        settings: as of `simulate`.

    Raises:
        UsageError: a key is unknown, a value impossible, or nobody attacks.
        TrialError: a run failed.

    Example:
        >>> import moot
        >>> gain = moot.twins("weak-audit", strategy="lazy", reps=2, jobs=60).found["gain_eth"]
        >>> gain.low <= gain.value <= gain.high
        True
    """
    from moot.sim.analysis import twins as analysis  # noqa: PLC0415 - imports numpy

    asked = ask(config, set or {}, settings)
    with (
        holding(asked.held),
        _open(asked.config, asked.held, processes, engine, progress) as laboratory,
    ):
        attackers = analysis.choose_attackers(asked.config, strategy)
        contest = analysis.make_contest(asked.config, attackers)
        (pairs,) = analysis.try_pairs(laboratory, [contest], reps)
    measured = [measure(pair.attack) for pair in pairs]
    found = {name: estimate_mean([it[name] for it in measured]) for name in measured[0]}
    return Twins(attackers, reps, found | analysis.compare_twins(pairs))


def sensitivity(
    config: Config | str,
    ranges: Mapping[str, Any],
    measures: Sequence[str] = MEASURES,
    *,
    samples: int = 64,
    resamples: int = RESAMPLES,
    strategy: str | None = None,
    set: Mapping[str, Any] | None = None,  # noqa: A002 - as the option of the command line
    output: Path | str | None = None,
    processes: int = 1,
    engine: Engine | None = None,
    progress: Progress = ignore,
    **settings: Any,
) -> Sensitivity:
    """Measure which keys of a market, or chance, decide what it comes to: Sobol indices by SALib.

    Args:
        config: as of `simulate`; `set` and `settings`, too. Its seed is that of the samples.
        ranges: by dotted keys, what each may be: a tuple of two ends, a list of choices, or a
            text such as `0.1:2`, `0.001:0.1:log` or `constant,proportional`.
        measures: names that `moot answers measures` lists.
        samples: of Sobol's sequence, a power of 2; each takes a run for every key, and three more.
        resamples: of the bootstrap of which intervals are made.
        strategy: whose gain is measured, by a measure that is a gain; None for all attackers.
        set: values by their dotted keys.
        output: a folder in which all trials are noted as they are done, to go on from there.
        processes: how many play at once; 1 where something is held in memory.
        engine: what plays the runs, instead of so many processes.
        progress: is called with a name, how much of it is done, and how much there is.
        settings: as of `simulate`.

    Raises:
        UsageError: a key or measure is unknown, a value impossible, or SALib is not installed.
        TrialError: a run failed.

    Example:
        >>> import moot
        >>> told = moot.sensitivity("weak-audit", {"audit.rate": (0, 1)}, samples=8, jobs=40)
        >>> told.found.markets
        32
    """
    check_measures(measures)
    check_samples(samples, resamples)
    with _measuring(
        config, ranges, measures, strategy, set, output, processes, engine, progress, settings
    ) as meter:
        seed = meter.space.config.seed
        found = measure_sensitivity(meter, samples, resamples, seed)
        warnings = tuple(list_shortfalls(meter.laboratory.played))
    return Sensitivity(_name(config), found, warnings)


def design(
    config: Config | str,
    ranges: Mapping[str, Any],
    *,
    minimize: str | None = None,
    maximize: str | None = None,
    where: Sequence[str] = (),
    trials: int = 128,
    reps: int = 4,
    fresh: int = 20,
    strategy: str | None = None,
    set: Mapping[str, Any] | None = None,  # noqa: A002 - as the option of the command line
    output: Path | str | None = None,
    processes: int = 1,
    engine: Engine | None = None,
    progress: Progress = ignore,
    **settings: Any,
) -> Design:
    """Search for values of keys at which a measure is best, under limits on others.

    Args:
        config: as of `simulate`; `set` and `settings`, too. Its seed is that of the search.
        ranges: as of `sensitivity`.
        minimize: the measure of which less is better; or else
        maximize: that of which more is.
        where: limits, such as `wrong_share <= 0.01`.
        trials: designs that are looked at, at most.
        reps: seeds of each of them, the same for all.
        fresh: other seeds, with which the best three are played again.
        strategy: whose gain is measured, by a measure that is a gain; None for all attackers.
        set: values by their dotted keys.
        output: a folder in which all trials are noted as they are done, to go on from there.
        processes: how many play at once; 1 where something is held in memory.
        engine: what plays the runs, instead of so many processes.
        progress: is called with a name, how much of it is done, and how much there is.
        settings: as of `simulate`.

    Returns:
        What was found; `found.best` is None, and `found.binding` says which limits bind, where
        no design meets them all.

    Raises:
        UsageError: a key or measure is unknown, or a value impossible.
        TrialError: a run failed.

    Example:
        >>> import moot
        >>> wish = {"maximize": "client_eth", "where": ["right_share >= 2"]}
        >>> small = {"trials": 8, "reps": 1, "fresh": 2, "jobs": 40}
        >>> found = moot.design("weak-audit", {"bond.eth": (0.2, 2)}, **wish, **small).found
        >>> found.best is None, "right_share >= 2" in found.binding
        (True, True)
    """
    goal = make_goal(minimize, maximize)
    check_numbers(trials, reps, fresh)
    limits = [parse_limit(text) for text in where]
    names = tuple(dict.fromkeys([goal.measure, *(it.measure for it in limits)]))
    with _measuring(
        config, ranges, names, strategy, set, output, processes, engine, progress, settings
    ) as meter:
        seed = meter.space.config.seed
        found = find_design(meter, goal, limits, trials, reps, fresh, seed)
        warnings = tuple(list_shortfalls(meter.laboratory.played))
    return Design(_name(config), found, warnings)


def make_goal(minimize: str | None, maximize: str | None) -> Goal:
    """Return what is to be best.

    Raises:
        UsageError: there is none, or two, or no such measure.
    """
    if (minimize is None) == (maximize is None):
        raise UsageError("a design is best by one measure; name it as minimize, or as maximize")
    goal = Goal(minimize or maximize or "", maximize is not None)
    check_measures([goal.measure])
    return goal


def _name(config: Config | str) -> str:
    return config if isinstance(config, str) else "a market"


@contextmanager
def _measuring(
    config: Config | str,
    ranges: Mapping[str, Any],
    measures: Sequence[str],
    strategy: str | None,
    values: Mapping[str, Any] | None,
    output: Path | str | None,
    processes: int,
    engine: Engine | None,
    progress: Progress,
    settings: Mapping[str, Any],
) -> Iterator[Meter]:
    """Make ready to measure markets of a space."""
    asked = ask(config, values or {}, settings)
    with holding(asked.held):
        space = make_space(asked.config, make_dimensions(ranges))
        journal = Journal()
        if output is not None and not asked.held:
            journal = Journal(Path(output) / FILE, describe_files(space))
        elif output is not None:
            raise UsageError("what is held in memory can't be told apart later; leave output out")
        with _open(asked.config, asked.held, processes, engine, progress) as laboratory:
            yield Meter(laboratory, space, measures, strategy, journal)


@contextmanager
def _open(
    config: Config,
    held: Mapping[str, Any],
    processes: int,
    engine: Engine | None,
    progress: Progress,
) -> "Iterator[Laboratory]":
    """Make ready to play a market and others that are like it, by the engine that is asked for."""
    from moot.sim.analysis.trials import open_laboratory  # noqa: PLC0415 - imports pyarrow

    if held and (processes > 1 or engine is not None):
        raise UsageError(
            "a rule or strategy that is held in memory is played in this process; leave "
            "`processes` and `engine` out, or name it as path/to/file.py:Class"
        )
    chosen = engine or (Processes(processes) if processes > 1 else Here())
    with open_laboratory(config, chosen, progress) as laboratory:
        yield laboratory
