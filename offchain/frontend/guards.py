"""Branches on the elements of tensors, where one of the two ways is right for all elements.

A program has no branches. Four kinds are taken all the same, because the code that runs proves
them harmless:

- a check: one way leads to `raise` and nowhere else, as with `assert`. The other way is taken.
  Where the check fails, torch gives no result; the program gives NaN.
- a constraint of torch's distributions that fails before it is asked to the end, as `if not
  is_symmetric.all(): return is_symmetric`; who asks raises then. So it is a check as well.
- a message: one way leads to `print`, `warnings.warn` or a logger alone. The other is taken.
- the clamp of infinities, `if not isfinite(x).all(): x = clamp(x, -largest, largest)`. It is always
  taken, because it changes no number but infinities.
"""

import ast
import dis
import linecache
import logging
import warnings
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from types import CodeType, FrameType
from typing import Any

import torch
from torch.distributions import constraints, distribution

_LEVELS = ("debug", "info", "warning", "error", "critical", "exception")
"""The first words of what loggers are asked to say something by."""

_READERS = (float, int, bool, str, repr, len, round, type)
"""Functions that only read what they are given."""


def find_way(frame: FrameType) -> tuple[bool, bool] | None:
    """Return which way to go where a frame asks for the truth of a tensor, and if it is a check.

    None where a program would have to branch.
    """
    instructions = {i.offset: i for i in dis.get_instructions(frame.f_code)}
    offset = frame.f_lasti
    if offset in instructions and instructions[offset].opname == "TO_BOOL":  # Python 3.13
        offset = _get_following(instructions, offset)
    jump = instructions.get(offset)
    if jump is None or "JUMP" not in jump.opname:
        return None
    if _is_clamp_of_infinities(frame):
        return False, False  # of the truth that `not` turns
    ways = {"IF_TRUE" in jump.opname: jump.argval}
    ways[not next(iter(ways))] = _get_following(instructions, offset)
    silent = _find_silent_way(frame, {truth: instructions.get(at) for truth, at in ways.items()})
    if silent is not None:
        return silent, False
    if _is_constraint(frame):
        return True, True
    for truth in (True, False):
        if _always_raises(frame.f_code, ways[truth]):
            return not truth, True
    return None


def _is_constraint(frame: FrameType) -> bool:
    """Return whether a distribution asks one of torch's constraints, and raises where it fails."""
    if frame.f_code.co_filename != constraints.__file__:
        return False
    caller = frame.f_back
    while caller is not None and caller.f_code.co_filename == constraints.__file__:
        caller = caller.f_back
    return caller is not None and caller.f_code.co_filename == distribution.__file__


def is_caught(frame: FrameType) -> bool:
    """Return whether a frame is inside `try`, with `except` behind it."""
    return any(
        isinstance(node, ast.Try)
        and node.handlers
        and node.body[0].lineno <= frame.f_lineno <= (node.body[-1].end_lineno or 0)
        for node in parse(frame.f_code.co_filename)
    )


def spoil(tensor: torch.Tensor, checks: Sequence[tuple[torch.Tensor, bool]]) -> torch.Tensor:
    """Return a float tensor, all NaN if a truth value is not what it has to be.

    As a factor, the NaN reaches gradients too.
    """
    for truth, wanted in checks:
        factors = (1.0, torch.nan) if wanted else (torch.nan, 1.0)
        tensor = tensor * torch.where(truth, *factors)
    return tensor


def find_settings(frame: FrameType) -> list[str]:
    """Return the settings whose names speak of dropping that the function of a frame compares."""
    names = set()
    for node in parse(frame.f_code.co_filename):
        if isinstance(node, ast.FunctionDef) and _covers(node, frame.f_lineno):
            compared = [part for part in ast.walk(node) if isinstance(part, ast.Compare)]
            parts = [part for compare in compared for part in ast.walk(compare)]
            names |= {part.attr for part in parts if isinstance(part, ast.Attribute)}
    return sorted(name for name in names if "drop" in name)


@lru_cache(maxsize=256)
def _always_raises(code: CodeType, start: int) -> bool:
    """Return whether every way on from an instruction ends in `raise`."""
    instructions = {i.offset: i for i in dis.get_instructions(code)}
    pending, seen = [start], set()
    while pending:
        offset = pending.pop()
        if offset in seen:
            return False  # a loop, or a place that several ways lead to
        seen.add(offset)
        found = instructions.get(offset)
        if found is None or found.opname.startswith(("RETURN", "YIELD", "RERAISE")):
            return False
        if found.opname != "RAISE_VARARGS":
            pending += _get_next(instructions, offset)
    return True


def _get_next(instructions: Mapping[int, dis.Instruction], offset: int) -> Iterator[int]:
    """Yield where execution goes on behind an instruction."""
    found = instructions[offset]
    is_jump = found.opcode in {*dis.hasjrel, *dis.hasjabs}
    if is_jump:
        yield found.argval
    if not is_jump or "IF" in found.opname or found.opname in {"FOR_ITER", "SEND"}:
        yield _get_following(instructions, offset)


def _get_following(instructions: Mapping[int, dis.Instruction], offset: int) -> int:
    return min((other for other in instructions if other > offset), default=-1)


@lru_cache(maxsize=64)
def parse(path: str) -> tuple[ast.AST, ...]:
    """Return all nodes of a file's syntax tree; none where there is no source."""
    try:
        return tuple(ast.walk(ast.parse("".join(linecache.getlines(path)))))
    except SyntaxError:
        return ()


def _covers(node: ast.stmt | ast.expr, line: int) -> bool:
    return node.lineno <= line <= (node.end_lineno or 0)


def _find_silent_way(frame: FrameType, ways: Mapping[bool, dis.Instruction | None]) -> bool | None:
    """Return which truth leads past the body of an `if` that only says something."""
    for node in parse(frame.f_code.co_filename):
        if isinstance(node, ast.If) and _covers(node.test, frame.f_lineno):
            break
    else:
        return None
    if node.orelse or not all(_says_something(frame, statement) for statement in node.body):
        return None
    if any(_is_inside(way, [node.test]) for way in ways.values()):
        return None  # the test goes on, and may have effects
    inside = [truth for truth, way in ways.items() if _is_inside(way, node.body)]
    return not inside[0] if len(inside) == 1 else None


def _is_inside(way: dis.Instruction | None, nodes: Sequence[ast.stmt | ast.expr]) -> bool:
    """Return whether an instruction belongs to some successive nodes of a syntax tree."""
    if way is None or way.positions is None or way.positions.lineno is None:
        return False
    first, last, place = nodes[0], nodes[-1], way.positions
    end = (last.end_lineno or 0, last.end_col_offset or 0)
    return (first.lineno, first.col_offset) <= (place.lineno, place.col_offset or 0) < end


def _says_something(frame: FrameType, statement: ast.stmt) -> bool:
    """Return whether a statement does nothing but to print, to log or to warn."""
    if isinstance(statement, ast.Pass):
        return True
    if not isinstance(statement, ast.Expr) or not isinstance(statement.value, ast.Call):
        return False
    call = statement.value
    says = isinstance(call.func, ast.Name) and _look_up(frame, call.func) is print
    if isinstance(call.func, ast.Attribute):
        owner = _look_up(frame, call.func.value)
        is_logger = isinstance(owner, logging.Logger) or owner is logging
        says = (is_logger and call.func.attr.partition("_")[0] in _LEVELS) or (
            owner is warnings and call.func.attr == "warn"
        )
    parts = [part for value in (*call.args, *call.keywords) for part in ast.walk(value)]
    return says and all(_has_no_effect(frame, part) for part in parts)


def _has_no_effect(frame: FrameType, part: ast.AST) -> bool:
    """Return whether a part of what is said is only read; methods of tensors are."""
    if isinstance(part, ast.Call):
        function = part.func
        while isinstance(function, ast.Attribute | ast.Call):
            if isinstance(function, ast.Attribute) and function.attr.endswith("_"):
                return False
            function = function.value if isinstance(function, ast.Attribute) else function.func
        found = _look_up(frame, function)
        return isinstance(found, torch.Tensor) or any(found is reader for reader in _READERS)
    return not isinstance(part, ast.NamedExpr | ast.Await | ast.Yield | ast.YieldFrom)


def _look_up(frame: FrameType, node: ast.expr) -> Any:
    """Return what a name means in a frame, and None where it is no name."""
    if not isinstance(node, ast.Name):
        return None
    for names in (frame.f_locals, frame.f_globals, frame.f_builtins):
        if node.id in names:
            return names[node.id]
    return None


def _is_clamp_of_infinities(frame: FrameType) -> bool:
    """Return whether a frame asks if it has to give infinities the largest finite numbers.

    `torch.finfo(torch.float32).max - 1000` is the largest float32 itself.
    """
    asked = [
        node
        for node in parse(frame.f_code.co_filename)
        if isinstance(node, ast.If) and node.lineno == frame.f_lineno
    ]
    if len(asked) != 1 or asked[0].orelse or not isinstance(asked[0].body[-1], ast.Assign):
        return False
    name = ast.unparse(asked[0].body[-1].targets[0])
    tensor = frame.f_locals.get(name)
    source = [ast.unparse(part) for part in (asked[0].test, *asked[0].body)]
    bound = source[1].partition(" = ")[0]
    return (
        isinstance(tensor, torch.Tensor)
        and tensor.dtype == torch.float32
        and frame.f_globals.get("torch") is torch
        and source
        == [
            f"not torch.isfinite({name}).all()",
            f"{bound} = torch.finfo({name}.dtype).max - 1000",
            f"{name} = torch.clamp({name}, min=-{bound}, max={bound})",
        ]
    )
