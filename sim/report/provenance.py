"""The provenance of a results folder in one line, which stands below each plot."""

from collections.abc import Mapping
from typing import Any

from moot.offchain.text import clean
from moot.sim.report.results import Results
from moot.sim.report.text import name_key

UNKNOWN = "unknown"
SHOWN = 4
"""Values of a varied key that are listed before it is only said how many there are."""


def describe(results: Results) -> str:
    """Return seed, fork, compiler, prices and what was varied."""
    found = results.provenance
    chain = _get(found, "config", "chain") or {}
    parts = [
        f"seed {_describe_seed(results)}",
        f"fork {_show(_find(found, 'fork'))}",
        f"Vyper {_show(_find(found, 'vyper'))}",
    ]
    for name, title in {"base_fee_gwei": "base fee", "tip_gwei": "tip"}.items():
        if f"chain.{name}" not in results.keys:
            parts.append(f"{title} {_show(chain.get(name))} gwei")
    parts += [
        f"fidelity {_show(_get(found, 'config', 'fidelity'))}",
        f"moot {_show(_find(found, 'moot'))}",
    ]
    for key in results.keys:
        values = sorted(set(results.runs[key].drop_null().to_pylist()))
        is_varied = " varied:" if len(values) > 1 else ""
        parts.append(f"{name_key(key)}{is_varied} {_show_values(values)}")
    return " · ".join(clean(part) for part in parts)


def _describe_seed(results: Results) -> str:
    """Return the seed of the first repetition, from which those of the others follow."""
    reps = len(set(results.runs["rep"].to_pylist()))
    seed = _show(_get(results.provenance, "config", "seed"))
    return f"{seed} ({reps} repetitions)" if reps > 1 else seed


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
