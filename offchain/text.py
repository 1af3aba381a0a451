"""Text of somebody else's, made fit to be shown: names in a program, what a node or a store says.

Whatever goes to a terminal, a log or a page passes `clean` where it is written, whoever wrote it.
What is told of a Python object or an exception passes `show` or `show_error`, which leave out
addresses in memory: two runs say the same.
"""

import re

LONGEST = 120
"""Characters of a text that are shown."""
_HIDDEN = 8
"""As many times more are looked at, since what can't be seen is left out."""


_OBJECT = re.compile(r"<(?:[\w.]+\.)?(\w+) object at 0x[0-9a-f]+>")
_ADDRESS = re.compile(r" at 0x[0-9a-f]+")


def clean(text: str, longest: int = LONGEST) -> str:
    """Return a text on one line, without what can't be seen, and shortened."""
    looked_at = text[: _HIDDEN * longest]
    shown = " ".join("".join(c if c.isprintable() else " " for c in looked_at).split())
    is_whole = len(shown) <= longest and len(looked_at) == len(text)
    return shown if is_whole else shown[: longest - 1] + "…"


def clean_values(value: object, longest: int = LONGEST) -> object:
    """Return plain values, all of whose texts are cleaned."""
    match value:
        case dict():
            return {clean(str(k), longest): clean_values(it, longest) for k, it in value.items()}
        case list() | tuple():
            return [clean_values(it, longest) for it in value]
        case str():
            return clean(value, longest)
        case _:
            return value


def show(value: object, longest: int = 40) -> str:
    """Return a Python object as a line shows it: a short text, or the name of its class."""
    try:
        text = " ".join(repr(value).split())
    except Exception:  # noqa: BLE001 - a user's own class may do anything
        text = ""
    if isinstance(value, type):
        return f"the class {value.__name__}"
    if not text or _ADDRESS.search(text) or hasattr(value, "dtype"):
        return _name_class(value)
    return clean(text, longest)


def name_kind(value: object) -> str:
    """Return what a Python object is: itself if it is a plain value, or else its class."""
    is_plain = value is None or isinstance(value, (type, str, bytes, int, float))
    is_empty = isinstance(value, (list, tuple, dict)) and not value
    return show(value) if is_plain or is_empty else _name_class(value)


def _name_class(value: object) -> str:
    name = type(value).__name__
    return f"an {name}" if name[:1].lower() in {*"aeiou"} else f"a {name}"


def show_error(error: BaseException, longest: int = 300) -> str:
    """Return an exception as a line shows it: its class, and the first line of what it says."""
    name = type(error).__name__
    try:
        lines = [line for line in str(error).splitlines() if line.strip()]
    except Exception:  # noqa: BLE001 - likewise
        lines = []
    if not lines:
        return name
    said = _ADDRESS.sub("", _OBJECT.sub(r"a \1", lines[0]))
    return clean(f"{name}: {said}", longest)
