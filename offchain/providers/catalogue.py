"""The names of the cheats and of their settings, in a module that imports nothing slow."""

from collections.abc import Mapping

HONEST = "honest"

CHEATS: Mapping[str, tuple[str, ...]] = {
    "wrong-output": ("step", "operator", "element", "bit", "position"),
    "skipped-step": ("step",),
    "poisoned-batch": ("step", "slot", "element", "bit"),
    "wrong-learning-rate": (),
    "stale-optimizer": ("step",),
    "wrong-start": ("slot", "element", "bit"),
    "early-stop": ("step",),
    "garbage-root": ("root",),
    "silent": ("root",),
    "false-flag": ("leaf",),
    "lazy": (),
}
"""Each cheat with the settings that it takes; `cheats.py` plays them."""
