"""The setting of a dispute: what is delegated, how it is run, and for what money."""

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from moot.contracts.model.types import MIN_BOND_WEI
from moot.contracts.reasons import LeafMode
from moot.offchain.arithmetic.base import Arithmetic
from moot.offchain.arithmetic.table import find_arithmetic
from moot.offchain.errors import UsageError
from moot.offchain.programs.catalogue import NAMES
from moot.offchain.providers.behaviour import Behaviour
from moot.offchain.providers.cheats.reading import read_cheat
from moot.offchain.providers.task import check_interval

if TYPE_CHECKING:
    from moot.offchain.frontend.recipe import Recipe

LEAVES = {"scalar": LeafMode.SCALAR, "operator": LeafMode.OPERATOR}


@dataclass(frozen=True, slots=True)
class Setting:
    """The settings of a dispute; their names are those of the command line's options."""

    program: str = "gpt2"
    size: str = "tiny"
    steps: int = 16
    checkpoint_every: int = 4
    cheat: str | Behaviour = "wrong-output"
    arithmetic: str = "ordered"
    leaf: str = "scalar"
    chain: str = "tester"
    seed: int = 0
    data: Path | None = None
    precision: str = "fp32"
    inference: bool = False
    trust_capture: bool = False
    threads: int | None = None
    honest: int = 1
    bond_wei: int = 10**18


def check_setting(setting: Setting) -> None:
    """Refuse what cannot be played, before anything slow begins."""
    check_leaf(setting.leaf, find_arithmetic(setting.arithmetic))
    if setting.cheat != "none":
        read_cheat(setting.cheat)
    check_bond(setting.bond_wei)
    check_interval(setting.checkpoint_every, setting.steps)


def check_leaf(leaf: str, arithmetic: Arithmetic) -> None:
    """Refuse who can't decide the last operation of an arithmetic."""
    if leaf not in LEAVES:
        raise UsageError.unknown("leaf", leaf, LEAVES, "leaves")
    if leaf == "scalar" and not arithmetic.ends_on_chain:
        raise UsageError(
            f"no contract computes a scalar operation of `{arithmetic.name}`; choose the "
            "leaf operator, which the bounded verifier decides"
        )


def check_bond(bond_wei: int) -> None:
    """Refuse a bond that is smaller than the referee takes."""
    if bond_wei < MIN_BOND_WEI:
        raise UsageError(
            f"a bond of {bond_wei / 10**18:g} ETH is too small; "
            f"the referee takes at least {MIN_BOND_WEI / 10**18:g} ETH"
        )


def load(setting: Setting) -> "Recipe":
    """Return the recipe that a setting names."""
    from moot.offchain.frontend.load import load_recipe  # noqa: PLC0415 - imports torch
    from moot.offchain.frontend.precision import set_precision  # noqa: PLC0415 - likewise

    recipe = load_recipe(
        setting.program,
        size=setting.size,
        seed=setting.seed,
        data=setting.data,
        inference=setting.inference,
    )
    return set_precision(recipe, setting.precision)


def describe_example(setting: Setting) -> str | None:
    """Return what an example was asked for with; None where the program is a file of a user's."""
    if setting.program not in NAMES:
        return None
    names = ("program", "size", "precision", "inference", "seed")
    return " ".join(f"{name}={getattr(setting, name)}" for name in names)
