"""Branches on the elements of tensors, where one of the two ways is right for all elements.

A program has no branches. Three kinds are taken all the same, because the code that runs proves
them harmless:

- a check: one way leads to `raise` and nowhere else, as with `assert`. The other way is taken.
  Where the check fails, torch gives no result; the program gives NaN.
- a constraint of torch's distributions that fails before it is asked to the end, as `if not
  is_symmetric.all(): return is_symmetric`; who asks raises then. So it is a check as well.
- the clamp of infinities, `if not isfinite(x).all(): x = clamp(x, -largest, largest)`. It is always
  taken, because it changes no number but infinities.
"""

import ast
import dis
import linecache
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from types import CodeType, FrameType

import torch
from torch.distributions import constraints, distribution


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
    if _is_constraint(frame):
        return True, True
    following = _get_following(instructions, offset)
    is_true_after_jump = "IF_TRUE" in jump.opname
    for truth in (True, False):
        start = jump.argval if truth is is_true_after_jump else following
        if _always_raises(frame.f_code, start):
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


def _covers(node: ast.stmt, line: int) -> bool:
    return node.lineno <= line <= (node.end_lineno or 0)


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
