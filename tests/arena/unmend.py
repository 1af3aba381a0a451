"""Takes a mend out of the shipped code for a while, as a mutant takes out one rule.

`unmended.json` is a list of patches: the fault, the file, what it says then, and the text that it
has in place of another, which stands in the file once. Only the code of the function around the
text is changed, so that classes and whoever has imported them stay as they are.
"""

import importlib
import inspect
import json
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import CodeType, FunctionType
from typing import Any

ROOT = Path(__file__).parents[2]
PATCHES = Path(__file__).with_name("unmended.json")


@dataclass(frozen=True, slots=True)
class Patch:
    """A change of one place in a file.

    Attributes:
        fault: the fault that it brings back.
        file: the file, from the repository's root.
        says: what the code does then.
        old: the text that stands there, and `new` the text in its place.
    """

    fault: str
    file: str
    says: str
    old: str
    new: str


def read_patches() -> list[Patch]:
    """Return all patches."""
    return [Patch(**it) for it in json.loads(PATCHES.read_text(encoding="utf-8"))]


@contextmanager
def unmended(fault: str) -> Iterator[None]:
    """Let a fault be back.

    Raises:
        ValueError: a patch does not fit the source any more.
    """
    patches = [it for it in read_patches() if it.fault == fault]
    if not patches:
        raise ValueError(f"there is no patch that brings back {fault}")
    with ExitStack() as stack:
        for file in dict.fromkeys(it.file for it in patches):
            stack.enter_context(_patched(file, [it for it in patches if it.file == file]))
        yield


@contextmanager
def _patched(file: str, patches: Sequence[Patch]) -> Iterator[None]:
    """Let the functions of a file be as patches have them."""
    text = (ROOT / file).read_text(encoding="utf-8")
    for patch in patches:
        if text.count(patch.old) != 1:
            raise ValueError(f"{file} has {text.count(patch.old)} places for: {patch.says}")
        text = text.replace(patch.old, patch.new)
    module = importlib.import_module("moot." + file.removesuffix(".py").replace("/", "."))
    new = compile(text, file, "exec", dont_inherit=True)
    changed = [
        (function, function.__code__, code)
        for function, code in _pair(module, dict(_list_codes(new)))
        if not _is_alike(function.__code__, code)
    ]
    if not changed:
        raise ValueError(f"no function of {file} is changed")
    try:
        for function, _, code in changed:
            function.__code__ = code
        yield
    finally:
        for function, code, _ in changed:
            function.__code__ = code


def _list_codes(code: CodeType) -> Iterator[tuple[str, CodeType]]:
    """Yield the functions in a module's code, by their qualified names."""
    for it in code.co_consts:
        if isinstance(it, CodeType):
            yield it.co_qualname, it
            if "<locals>" not in it.co_qualname:
                yield from _list_codes(it)


def _pair(module: Any, codes: dict[str, CodeType]) -> Iterator[tuple[FunctionType, CodeType]]:
    """Yield the functions of a module with the code that they would have."""
    for name, code in codes.items():
        found: Any = module
        for part in name.split("."):
            found = inspect.getattr_static(found, part, None)
            found = found.fget if isinstance(found, property) else found
            found = getattr(found, "__func__", found)
        function = inspect.unwrap(found) if callable(found) else None
        if isinstance(function, FunctionType):
            yield function, code


def _is_alike(one: CodeType, other: CodeType) -> bool:
    """Whether two functions do the same; where they stand in the file says nothing."""
    mine = one.replace(co_firstlineno=1, co_linetable=b"", co_filename="")
    return mine == other.replace(co_firstlineno=1, co_linetable=b"", co_filename="")
