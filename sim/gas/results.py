"""Measures scenarios by their names; all scalar functions together are one more scenario."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Any

from offchain.chain import Chain
from offchain.chain.tester import Tester
from offchain.errors import UsageError
from sim.gas.functions import FUNCTIONS, measure_function
from sim.gas.play import Measured, Stage
from sim.gas.promises import measure_promises
from sim.gas.report import make_object
from sim.gas.rows import Spread
from sim.gas.scenarios import REFERENCE, SCENARIOS
from sim.gas.snapshot import Line, make_lines

ALL_FUNCTIONS = "functions"
"""The name under which all scalar functions are measured."""
PROMISES = "promises"
"""The name under which clients' promises and demands upon them are measured."""
ABOUT: Mapping[str, str] = {name: it.about for name, it in SCENARIOS.items()} | {
    ALL_FUNCTIONS: "all scalar functions, each called by itself",
    PROMISES: "a client's promise and demands upon it, in the reference and in the largest job",
}
"""What happens in each scenario, in a few words."""
NAMES = tuple(ABOUT)

Report = Callable[[str, int, int], None]


@dataclass(frozen=True, slots=True)
class Results:
    """The results of a measurement.

    Attributes:
        measured: the scenarios.
        functions: the gas of the scalar functions that were measured, for each row of operands.
        promises: the gas of each call about a promise.
    """

    measured: Sequence[Measured]
    functions: Mapping[str, Sequence[int]]
    promises: Mapping[str, Sequence[int]]

    @property
    def lines(self) -> list[Line]:
        """The lines of a snapshot that has these results."""
        lines = [line for one in self.measured for line in make_lines(one)]
        if set(self.functions) == set(FUNCTIONS):
            lines += [
                Line.of(ALL_FUNCTIONS, name, len(costs), Spread.of(costs))
                for name, costs in self.functions.items()
            ]
        lines += [
            Line.of(PROMISES, name, len(costs), Spread.of(costs))
            for name, costs in self.promises.items()
        ]
        return lines

    def make_objects(self) -> list[dict[str, Any]]:
        """Return the scenarios' figures, each as one object for JSON."""
        objects = [make_object(one) for one in self.measured]
        for entry in objects:
            if entry["scenario"] == REFERENCE.name:
                entry["fma_gas_mean"] = fmean(self.functions["fma"])
        return objects

    def make_functions(self) -> dict[str, dict[str, float]]:
        """Return the scalar functions' figures by name."""
        return {name: _describe(costs) for name, costs in self.functions.items()}

    def make_promises(self) -> dict[str, dict[str, float]]:
        """Return the figures of calls about a promise by name."""
        return {name: _describe(costs) for name, costs in self.promises.items()}


def _describe(costs: Sequence[int]) -> dict[str, float]:
    spread = Spread.of(costs)
    return {
        "count": len(costs),
        "min": spread.minimum,
        "median": spread.median,
        "max": spread.maximum,
        "mean": fmean(costs),
    }


def check_names(names: Sequence[str]) -> Sequence[str]:
    """Return the given names of scenarios, or all names when none is given.

    Raises:
        UsageError: nothing is called so.
    """
    for name in names:
        if name not in NAMES:
            raise UsageError.unknown("scenario", name, NAMES, lister="moot gas scenarios")
    return names or NAMES


def measure(names: Sequence[str], report: Report, stage: Stage | None = None) -> Results:
    """Measure what is named; the order has no effect on what anything costs.

    Args:
        names: scenarios, `ALL_FUNCTIONS` and `PROMISES`.
        report: told how far it has come.
        stage: where scenarios are played; a new one if there is none.
    """
    scenarios = [SCENARIOS[name] for name in names if name in SCENARIOS]
    stage = stage or Stage()
    measured = []
    for scenario in scenarios:
        measured.append(stage.measure(scenario))
        report("scenarios", len(measured), len(scenarios))
    functions: Sequence[str] = ("fma",) if REFERENCE.name in names else ()
    if ALL_FUNCTIONS in names:
        functions = tuple(FUNCTIONS)
    promises = _measure_promises() if PROMISES in names else {}
    return Results(measured, _measure_functions(functions, report), promises)


def _measure_promises() -> dict[str, list[int]]:
    found: dict[str, list[int]] = {}
    with Chain(Tester(4), None) as chain:
        for name, gas in measure_promises(chain):
            found.setdefault(name, []).append(gas)
    return found


def _measure_functions(names: Sequence[str], report: Report) -> dict[str, list[int]]:
    found: dict[str, list[int]] = {}
    if names:
        with Chain(Tester(1), None) as chain:
            for name in names:
                found[name] = measure_function(chain, name)
                report("functions", len(found), len(names))
    return found
