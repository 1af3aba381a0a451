"""Text from a results folder, made fit to be shown: it may be anybody's, and of any kind."""

from html import escape
from typing import Any

from moot.offchain.text import clean

_DATA = frozenset({"bdata", "source"})
"""Keys of a figure under which there is encoded data, and no text."""


def neutralise(value: Any, key: str = "") -> Any:
    """Return a figure's values, in which no text is taken for markup by the plots' library.

    Args:
        value: a figure as plain values, or a part of one.
        key: under which the part stands; templates of hover texts keep their line breaks.
    """
    if isinstance(value, dict):
        return {name: neutralise(part, str(name)) for name, part in value.items()}
    if isinstance(value, list | tuple):
        return [neutralise(part, key) for part in value]
    if isinstance(value, str) and key not in _DATA and not key.endswith("template"):
        return escape(clean(value), quote=False)
    return value


def name_key(key: str) -> str:
    """Return the column of a varied key as the key that the user has set."""
    return clean(key.removeprefix("set."))
