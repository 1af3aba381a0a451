"""A memory of what was made last: as much as fits into so many bytes."""

from collections import OrderedDict
from collections.abc import Callable, Hashable
from typing import Generic, TypeVar

_Value = TypeVar("_Value")


class Recent(Generic[_Value]):
    """The values that were asked for last, up to a size; the latest is always among them.

    Args:
        most_bytes: what they take together, if there is more than one.
        measure: the bytes that a value takes.
    """

    def __init__(self, most_bytes: int, measure: Callable[[_Value], int]) -> None:
        self._most_bytes, self._measure = most_bytes, measure
        self._values: OrderedDict[Hashable, tuple[_Value, int]] = OrderedDict()
        self._bytes = 0

    def get(self, key: Hashable, make: Callable[[], _Value]) -> _Value:
        """Return the value of a key, which is made if it is not remembered."""
        if key in self._values:
            self._values.move_to_end(key)
            return self._values[key][0]
        value = make()
        size = self._measure(value)
        self._values[key] = value, size
        self._bytes += size
        while self._bytes > self._most_bytes and len(self._values) > 1:
            _, (_, dropped) = self._values.popitem(last=False)
            self._bytes -= dropped
        return value
