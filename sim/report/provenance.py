"""The provenance of a results folder in one line, which stands below each plot."""

from collections.abc import Mapping
from typing import Any

from moot.offchain.text import clean
from moot.sim.report.results import Results
from moot.sim.report.text import name_key

UNKNOWN = "unknown"
SHOWN = 4
_SEED = "set.seed"
"""The column of the key `seed`."""
"""Values of a varied key that are listed before it is only said how many there are."""


def describe(results: Results) -> str:
    """Return seeds and repetitions, fork, compiler, prices, what was varied and what was set."""
    found = results.provenance
    chain = _get(found, "config", "chain") or {}
    given = {*results.keys, *results.fixed}
    parts = [
        _describe_seeds(results),
        f"fork {_show(_find(found, 'fork'))}",
        f"Vyper {_show(_find(found, 'vyper'))}",
    ]
    for name, title in {"base_fee_gwei": "base fee", "tip_gwei": "tip"}.items():
        if f"chain.{name}" not in given:
            parts.append(f"{title} {_show(chain.get(name))} gwei")
    if "fidelity" not in given:
        parts.append(f"fidelity {_show(_get(found, 'config', 'fidelity'))}")
    parts += [f"moot {_show(_find(found, 'moot'))}", _describe_burn_in(results)]
    for key in results.keys:
        values = sorted(set(results.runs[key].drop_null().to_pylist()))
        parts.append(f"{name_key(key)} varied: {_show_values(values)}")
    for key, value in results.fixed.items():
        if key != _SEED:
            parts.append(f"{name_key(key)} {_show(value)}")
    return " · ".join(clean(part) for part in parts)


def _describe_seeds(results: Results) -> str:
    """Return which repetitions are in each mean, and the seeds with which they were run."""
    runs = results.runs.select(["rep", "seed"]).to_pylist()
    reps = sorted({row["rep"] for row in runs})
    seeds = list(dict.fromkeys(row["seed"] for row in sorted(runs, key=lambda row: row["rep"])))
    if not seeds:
        return f"seed {UNKNOWN}"
    told = ", ".join(map(str, seeds[:SHOWN]))
    if len(seeds) > SHOWN:
        told += f" and {len(seeds) - SHOWN} more in runs.csv"
    if len(reps) == 1:
        return f"seed {told}"
    return f"repetitions {reps[0]} to {reps[-1]} with the seeds {told}"


def _describe_burn_in(results: Results) -> str:
    """Return how many jobs of a run no figure counts."""
    counts = sorted(set(results.runs["burn_in"].to_pylist()))
    return f"burn-in {_show_values(counts)} jobs" if counts else f"burn-in {UNKNOWN}"


def _show_values(values: list[Any]) -> str:
    if len(values) > SHOWN:
        return f"{_show(values[0])} to {_show(values[-1])} ({len(values)} values)"
    return ", ".join(map(_show, values)) or UNKNOWN


def _show(value: object) -> str:
    if isinstance(value, float):
        return f"{value:g}"
    return UNKNOWN if value is None else str(value)


def _get(found: Mapping[str, Any], *names: str) -> Any:
    """Return what is found below names, one inside the other; None if there is nothing."""
    here: Any = found
    for name in names:
        here = here.get(name) if isinstance(here, Mapping) else None
    return here


def _find(found: Mapping[str, Any], name: str) -> Any:
    """Return a version, which stands beside the configuration or among `versions`."""
    return found.get(name, _get(found, "versions", name))
