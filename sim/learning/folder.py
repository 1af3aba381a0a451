"""The folder of a search: its state, so that it goes on, and what it has found."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any, cast

import msgspec

from moot.offchain.errors import CannotWrite, UsageError
from moot.sim.economy.config import Config, show_config
from moot.sim.estimates import Estimate
from moot.sim.learning.comparing import admit
from moot.sim.learning.curve import make_page, write_csv
from moot.sim.learning.training import Round, Search, State
from moot.sim.writing import write_whole

STATE = "search.json"
"""The file that says what is looked for, and how far the search is."""

MARKET = "market.toml"
"""The file of the market with the policy that was found: a configuration like any other."""

CURVE, PLOT = "curve.csv", "curve.html"
"""The files of the learning curve."""


def describe(search: Search) -> dict[str, Any]:
    """Return what is looked for as plain values; how many rounds it takes is left out."""
    plain = {name: getattr(search, name) for name in ("count", "candidates", "kept", "reps")}
    told = {"config": show_config(search.config), "conducts": list(search.conducts), **plain}
    return cast("dict[str, Any]", json.loads(json.dumps({**told, "seed": search.seed})))


def keep(folder: Path, search: Search, state: State) -> None:
    """Write down how far a search is, its curve, and the market with what it has found.

    Raises:
        CannotWrite: the operating system refuses.
    """
    told = {"search": describe(search), "state": asdict(state)}
    write_whole(folder / STATE, json.dumps(told, indent=1) + "\n")
    write_whole(folder / CURVE, write_csv(state.rounds))
    write_whole(folder / PLOT, make_page(state.rounds))
    write_whole(folder / MARKET, write_toml(show_config(find_market(search, state))))


def find_market(search: Search, state: State) -> Config:
    """Return the market with the policy that was found; its burn-in is that of the market."""
    attack = admit(search.config, search.name(state.weights), search.count).attack
    return msgspec.structs.replace(attack, burn_in=search.config.burn_in)


def recall(folder: Path, search: Search) -> State | None:
    """Return how far the same search is that was begun in a folder; None if none was.

    Raises:
        UsageError: the folder has another search, or something else.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise CannotWrite(f"cannot make {folder}: {error.strerror}; choose another") from error
    path = folder / STATE
    if not path.exists():
        if any(folder.iterdir()):
            raise UsageError(f"{folder} has other files; choose a new folder")
        return None
    try:
        told = json.loads(path.read_text(encoding="utf-8"))
        is_same, state = told["search"] == describe(search), _read_state(told["state"])
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise UsageError(f"{path} is not what a search leaves; choose a new folder") from error
    if not is_same:
        raise UsageError(f"{folder} has another search; choose a new folder, or ask for the same")
    return state


def _read_state(told: Mapping[str, Any]) -> State:
    rounds = [Round(**{**it, "policy": Estimate(**it["policy"])}) for it in told["rounds"]]
    return State(**{**told, "rounds": rounds})


def write_toml(values: Mapping[str, Any]) -> str:
    """Return plain values as TOML: numbers, texts, tables, and lists of tables."""
    plain = {key: it for key, it in values.items() if not isinstance(it, dict | list | tuple)}
    lines = [f"{key} = {_write(value)}" for key, value in plain.items()]
    for key, value in values.items():
        if isinstance(value, dict):
            lines += ["", f"[{key}]", *_write_lines(value)]
        elif isinstance(value, list | tuple):
            for one in value:
                lines += ["", f"[[{key}]]", *_write_lines(one)]
            if not value:
                lines.insert(0, f"{key} = []")
    return "\n".join(lines) + "\n"


def _write_lines(values: Mapping[str, Any]) -> Sequence[str]:
    return [f"{key} = {_write(value)}" for key, value in values.items()]


def _write(value: object) -> str:
    if isinstance(value, dict):
        return "{ " + ", ".join(_write_lines(value)) + " }" if value else "{}"
    return json.dumps(value)
