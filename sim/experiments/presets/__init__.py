"""Presets: configurations that are found by name, one TOML file each."""

import tomllib
from pathlib import Path
from typing import Any

from moot.offchain.errors import UsageError
from moot.sim.economy.config import Config, load_config

_FOLDER = Path(__file__).parent


def list_presets() -> dict[str, str]:
    """Return what each preset is about, its file's first line, by its name."""
    return {
        path.stem: path.read_text(encoding="utf-8").partition("\n")[0].lstrip("# ")
        for path in sorted(_FOLDER.glob("*.toml"))
    }


def read_preset(name: str) -> dict[str, Any]:
    """Return what the file of a preset says: the keys that differ from the defaults."""
    return tomllib.loads((_FOLDER / f"{name}.toml").read_text(encoding="utf-8"))


def open_config(name: str) -> Config:
    """Return the configuration of a preset, or of a TOML file.

    Raises:
        UsageError: there is neither, or it is no configuration.
    """
    presets = list_presets()
    if name in presets:
        return load_config(_FOLDER / f"{name}.toml")
    path = Path(name)
    if not path.exists() and path.suffix != ".toml":
        raise UsageError.unknown("preset or file", name, presets, "presets")
    return load_config(path)
