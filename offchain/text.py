"""Text of somebody else's, made fit to be shown: names in a program, what a node or a store says.

Whatever goes to a terminal, a log or a page passes `clean` where it is written, whoever wrote it.
"""

LONGEST = 120
"""Characters of a text that are shown."""
_HIDDEN = 8
"""As many times more are looked at, since what can't be seen is left out."""


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
