"""Spaces of markets: keys of a configuration, and the range or the choices of each."""

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation
from typing import Any

from moot.offchain.errors import UsageError
from moot.sim.economy.config import Config, replace_keys
from moot.sim.experiments.plan import check_names
from moot.sim.experiments.values import Value, parse_values

MOST_KEYS = 20
"""Keys that one space has at most."""

DIGITS = 6
"""Digits of a number in a range: what is printed is what is played."""

_LOG = "log"
_RANGE = re.compile(rf"([^:,]+):([^:,]+)(?::({_LOG}))?")
_EXAMPLE = "write KEY=0.1:2, KEY=0.001:0.1:log or KEY=constant,proportional"

Point = tuple[Value, ...]
"""A value for each key, in the order of the keys."""


@dataclass(frozen=True, slots=True)
class Dimension:
    """A key, and the values that it may have.

    Attributes:
        key: of a configuration.
        low: the least value of a range; 0 of choices.
        high: the largest.
        is_log: whether equal parts of a range are those of its logarithm.
        is_whole: whether only whole numbers are taken.
        choices: the values, if it is no range.
    """

    key: str
    low: float = 0.0
    high: float = 0.0
    is_log: bool = False
    is_whole: bool = False
    choices: tuple[Value, ...] = ()

    def pick(self, part: float) -> Value:
        """Return the value at a part of the range, from 0 to 1."""
        if self.choices:
            return self.choices[min(int(part * len(self.choices)), len(self.choices) - 1)]
        if self.is_whole:
            return int(min(self.low + math.floor(part * (self.high - self.low + 1)), self.high))
        if self.is_log:
            value = self.low * (self.high / self.low) ** part
        else:
            value = self.low + part * (self.high - self.low)
        return min(max(float(f"{value:.{DIGITS}g}"), self.low), self.high)

    @property
    def ends(self) -> tuple[Value, ...]:
        """The ends of a range, or all choices."""
        return self.choices or (self.pick(0.0), self.pick(1.0))


@dataclass(frozen=True, slots=True)
class Space:
    """A market, and the keys that are varied in it.

    Attributes:
        config: the market.
        dimensions: the keys with what they may be.
    """

    config: Config
    dimensions: tuple[Dimension, ...]

    @property
    def keys(self) -> tuple[str, ...]:
        """The keys."""
        return tuple(it.key for it in self.dimensions)

    def pick(self, parts: Sequence[float]) -> Point:
        """Return the values at parts of each range, from 0 to 1."""
        return tuple(it.pick(float(part)) for it, part in zip(self.dimensions, parts, strict=True))

    def make_config(self, point: Point) -> Config:
        """Return the market with these values.

        Raises:
            UsageError: no market can have them together.
        """
        config = replace_keys(self.config, dict(zip(self.keys, point, strict=True)))
        check_names(config)
        return config

    def describe(self, point: Point) -> str:
        """Return values with their keys, on one line."""
        return ", ".join(
            f"{key} = {value:g}" if isinstance(value, float) else f"{key} = {value}"
            for key, value in zip(self.keys, point, strict=True)
        )


def make_space(config: Config, dimensions: Sequence[Dimension]) -> Space:
    """Return a space, in which each end and each choice of a key is possible.

    Raises:
        UsageError: a key is unknown, there twice, or can't have such values; or there is no key.
    """
    keys = [it.key for it in dimensions]
    if not keys or len(keys) > MOST_KEYS:
        raise UsageError(f"{len(keys)} keys are varied; name 1 to {MOST_KEYS}: {_EXAMPLE}")
    for key in keys:
        if keys.count(key) > 1:
            raise UsageError(f"{key} is there twice; give it one range, or one list of choices")
        if key in {"seed", "jobs"}:
            raise UsageError(f"{key} is no key of a design: it says how much is simulated")
    found = []
    for it in dimensions:
        is_whole = not it.choices and not _takes_fractions(config, it)
        found.append(Dimension(it.key, it.low, it.high, it.is_log, is_whole, it.choices))
    space = Space(config, tuple(found))
    for it in found:
        for value in it.ends:
            make_space_of_one(config, it, value)
    space.make_config(space.pick([0.0] * len(found)))
    return space


def make_space_of_one(config: Config, dimension: Dimension, value: Value) -> Config:
    """Return a market in which one key has another value."""
    return Space(config, (dimension,)).make_config((value,))


def _takes_fractions(config: Config, dimension: Dimension) -> bool:
    """Return whether a key takes numbers that are not whole, between the ends of its range."""
    low, high = dimension.low, dimension.high
    if not (low.is_integer() and high.is_integer()):
        return True
    try:
        make_space_of_one(config, dimension, low + (high - low) / 2 + (high - low) / 1024)
    except UsageError:
        make_space_of_one(config, dimension, int(low))  # or whatever is wrong with the key
        if dimension.is_log:
            raise UsageError(
                f"{dimension.key} takes whole numbers; leave :{_LOG} out, or list them"
            ) from None
        return False
    return True


def make_dimension(key: str, values: Any) -> Dimension:
    """Return a key with its range or its choices.

    Args:
        key: of a configuration.
        values: a text, `LOW:HIGH`, `LOW:HIGH:log` or `A,B,C`, a tuple of the two ends of a range,
            or a list of choices.

    Raises:
        UsageError: it is none of them.
    """
    if isinstance(values, tuple) and len(values) == 2:
        return _make_range(key, values[0], values[1])
    if isinstance(values, str) and (bounds := _RANGE.fullmatch(values)):
        return _make_range(key, bounds[1], bounds[2], is_log=bounds[3] is not None)
    if isinstance(values, str) and ":" in values.replace(".py:", ""):
        raise UsageError(f"{key}={values} is no range; {_EXAMPLE}")
    choices = parse_values(values, key) if isinstance(values, str) else tuple(values)
    for value in choices:
        if not isinstance(value, str | int | float | bool) or not math.isfinite(_weigh(value)):
            raise UsageError(f"{key}: {value} is no value to choose; {_EXAMPLE}")
        if isinstance(value, str) and value.lower() in {"nan", "inf", "-inf"}:
            raise UsageError(f"{key}: {value} is no value to choose; {_EXAMPLE}")
    if len(set(map(repr, choices))) < max(2, len(choices)):
        raise UsageError(f"{key} has fewer than two values, or one twice; {_EXAMPLE}")
    return Dimension(key, choices=choices)


def make_dimensions(ranges: Mapping[str, Any]) -> tuple[Dimension, ...]:
    """Return several keys with their ranges or choices, as `make_dimension` takes them."""
    return tuple(make_dimension(key, values) for key, values in ranges.items())


def _weigh(value: object) -> float:
    return float(value) if isinstance(value, int | float) else 0.0


def _make_range(key: str, low: object, high: object, *, is_log: bool = False) -> Dimension:
    """Return a key with a range."""
    try:
        ends = [Decimal(str(end).strip()) for end in (low, high)]
    except InvalidOperation:
        ends = [Decimal("NaN")]
    if not all(end.is_finite() and math.isfinite(float(end)) for end in ends):
        raise UsageError(f"{key}={low}:{high} is no range of numbers; {_EXAMPLE}")
    first, last = map(float, ends)
    if first >= last:
        raise UsageError(f"{key}={low}:{high} ends at {high}, and begins at {low}; turn it around")
    if is_log and first <= 0:
        raise UsageError(f"{key}={low}:{high}:{_LOG} has no logarithm at {low}; begin above 0")
    return Dimension(key, first, last, is_log)
