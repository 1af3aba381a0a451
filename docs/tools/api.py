"""The page `docs/reference/api.md`: every public name of `moot`, from its docstring."""

import inspect
import re
from collections.abc import Iterator
from textwrap import dedent
from types import ModuleType

import moot

HEAD = """# API

Every name of `import moot`, with its shapes, units and errors; the examples are run by tests.
Generated from docstrings by `python docs/tools/pages.py`.
"""
SECTION = re.compile(r"^(Args|Attributes|Returns|Yields|Raises|Example|Examples):$")
ITEM = re.compile(r"^(\*{0,2}\w[\w, ]*): (.*)$")
OBJECT = re.compile(r"<[^<>]*(?:<\w+>)?[^<>]* at 0x[0-9a-f]+>")
"""A default that has no other form than its address."""
LISTED = ("Args", "Attributes", "Raises")


def split_sections(text: str) -> Iterator[tuple[str, list[str]]]:
    """Yield each section of a docstring, with its lines; the first one has no name."""
    name, lines = "", list[str]()
    for line in text.splitlines():
        if found := SECTION.match(line):
            yield name, lines
            name, lines = found[1], []
        else:
            lines.append(line)
    yield name, lines


def render_items(lines: list[str]) -> str:
    """Return a list of what a section says of each name."""
    items = list[str]()
    for line in inspect.cleandoc("\n".join(lines)).splitlines():
        found = ITEM.match(line)
        if found:
            items.append(f"- `{found[1]}`: {found[2]}")
        elif line.strip() and items:
            items[-1] += " " + line.strip()
    return "\n".join(items)


def render_docstring(text: str) -> str:
    """Return a docstring as Markdown."""
    parts = []
    for name, lines in split_sections(text):
        body = inspect.cleandoc("\n".join(lines)).strip()
        if not body:
            continue
        if name.startswith("Example"):
            parts.append(f"```pycon\n{body}\n```")
        elif name in LISTED:
            parts.append(f"**{name}**\n\n{render_items(lines)}")
        else:
            parts.append(f"**{name}**: {body}" if name else render_text(body))
    return "\n\n".join(parts)


def render_text(text: str) -> str:
    """Return paragraphs, of which those that are indented are code."""
    parts = re.split(r"\n\n(?=\S)", text)
    return "\n\n".join(render_part(part) for part in parts)


def render_part(part: str) -> str:
    """Return a paragraph, and the code that follows it."""
    words, _, code = part.partition("\n\n")
    return f"{words}\n\n```python\n{dedent(code)}\n```" if code else words


def show_call(name: str, thing: object) -> str:
    """Return a call's line: the name and its parameters, without types."""
    try:
        signature = inspect.signature(thing)  # type: ignore[arg-type] # what is no callable raises
    except (TypeError, ValueError):
        return name
    plain = [
        parameter.replace(annotation=inspect.Parameter.empty)
        for parameter in signature.parameters.values()
        if parameter.name != "self" and not parameter.name.startswith("_")
    ]
    shown = signature.replace(parameters=plain, return_annotation=inspect.Signature.empty)
    return OBJECT.sub("…", f"{name}{shown}")


def list_methods(kind: type) -> Iterator[str]:
    """Yield a line for each public method and property that a class itself has."""
    for name, member in vars(kind).items():
        thing = member.func if hasattr(member, "attrname") else member
        about = inspect.getdoc(thing)
        is_own = callable(member) or isinstance(member, property) or thing is not member
        if name.startswith("_") or not about or not is_own:
            continue
        called = show_call(name, member) if inspect.isfunction(member) else name
        sentence = " ".join(about.split("\n\n", maxsplit=1)[0].split())
        yield f"- `{called}`: {sentence}"


def describe(name: str, thing: object) -> str:
    """Return the part of the page about a name."""
    about = render_docstring(inspect.getdoc(thing) or "")
    if isinstance(thing, ModuleType):
        kinds = [getattr(thing, kind) for kind in thing.__all__]
        rows = [
            f"| `{show_call(kind.__name__, kind)}` | {summarise(kind)} |\n"
            for kind in kinds
            if inspect.isclass(kind)
        ]
        table = f"\n\n| {name} | |\n|---|---|\n{''.join(rows)}".rstrip()
        return f"## {name}\n\n{about}{table}\n"
    heading = "" if is_error(thing) or is_protocol(thing) else show_call(name, thing)
    shown = f"\n\n```text\n{heading}\n```" if heading else ""
    methods = "\n".join(list_methods(thing)) if inspect.isclass(thing) else ""
    return f"## {name}{shown}\n\n{about}\n" + (f"\n{methods}\n" if methods else "")


def is_error(thing: object) -> bool:
    """Whether something is a class of errors."""
    return inspect.isclass(thing) and issubclass(thing, BaseException)


def is_protocol(thing: object) -> bool:
    """Whether something is a protocol, which is not called."""
    return bool(getattr(thing, "_is_protocol", False))


def summarise(thing: object) -> str:
    """Return the first paragraph of a docstring, on one line."""
    text = (inspect.getdoc(thing) or "").split("\n\n", maxsplit=1)[0]
    return " ".join(text.split()).replace("|", r"\|")


def render() -> str:
    """Return the page."""
    names = sorted(moot.__all__, key=str.lower)
    return "\n".join([HEAD, *(describe(name, getattr(moot, name)) for name in names)])
