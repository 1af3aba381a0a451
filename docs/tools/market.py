"""Prints the tables of `market.md` from what the code says of itself, so that they stay true.

`python docs/tools/market.py keys` prints every key of a configuration, `rules` the mechanisms,
`strategies` all strategies with their parameters, `tables` the columns of results, `presets` the
configurations that come with Moot. Meanings are those of the docstrings, defaults and bounds those
of the types.
"""

import inspect
import re
import sys
from collections.abc import Iterator, Mapping
from dataclasses import MISSING, fields
from pathlib import Path

import msgspec
from rich.table import Table

from moot.offchain.plugins import load_class
from moot.sim.economy import schema
from moot.sim.economy.config import RULES, Config
from moot.sim.economy.mechanisms.table import MECHANISMS
from moot.sim.economy.strategies.table import AGENTS, LEARNED, WATCHERS, Row
from moot.sim.experiments.presets import list_presets
from moot.sim.strategies import STRATEGIES

sys.path.insert(0, str(Path(__file__).parents[2]))

from docs.tools.sections import Sections, print_section

WIDTH = 132
ATTRIBUTE = re.compile(r"(\w+): (.*)")
COLUMN = re.compile(r"    (?:\*\*\{f\")?(\w+).*?=\s*_\w+(?:.*?),(?:  # (.*))?$")


def make_table(section: str, *columns: str) -> Table:
    """Return an empty table whose last column is of words."""
    table = Table(caption=f"python docs/tools/market.py {section}", min_width=40)
    for name in columns:
        table.add_column(name, overflow="fold")
    return table


def read_attributes(kind: type) -> dict[str, str]:
    """Return what a class's docstring says of each attribute."""
    told: dict[str, str] = {}
    name = None
    lines = inspect.cleandoc(kind.__doc__ or "").partition("\nAttributes:\n")[2].splitlines()
    for line in lines:
        found = ATTRIBUTE.match(line[4:])
        if found:
            name, told[found[1]] = found[1], found[2]
        elif name is not None and line.strip():
            told[name] += " " + line.strip()
    return told


def read_meaning(kind: type) -> str:
    """Return a class's docstring on one line."""
    return " ".join(inspect.cleandoc(kind.__doc__ or "").split())


def show(value: object) -> str:
    """Return a value as a TOML file has it."""
    return msgspec.json.encode(value).decode() if isinstance(value, str | bool) else f"{value}"


def list_keys(kind: type, place: str) -> Iterator[tuple[str, str, str, str]]:
    """Yield the key, the default, the bounds and the meaning of each field of a struct."""
    told = {key: it for each in reversed(kind.__mro__) for key, it in read_attributes(each).items()}
    info = msgspec.inspect.type_info(kind)
    for field in info.fields:
        inner, name = field.type, f"{place}{field.name}"
        if isinstance(inner, msgspec.inspect.StructType):
            yield f"[{name}]", "", "", told[field.name]
            yield from list_keys(inner.cls, f"{name}.")
        elif isinstance(inner, msgspec.inspect.VarTupleType):
            groups = "; ".join(f"{group.count} {group.strategy}" for group in field.default)
            yield f"[[{name}]]", groups, "", told[field.name]
            own = read_attributes(inner.item_type.cls)
            yield from (row for row in list_keys(inner.item_type.cls, "….") if row[0][2:] in own)
        elif field.name in RULES:
            default = field.default_factory()["name"]
            yield f"[{name}]", show(default), " ".join(MECHANISMS[name]), told[field.name]
        else:
            default = "" if field.required else show_default(field)
            yield name, default, show_bounds(inner), told[field.name]


def show_default(field: msgspec.inspect.Field) -> str:
    """Return a field's default."""
    if field.default_factory is not msgspec.NODEFAULT:
        return show(field.default_factory())
    return show(field.default)


def show_bounds(kind: object) -> str:
    """Return what a value may be."""
    if isinstance(kind, msgspec.inspect.LiteralType):
        return " ".join(kind.values)
    if isinstance(kind, msgspec.inspect.UnionType):
        return ", or ".join(show_bounds(one) for one in kind.types)
    if isinstance(kind, msgspec.inspect.IntType | msgspec.inspect.FloatType):
        least = f"from {kind.ge:,}" if kind.ge is not None else f"above {kind.gt:,}"
        return f"{least} to {kind.le:,}"
    return ""


def tabulate_keys() -> Iterator[Table]:
    """Yield all keys."""
    table = make_table("keys", "key", "default", "may be", "meaning")
    for key, *rest in list_keys(Config, ""):
        if key.startswith("["):
            table.add_section()
        table.add_row(key.replace("[", r"\["), *rest)
    yield table


def show_parameters(kind: type) -> str:
    """Return the parameters of a plugin with their defaults."""
    return "\n".join(
        f"{field.name} = {show(field.default)}"
        for field in fields(kind)
        if field.init and field.default is not MISSING
    )


def tabulate_rules() -> Iterator[Table]:
    """Yield the mechanisms that are built in."""
    table = make_table("rules", "rule", "parameters", "meaning")
    for kind, rows in MECHANISMS.items():
        table.add_section()
        for name in rows:
            rule = load_class(kind, name, rows)
            table.add_row(f"{kind}: {name}", show_parameters(rule), read_meaning(rule))
    yield table


def tabulate_strategies() -> Iterator[Table]:
    """Yield the strategies: cheats and tricks by name, others with their parameters."""
    table = make_table("strategies", "strategy", "parameters", "meaning")
    for name, about in STRATEGIES.items():
        table.add_row(name, "rate = 1.0", about.about)
    groups: tuple[Mapping[str, Row], ...] = (AGENTS, LEARNED, WATCHERS)
    for group in groups:
        table.add_section()
        for name, row in group.items():
            kind = load_class("strategy", name, {name: row.place})
            table.add_row(name, show_parameters(kind), read_meaning(kind))
    yield table


def read_columns() -> dict[str, list[tuple[str, str]]]:
    """Return the columns of each table and the comments beside them, from the schema's source."""
    found: dict[str, list[tuple[str, str]]] = {}
    current = ""
    for line in inspect.getsource(schema).splitlines():
        if opened := re.match(r"([A-Z]+) = _columns\(", line):
            current = opened[1].lower()
            found[current] = [("run", "number of the run")] if current == "runs" else []
        elif line == ")":
            current = ""
        elif current and (column := COLUMN.match(line)):
            found[current].append((column[1], column[2] or ""))
    return found


def tabulate_tables() -> Iterator[Table]:
    """Yield the columns of all tables."""
    table = make_table("tables", "table", "column", "type", "meaning")
    comments = read_columns()
    for name, columns in {**schema.TABLES, "runs": schema.RUNS}.items():
        table.add_section()
        told = dict(comments[name])
        for place, column in enumerate(columns):
            kind = str(column.type).partition("(")[0].removesuffix("128")
            kind = "text" if kind.startswith("dictionary") else kind
            cells = (column.name, kind.replace("string", "text"), explain(column.name, told))
            table.add_row("" if place else name, *cells)
    yield table


def explain(column: str, told: Mapping[str, str]) -> str:
    """Return what is said of a column, or of the columns of which it is one."""
    if column == "run":
        return "number of the run in its folder"
    stage = next((stage for stage in schema.STAGES if column.endswith(f"gas_{stage}")), None)
    if stage is not None:
        return f"{'the same on the contract' if column.startswith('played') else 'gas'} in {stage}"
    return told[column]


def tabulate_presets() -> Iterator[Table]:
    """Yield the presets."""
    table = make_table("presets", "preset", "what it is about")
    for name, about in list_presets().items():
        table.add_row(name, about)
    yield table


SECTIONS: Sections = {
    "keys": tabulate_keys,
    "rules": tabulate_rules,
    "strategies": tabulate_strategies,
    "tables": tabulate_tables,
    "presets": tabulate_presets,
}


if __name__ == "__main__":
    print_section(SECTIONS, __doc__, WIDTH)
