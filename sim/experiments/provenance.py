"""The provenance of results: what was run, and with which versions; no time and no host."""

import hashlib
import json
import sys
from collections.abc import Iterator
from importlib.metadata import version
from pathlib import Path
from typing import Any

from moot.contracts.compiler import EVM_VERSION
from moot.sim.economy.config import IN_PROCESS, Config, show_config
from moot.sim.experiments.plan import Plan

_ROOT = Path(__file__).parents[2]
_CODE = ("contracts", "offchain", "sim")
_OTHERS = (
    *("adversary", "analysis", "live", "pages", "report", "theory", "viewer"),
    *("experiments/assumptions.py", "experiments/assumptions.toml", "experiments/presets"),
)
"""What of `sim` no result depends on: it shows or explains them, or is in the configuration."""
_SUFFIXES = frozenset({".py", ".vy", ".vyi", ".json", ".toml", ".csv"})
"""Of files that decide results: the gas of calls is in JSON, chains in TOML, traces in CSV."""

_GIVEN = frozenset({".toml", ".csv", ".parquet"})
"""Of files of the user's that a configuration names as they are: chains and traces."""

_DIGEST_CHARACTERS = 16


def describe_plan(plan: Plan) -> dict[str, Any]:
    """Return what a results folder says about where its tables come from.

    Returns:
        `config`: the configuration before anything is varied, defaults included; `keys`: the
        values of each varied key; `reps`; `versions`, in which `code` stands for all that decides
        results; and `files`: a digest of each file of the user's that the configuration names.
    """
    files = sorted({name for _, config in plan.settings for name in _find_files(config)})
    return {
        "config": _hide_node(show_config(plan.base)),
        "keys": {one.key: list(one.values) for one in plan.varied},
        "reps": plan.reps,
        "versions": describe_versions(),
        "files": {name: _digest([Path(name)]) for name in files},
    }


def describe_versions() -> dict[str, str]:
    """Return the versions of all that decides results."""
    return {
        "moot": version("moot"),
        "code": _digest_code(),
        "python": ".".join(map(str, sys.version_info[:3])),
        "numpy": version("numpy"),
        "torch": version("torch"),
        "vyper": version("vyper"),
        "py-evm": version("py-evm"),
        "fork": EVM_VERSION,
        "pyarrow": version("pyarrow"),
    }


def format_provenance(plan: Plan) -> str:
    """Return the text of `run.json`."""
    return json.dumps(describe_plan(plan), indent=2) + "\n"


def _hide_node(config: dict[str, Any]) -> dict[str, Any]:
    """Return a configuration without the address of a node, of which a key may be part."""
    chain = config["chain"]
    url = chain["url"] if chain["url"] == IN_PROCESS else "a node"
    return config | {"chain": chain | {"url": url}}


def _find_files(config: Config) -> Iterator[str]:
    """Yield the user's files that a configuration names: `path/to/file.py:Class`, and its data."""
    if config.program.data and Path(config.program.data).is_file():
        yield config.program.data
    for text in _list_texts(show_config(config)):
        if Path(text).suffix in _GIVEN and Path(text).is_file():
            yield text
        path, colon, _ = text.rpartition(":")
        if colon and path.endswith(".py") and Path(path).is_file():
            yield path


def _list_texts(values: object) -> Iterator[str]:
    if isinstance(values, str):
        yield values
    elif isinstance(values, dict):
        for value in values.values():
            yield from _list_texts(value)
    elif isinstance(values, list | tuple):
        for value in values:
            yield from _list_texts(value)


def _digest_code() -> str:
    """Return a digest of our sources, those of the contracts and the gas of calls included."""
    others = {_ROOT / "sim" / name for name in _OTHERS}
    return _digest(
        sorted(
            path
            for package in _CODE
            for path in (_ROOT / package).rglob("*")
            if path.suffix in _SUFFIXES and not others.intersection((path, *path.parents))
        )
    )


def _digest(paths: list[Path]) -> str:
    """Return the beginning of the SHA-256 of files and, of ours, their names."""
    whole = hashlib.sha256()
    for path in paths:
        name = path.relative_to(_ROOT) if path.is_relative_to(_ROOT) else Path(path.name)
        text = path.read_bytes()
        whole.update(f"{name}\0{len(text)}\0".encode() + text)
    return whole.hexdigest()[:_DIGEST_CHARACTERS]
