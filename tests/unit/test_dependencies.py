"""The project imports exactly the packages that it declares as dependencies."""

import re
import sys
import tomllib
from collections.abc import Iterable
from importlib.metadata import packages_distributions
from pathlib import Path
from typing import Any

from tests.imports import list_imports

ROOT = Path(__file__).parents[2]
NOT_INSTALLED = {"gguf": "gguf", "llama_cpp": "llama-cpp-python"}
"""Packages that tests do without, and what brings them."""

PACKAGES = ("bench", "contracts", "moot/command", "offchain", "sim")


def normalise(name: str) -> str:
    """Return a distribution's name as indices compare it."""
    return re.sub(r"[-_.]+", "-", name).lower()


def imported() -> dict[str, str]:
    """Return the packages of others that ours import, each with a file that does."""
    found: dict[str, str] = {}
    for path in (path for package in PACKAGES for path in (ROOT / package).rglob("*.py")):
        names = {name.partition(".")[0] for name in list_imports(path)}
        found |= dict.fromkeys(names, str(path.relative_to(ROOT)))
    ours = {"moot", *sys.stdlib_module_names}
    return {name: path for name, path in found.items() if name not in ours}


def read_project() -> dict[str, Any]:
    """Return what `pyproject.toml` says of the project."""
    project: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    return project


def name_all(requirements: Iterable[str]) -> set[str]:
    """Return the distributions that are required."""
    return {normalise(re.split(r"[^\w.-]", requirement)[0]) for requirement in requirements}


def declared() -> set[str]:
    """Return the distributions that a user installs: requirements, and those of extras."""
    project = read_project()
    extras = project["optional-dependencies"]
    used = (
        extras[name] for name in ("examples", "learn", "llama-cpp", "ray", "sensitivity", "serve")
    )
    return name_all((*project["dependencies"], *(each for extra in used for each in extra)))


def test_imports_are_declared() -> None:
    """Whatever a module of ours imports is declared, and not left to what others happen to need."""
    distributions = packages_distributions()
    providers = {
        package: {normalise(name) for name in distributions.get(package, ())}
        or {NOT_INSTALLED.get(package, "")}
        for package in imported()
    }
    lacking = {name: path for name, path in imported().items() if not providers[name] & declared()}
    assert not lacking, "declare what these files import"


def test_requirements_are_imported() -> None:
    """Nothing is required of every user that no module of ours imports."""
    distributions = packages_distributions()
    provided = {normalise(name) for it in imported() for name in distributions.get(it, ())}
    assert name_all(read_project()["dependencies"]) <= provided


def test_requirements_are_pinned() -> None:
    """Every declared distribution has its version in the constraints."""
    lines = (ROOT / "constraints.txt").read_text().splitlines()
    pinned = {normalise(line.partition("==")[0]) for line in lines if "==" in line}
    assert declared() <= pinned
