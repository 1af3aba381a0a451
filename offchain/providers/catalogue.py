"""The names of the cheats and of their settings, in a module that imports nothing slow."""

from collections.abc import Mapping
from typing import NamedTuple

HONEST = "honest"


class CheatEntry(NamedTuple):
    """What a cheat does, in a few words, and the settings that it takes."""

    about: str
    settings: tuple[str, ...] = ()


CHEATS: Mapping[str, CheatEntry] = {
    "wrong-output": CheatEntry(
        "flips one bit of an operator's output",
        ("step", "operator", "element", "bit", "position"),
    ),
    "skipped-step": CheatEntry("leaves one step out", ("step",)),
    "poisoned-batch": CheatEntry(
        "flips one bit of a step's data", ("step", "slot", "element", "bit")
    ),
    "wrong-learning-rate": CheatEntry("trains with a learning rate half as large again"),
    "stale-optimizer": CheatEntry("does not update the optimizer's state in one step", ("step",)),
    "wrong-start": CheatEntry("flips one bit of the start state", ("slot", "element", "bit")),
    "early-stop": CheatEntry("stops before a step and claims its state", ("step",)),
    "garbage-root": CheatEntry("claims random bytes as the final state", ("root",)),
    "silent": CheatEntry("claims random bytes, and never moves", ("root",)),
    "false-flag": CheatEntry("claims what is right, and defends it badly", ("leaf",)),
    "lazy": CheatEntry("runs nothing and claims the start state"),
}
"""Each cheat by its name; `cheats.py` plays them."""

_TURN = ("step", "operator", "element", "up")
LOG_CHEATS: Mapping[str, CheatEntry] = {
    "steered-log": CheatEntry("logs a direction where no rounding is in doubt", _TURN),
    "missing-entry": CheatEntry("turns a rounding and leaves it out of the log", _TURN),
    "surplus-entry": CheatEntry("logs a turn that it does not make", _TURN),
    "turned-entry": CheatEntry("makes the other turn than it logs", _TURN),
    "other-log": CheatEntry("computes a step with the log of another", _TURN),
}
"""The cheats of whoever writes the logs of a program in `logged`."""

ALL_CHEATS: Mapping[str, CheatEntry] = {**CHEATS, **LOG_CHEATS}
