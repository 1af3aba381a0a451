"""JSON of strangers: bounded in values and depth before any memory or stack is given to it.

Python's own parser recurses as deep as the text says; where a library has raised the limit of
recursion, a hundred kilobytes of brackets end the process.
"""

import json
import re
from collections.abc import Callable
from typing import Any, NoReturn

Mapping = Callable[[list[tuple[str, Any]]], Any]

MOST_VALUES = 2**21
MOST_DEPTH = 64

_STRING_OR_BRACKET = re.compile(rb'"[^"\\]*+(?:\\.[^"\\]*+)*+"|[\[\]{}]', re.DOTALL)
_STEPS = {ord("["): 1, ord("{"): 1, ord("]"): -1, ord("}"): -1}


def decode(content: bytes, make_mapping: Mapping | None = None) -> Any:
    """Return what JSON in UTF-8 says; neither NaN nor an infinity is JSON.

    Args:
        content: the text.
        make_mapping: makes an object of its pairs; a name that is there twice counts last without.

    Raises:
        ValueError: it is no JSON, or has more values or is deeper than anything sane.
    """
    if sum(map(content.count, (b",", b"[", b"{"))) > MOST_VALUES:
        raise ValueError(f"it has more than {MOST_VALUES:,} values")
    if content.count(b"[") + content.count(b"{") > MOST_DEPTH:
        _check_depth(content)
    text = content.decode()
    return json.loads(text, parse_constant=_refuse, object_pairs_hook=make_mapping)


def _check_depth(content: bytes) -> None:
    depth = 0
    for found in _STRING_OR_BRACKET.finditer(content):
        depth += _STEPS.get(content[found.start()], 0)
        if depth > MOST_DEPTH:
            raise ValueError(f"it is more than {MOST_DEPTH} deep")


def _refuse(name: str) -> NoReturn:
    raise ValueError(f"{name} is no number")
