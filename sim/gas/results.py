"""Measures scenarios by their names; all scalar functions together are one more scenario."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Any

from moot.offchain.chain import Chain
from moot.offchain.chain.tester import Tester
from moot.offchain.errors import UsageError
from moot.sim.gas.deliveries import measure_deliveries
from moot.sim.gas.functions import FUNCTIONS, measure_function
from moot.sim.gas.play import Measured, Stage
from moot.sim.gas.promises import measure_promises
from moot.sim.gas.receipts import measure_challenge, measure_faults, measure_receipts
from moot.sim.gas.report import make_object
from moot.sim.gas.rows import Spread
from moot.sim.gas.scenarios import REFERENCE, SCENARIOS
from moot.sim.gas.snapshot import Line, make_lines

ALL_FUNCTIONS = "functions"
"""The name under which all scalar functions are measured."""
DEMANDS: Mapping[str, Callable[[Chain], Iterator[tuple[str, int]]]] = {
    "promises": measure_promises,
    "premiums": measure_deliveries,
    "receipts": measure_receipts,
    "faults": measure_faults,
    "challenge": measure_challenge,
}
"""What is measured call by call on contracts beside the referee, by the scenario's name."""
ABOUT: Mapping[str, str] = {name: it.about for name, it in SCENARIOS.items()} | {
    ALL_FUNCTIONS: "all scalar functions, each called by itself",
    "promises": "a client's promise and demands upon it, in the reference and in the largest job",
    "premiums": "a client's premium for a result that is demanded, in the same jobs",
    "receipts": "a service of receipts: bonds, balances, vouchers, batches",
    "faults": "what a provider of receipts loses its bond by without a match",
    "challenge": "a receipt of 512 tokens, one of them a lie, from challenge to payout",
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
        demands: the gas of each call on a contract beside the referee, by the scenario's name.
    """

    measured: Sequence[Measured]
    functions: Mapping[str, Sequence[int]]
    demands: Mapping[str, Mapping[str, Sequence[int]]]

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
            Line.of(scenario, name, len(costs), Spread.of(costs))
            for scenario, calls in self.demands.items()
            for name, costs in calls.items()
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

    def make_demands(self, scenario: str) -> dict[str, dict[str, float]]:
        """Return the figures of calls on a contract beside the referee by name."""
        calls = self.demands.get(scenario, {})
        return {name: _describe(costs) for name, costs in calls.items()}


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
        names: scenarios, `ALL_FUNCTIONS` and those of `DEMANDS`.
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
    demands = {name: _measure_demands(it) for name, it in DEMANDS.items() if name in names}
    return Results(measured, _measure_functions(functions, report), demands)


def _measure_demands(
    measure_calls: Callable[[Chain], Iterator[tuple[str, int]]],
) -> dict[str, list[int]]:
    found: dict[str, list[int]] = {}
    with Chain(Tester(8), None) as chain:
        for name, gas in measure_calls(chain):
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
