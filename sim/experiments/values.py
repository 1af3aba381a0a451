"""Values of a varied key, as users write them: `bond.eth=0.2:2:0.2`, `audit.rate=0,0.05,0.1`."""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from decimal import Context, Decimal, localcontext

from moot.offchain.errors import UsageError

Value = str | int | float | bool
"""A value of a key, as a TOML file could have it."""

MOST_VALUES = 10_000
"""The most values that one key can have in a sweep."""

_NUMBER = r"[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d{1,3})?"
_RANGE = re.compile(rf"({_NUMBER}):({_NUMBER})(?::({_NUMBER}))?")
_WORDS: dict[str, bool] = {"true": True, "false": False}
_EXACT = Context(prec=60)
_TOO_MANY = f"more than {MOST_VALUES:,} values; take larger steps"
_EXAMPLE = "write KEY=0.2:2:0.2 (start:stop:step) or KEY=0,0.05,0.1"


@dataclass(frozen=True, slots=True)
class Varied:
    """A key of the configuration, and the values that it takes, in order; no value twice."""

    key: str
    values: tuple[Value, ...]


def parse_varied(texts: Iterable[str], option: str = "--set") -> tuple[Varied, ...]:
    """Return the keys that several options vary.

    Args:
        texts: each `KEY=VALUES`; see `parse_values`.
        option: what an error begins with.

    Raises:
        UsageError: a text is no such thing, or a key is there twice.
    """
    varied: dict[str, Varied] = {}
    for text in texts:
        key, equals, values = text.partition("=")
        key = key.strip()
        if not equals or not key or not values.strip():
            raise UsageError(f"{option} {text} does not name a key and its values; {_EXAMPLE}")
        if key in varied:
            raise UsageError(f"{option} {key} is there twice; put its values into one list")
        varied[key] = Varied(key, parse_values(values, f"{option} {key}"))
    return tuple(varied.values())


def parse_values(text: str, subject: str) -> tuple[Value, ...]:
    """Return the values that a text lists, ranges among them written out.

    `start:stop:step` is computed in decimals, so that 0:1:0.1 has eleven values and the fourth is
    0.3; the stop is one of them if a step leads there. If one number of a list has a point or an
    exponent, all its numbers are floats.

    Args:
        text: values and ranges, with commas between them.
        subject: what an error begins with.

    Raises:
        UsageError: a range makes no sense, a value is there twice, or there are too many.
    """
    found: list[Decimal | str] = []
    for part in (part.strip() for part in text.split(",")):
        if not part:
            raise UsageError(f"{subject}={text} has an empty value; {_EXAMPLE}")
        if bounds := _RANGE.fullmatch(part):
            found += _list_range(bounds, f"{subject}={part}")
        else:
            found.append(Decimal(part) if re.fullmatch(_NUMBER, part) else part)
        if len(found) > MOST_VALUES:
            raise UsageError(f"{subject} has {_TOO_MANY}")
    numbers = [value for value in found if isinstance(value, Decimal)]
    kind = int if all(number.as_tuple().exponent == 0 for number in numbers) else float
    values = tuple(
        kind(value) if isinstance(value, Decimal) else _WORDS.get(value, value) for value in found
    )
    seen: set[str] = set()
    for value in values:
        if repr(value) in seen:
            raise UsageError(f"{subject} has the value {value} twice; leave one out")
        seen.add(repr(value))
    return values


def _list_range(bounds: re.Match[str], subject: str) -> list[Decimal]:
    """Return the numbers of a range."""
    if bounds[3] is None:
        raise UsageError(f"{subject} has no step; {_EXAMPLE}")
    try:
        with localcontext(_EXACT):
            start, stop, step = (Decimal(bound) for bound in bounds.groups())
            if not step:
                raise UsageError(f"{subject} has a step of 0; {_EXAMPLE}")
            steps = (stop - start) / step if stop != start else Decimal(0)
            if steps < 0:
                raise UsageError(f"{subject} goes away from {bounds[2]}; {_EXAMPLE}")
            if steps >= MOST_VALUES:
                raise UsageError(f"{subject} has {_TOO_MANY}")
            return [start + index * step for index in range(int(steps) + 1)]
    except ArithmeticError:
        raise UsageError(f"{subject} has numbers of too many digits; {_EXAMPLE}") from None
