"""Forged calls: those of the game with one field of an argument changed."""

from dataclasses import fields, replace
from random import Random
from typing import Any

from moot.contracts.model.types import Dive, Facts


def forge(rng: Random, value: Any) -> Any:
    """Return a value with one bit of one of its parts changed; a part of zeros stays."""
    match value:
        case bytes() if any(value):
            place = rng.randrange(8 * len(value))
            changed = int.from_bytes(value, "big") ^ 1 << place
            return changed.to_bytes(len(value), "big")
        case tuple() if value:
            place = rng.randrange(len(value))
            return (*value[:place], forge(rng, value[place]), *value[place + 1 :])
        case Dive() | Facts():
            name = rng.choice(fields(value)).name
            return replace(value, **{name: forge(rng, getattr(value, name))})
        case int():
            return value ^ 1
    return value
