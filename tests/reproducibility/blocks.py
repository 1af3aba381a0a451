"""Other values for the sizes by which work is divided, which must not change a bit."""

import pkgutil
from collections.abc import Mapping
from functools import cache
from importlib import import_module
from itertools import chain

from moot.offchain import backends, execution, native, planning
from moot.offchain.native import compiled

Sizes = Mapping[str, Mapping[str, int]]
"""Module, constant, value."""

_CPU = "moot.offchain.backends.cpu"
_GEMM = {"_DEPTH": 40, "_DEPTH_OF_ROWS": 24, "_BLOCK": 48, "_PART": 24, "_GROUP_BYTES": 1 << 12}
SMALL: Sizes = {
    f"{_CPU}.kernels.contraction.gemm": _GEMM,
    f"{_CPU}.kernels.contraction.thin": {"_RUN_BYTES": 1 << 10},
    f"{_CPU}.convolutions": {"_DEPTH": 54, "_WINDOW_FLOATS": 1 << 9, "_MOST_ROWS": 40},
    f"{_CPU}.maps": {"_BLOCK_ELEMENTS": 96},
    f"{_CPU}.regions": {"_BLOCK_BYTES": 1 << 11, "_MAX_BLOCK_BYTES": 1 << 12},
    "moot.offchain.planning.assembly": {"_PART_COLUMNS": 1 << 5},
    "moot.offchain.planning.grouping": {"_MAX_MEMBERS": 3, "_WINDOW": 5, "_LEAST_ELEMENTS": 1 << 6},
}

SETTINGS: Mapping[str, Sizes] = {"small": SMALL}

_DIVIDED = ("GRAIN", "SLAB")
_SHIFT = 9
"""What is worth a thread or a pass of its own becomes so much smaller, wherever it is named so."""


def find_grains() -> dict[str, dict[str, int]]:
    """Return smaller values for every grain and slab of the executor and the kernels."""
    found: dict[str, dict[str, int]] = {}
    rooms = (native, planning, backends, execution)
    walks = [pkgutil.walk_packages(room.__path__, f"{room.__name__}.") for room in rooms]
    for module in chain.from_iterable(walks):
        for name, value in vars(import_module(module.name)).items():
            if isinstance(value, int) and any(part in name for part in _DIVIDED):
                found.setdefault(module.name, {})[name] = max(value >> _SHIFT, 1)
    return found


def use_blocks(sizes: Sizes) -> None:
    """Divide work by other sizes from now on in this process; call it before anything runs.

    Machine code that was compiled with the usual sizes is not taken from the cache.
    """
    grains = find_grains()
    for chosen in (grains, sizes):
        for module, constants in chosen.items():
            for name, value in constants.items():
                target = import_module(module)
                assert isinstance(getattr(target, name, None), int), (
                    f"{module} has no size {name} any more; name in {__name__} what took its place"
                )
                setattr(target, name, value)
    usual = compiled._source_hash
    compiled._source_hash = cache(lambda room: f"{usual(room)} {grains} {sizes}")
