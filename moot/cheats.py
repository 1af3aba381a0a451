"""The cheats by their classes' names: `moot.cheats.WrongOutput(step=11)`.

Each is a dataclass whose fields are its settings; those that are left out are drawn from the seed
of `moot.run`. `dir(moot.cheats)` lists them, and a subclass of `moot.Behaviour` is one more.
"""

from typing import TYPE_CHECKING, Any

from moot.offchain.plugins import load_class
from moot.offchain.providers.catalogue import ALL_CHEATS

if TYPE_CHECKING:
    from moot.offchain.providers.cheats.early_stop import EarlyStop
    from moot.offchain.providers.cheats.false_flag import FalseFlag
    from moot.offchain.providers.cheats.garbage_root import GarbageRoot
    from moot.offchain.providers.cheats.lazy import Lazy
    from moot.offchain.providers.cheats.missing_entry import MissingEntry
    from moot.offchain.providers.cheats.other_log import OtherLog
    from moot.offchain.providers.cheats.poisoned_batch import PoisonedBatch
    from moot.offchain.providers.cheats.silent import Silent
    from moot.offchain.providers.cheats.skipped_step import SkippedStep
    from moot.offchain.providers.cheats.stale_optimizer import StaleOptimizer
    from moot.offchain.providers.cheats.steered_log import SteeredLog
    from moot.offchain.providers.cheats.surplus_entry import SurplusEntry
    from moot.offchain.providers.cheats.turned_entry import TurnedEntry
    from moot.offchain.providers.cheats.wrong_learning_rate import (
        WrongLearningRate,
    )
    from moot.offchain.providers.cheats.wrong_output import WrongOutput
    from moot.offchain.providers.cheats.wrong_start import WrongStart
    from moot.offchain.providers.cheats.wrong_token import WrongToken

_CLASSES = {row.place.rpartition(":")[2]: row.place for row in ALL_CHEATS.values()}

__all__ = [
    "EarlyStop",
    "FalseFlag",
    "GarbageRoot",
    "Lazy",
    "MissingEntry",
    "OtherLog",
    "PoisonedBatch",
    "Silent",
    "SkippedStep",
    "StaleOptimizer",
    "SteeredLog",
    "SurplusEntry",
    "TurnedEntry",
    "WrongLearningRate",
    "WrongOutput",
    "WrongStart",
    "WrongToken",
]


def __getattr__(name: str) -> Any:
    if name not in _CLASSES:
        raise AttributeError(f"moot.cheats has no {name!r}; it has {', '.join(sorted(_CLASSES))}")
    value = globals()[name] = load_class("cheat", name, _CLASSES)
    return value


def __dir__() -> list[str]:
    return sorted(_CLASSES)
