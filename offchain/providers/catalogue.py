"""The names of the cheats and of their settings, in a module that imports nothing slow."""

from collections.abc import Mapping
from typing import NamedTuple

HONEST = "honest"


class CheatEntry(NamedTuple):
    """A cheat: what it does, in a few words, where its class is, and the settings that it takes."""

    about: str
    place: str
    settings: tuple[str, ...] = ()


def _row(about: str, name: str, *settings: str) -> CheatEntry:
    module = name[0].lower() + "".join(f"_{c.lower()}" if c.isupper() else c for c in name[1:])
    return CheatEntry(about, f"moot.offchain.providers.cheats.{module}:{name}", settings)


CHEATS: Mapping[str, CheatEntry] = {
    "wrong-output": _row(
        "flips one bit of an operator's output",
        "WrongOutput",
        *("step", "operator", "element", "bit", "position"),
    ),
    "skipped-step": _row("leaves one step out", "SkippedStep", "step"),
    "poisoned-batch": _row(
        "flips one bit of a step's data", "PoisonedBatch", "step", "slot", "element", "bit"
    ),
    "wrong-learning-rate": _row(
        "trains with a learning rate half as large again", "WrongLearningRate"
    ),
    "stale-optimizer": _row(
        "does not update the optimizer's state in one step", "StaleOptimizer", "step"
    ),
    "wrong-start": _row("flips one bit of the start state", "WrongStart", "slot", "element", "bit"),
    "early-stop": _row("stops before a step and claims its state", "EarlyStop", "step"),
    "garbage-root": _row("claims random bytes as the final state", "GarbageRoot", "root"),
    "silent": _row("claims random bytes, and never moves", "Silent", "root"),
    "false-flag": _row("claims what is right, and defends it badly", "FalseFlag", "leaf"),
    "lazy": _row("runs nothing and claims the start state", "Lazy"),
}
"""Each cheat by its name, with the module of its class."""

_TURN = ("step", "operator", "element", "up")
LOG_CHEATS: Mapping[str, CheatEntry] = {
    "steered-log": _row("logs a direction where no rounding is in doubt", "SteeredLog", *_TURN),
    "missing-entry": _row("turns a rounding and leaves it out of the log", "MissingEntry", *_TURN),
    "surplus-entry": _row("logs a turn that it does not make", "SurplusEntry", *_TURN),
    "turned-entry": _row("makes the other turn than it logs", "TurnedEntry", *_TURN),
    "other-log": _row("computes a step with the log of another", "OtherLog", *_TURN),
}
"""The cheats of whoever writes the logs of a program in `logged`."""

ANSWER_CHEATS: Mapping[str, CheatEntry] = {
    "wrong-token": _row("writes another token into an answer", "WrongToken", "token"),
}
"""The cheats of whoever answers by a language model."""

ALL_CHEATS: Mapping[str, CheatEntry] = {**CHEATS, **LOG_CHEATS, **ANSWER_CHEATS}
