"""Regions: code that torch runs only under a condition on data, and a traced step always.

Loops over experts leave out those that nothing has chosen: `if rows.numel() == 0: continue`, `if
mask.any(): ...`, `for e in hit.nonzero(): ...`. A program has no branches. Where the code that is
left out does nothing but write what masks select, the step is traced as if it ran, and the
condition becomes a part of these masks: where it does not hold, nothing is selected.

That it does nothing else is checked twice. Its statements may bind names that no other statement
reads, and call methods that change tensors; and no tensor that was there before is changed but by
what a mask selects.
"""

import ast
import dis
import operator
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import lru_cache
from traceback import walk_tb
from types import CodeType, FrameType
from typing import Any

from torch import Tensor

from moot.offchain.frontend.guards import parse

ADVICE = "; leave the branch out: where nothing is selected, nothing is added"
"""What to do instead of a branch that does more than write what masks select."""

_COMPARED: Mapping[type[ast.cmpop], Callable[[Any, Any], Any]] = {
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
}

_JUMPS = (ast.BoolOp, ast.IfExp, ast.NamedExpr, ast.Lambda, ast.comprehension, ast.Await)
"""Parts of a test by which not the truth of the whole is asked."""

_COMPREHENSIONS = (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)

_STRANGE = (ast.Yield, ast.YieldFrom, ast.Await, ast.NamedExpr)
"""Expressions that a block may not have."""

_SIMPLE = (ast.Pass, ast.Continue)

_Function = ast.FunctionDef | ast.AsyncFunctionDef


@dataclass(eq=False, slots=True)
class _Region:
    """Statements of a function that is running, and when torch runs them.

    Attributes:
        frame: the function's.
        first: the line at which they begin.
        last: the line at which they end.
        condition: BOOL (), with that of any region around it.
        fresh: what has come into being in it, by its memory.
    """

    frame: FrameType
    first: int
    last: int
    condition: Tensor
    fresh: dict[int, Tensor] = field(default_factory=dict)


class Regions:
    """The regions that a step is in while it is traced.

    Attributes:
        conditions: what has to hold for a function of autograd to be there, by its number; None
            where it always is.
        why: what the branch that was met last does, if it is none that can be taken.
        is_over: whether the step has come to its updates, whose branches are no regions.
    """

    def __init__(self) -> None:
        self._regions: list[_Region] = []
        self._is_aside = False
        self.conditions: dict[int, Tensor | None] = {}
        self.why = ""
        self.is_over = False

    def find_condition(self) -> Tensor | None:
        """Return when torch runs the code that runs now, BOOL (); None if it always does."""
        active = self._find_active()
        return active[-1].condition if active else None

    @contextmanager
    def aside(self) -> Iterator[None]:
        """Leave all regions for what hands a tensor on, written to or not."""
        before, self._is_aside = self._is_aside, True
        try:
            yield
        finally:
            self._is_aside = before

    def note(self, sequence: int) -> None:
        """Note when torch makes a function of autograd, by its number."""
        if sequence not in self.conditions:
            self.conditions[sequence] = self.find_condition()

    def keep(self, result: Any, given: Sequence[Any]) -> None:
        """Note which tensors an operator has made that are no views of what it was given."""
        active = self._find_active()
        if not active:
            return
        known = {_get_memory(it) for it in given if isinstance(it, Tensor)}
        for tensor in result if isinstance(result, (tuple, list)) else [result]:
            if isinstance(tensor, Tensor) and _get_memory(tensor) not in known:
                for region in active:
                    region.fresh[_get_memory(tensor)] = tensor

    def may_change(self, tensor: Tensor) -> bool:
        """Return whether a tensor may be changed where the step is now."""
        return all(_get_memory(tensor) in region.fresh for region in self._find_active())

    def is_inside(self, error: Exception) -> bool:
        """Return whether an exception was raised in a region."""
        return any(
            frame is region.frame and region.first <= line <= region.last
            for frame, line in walk_tb(error.__traceback__)
            for region in self._regions
        )

    def enter(self, frame: FrameType, truth: Tensor) -> bool | None:
        """Return the truth with which a frame comes to a region, None where there is none.

        Args:
            frame: where the truth is asked.
            truth: BOOL ().
        """
        found = _find_test(frame)
        if found is None:
            return None
        statement, asked, is_negated = found
        if asked is not None and asked is not _strip(statement.test)[0]:
            return None
        block, is_skipped = self._find_block(frame, statement)
        if not block:
            return None
        way = not (is_skipped ^ is_negated)
        self._begin(frame, block, truth if way else truth.logical_not())
        return way

    def enter_by_number(self, frame: FrameType, number: Tensor) -> int | None:
        """Return a number with which a frame comes to a region, None where there is none.

        Args:
            frame: where a number is asked, as by `len(rows) == 0`.
            number: an integer, ().
        """
        found = _find_test(frame)
        if found is None or found[1] is None:
            return None
        statement, asked, is_negated = found
        test = _strip(statement.test)[0]
        block, is_skipped = self._find_block(frame, statement)
        compare = _read_comparison(test, asked)
        if not block or compare is None:
            return None
        way = not (is_skipped ^ is_negated)
        value, holds = compare
        candidates = (value, value + 1, value - 1)
        found_there = next((n for n in candidates if n >= 0 and bool(holds(n)) is way), None)
        if found_there is not None:
            truth = holds(number)
            self._begin(frame, block, truth if way else truth.logical_not())
        return found_there

    def loop(self, frame: FrameType, mask: Tensor, make: Callable[[int], Any]) -> Any:
        """Return what a loop over the places of a mask goes over, None where it is none.

        Args:
            frame: where an iterator is asked for.
            mask: BOOL (n,).
            make: makes what stands for a place.
        """
        for statement in _list_statements(frame, ast.For):
            is_here = statement.lineno <= frame.f_lineno <= (statement.iter.end_lineno or 0)
            if is_here and _name_instruction(frame) == "GET_ITER" and not statement.orelse:
                self.why = _explain(frame, statement, statement.body)
                return None if self.why else self._walk(frame, statement.body, mask, make)
        return None

    def _walk(
        self, frame: FrameType, block: list[ast.stmt], mask: Tensor, make: Callable[[int], Any]
    ) -> Iterator[Any]:
        for place in range(mask.shape[0]):
            self._end(frame, block)
            number = make(place)
            self._begin(frame, block, mask[place])
            yield number
        self._end(frame, block)

    def _find_block(self, frame: FrameType, statement: ast.If) -> tuple[list[ast.stmt], bool]:
        """Return the statements that a branch leaves out, and if the truth of its test does so."""
        is_skipped = [type(part) for part in statement.body] == [ast.Continue]
        others = statement.orelse
        if others and not all(isinstance(part, _SIMPLE) for part in others):
            self.why = f" (line {others[0].lineno}: else)"
            return [], False
        block = _find_rest(frame, statement) if is_skipped else statement.body
        self.why = _explain(frame, statement, block)
        return ([] if self.why else block), is_skipped

    def _begin(self, frame: FrameType, block: list[ast.stmt], condition: Tensor) -> None:
        self._end(frame, block)
        around = self.find_condition()
        if around is not None:
            condition = around.logical_and(condition)
        last = block[-1].end_lineno or block[-1].lineno
        self._regions.append(_Region(frame, block[0].lineno, last, condition))

    def _end(self, frame: FrameType, block: list[ast.stmt]) -> None:
        """Forget a region, and those of functions that have returned."""
        running = {*_walk_frames()}
        self._regions = [
            it
            for it in self._regions
            if it.frame in running and (it.frame, it.first) != (frame, block[0].lineno)
        ]

    def _find_active(self) -> list[_Region]:
        """Return the regions that the step is in, the outermost first."""
        if self._is_aside or not self._regions:
            return []
        running = {*_walk_frames()}
        return [
            it
            for it in self._regions
            if it.frame in running and it.first <= it.frame.f_lineno <= it.last
        ]


def _walk_frames() -> Iterator[FrameType]:
    frame: FrameType | None = sys._getframe(1)  # noqa: SLF001 - looks without copying the stack
    while frame is not None:
        yield frame
        frame = frame.f_back


def _get_memory(tensor: Tensor) -> int:
    memory: int = tensor.untyped_storage()._cdata  # noqa: SLF001 - the identity of the storage
    return memory


def _name_instruction(frame: FrameType) -> str:
    code = dis.get_instructions(frame.f_code)
    return next((it.opname for it in code if it.offset == frame.f_lasti), "CALL")


def _list_statements(frame: FrameType, kind: type[Any]) -> Iterator[Any]:
    """Yield the statements of a kind of the function that a frame runs, the innermost first."""
    function = _find_function(frame)
    found = [] if function is None else [it for it in ast.walk(function) if isinstance(it, kind)]
    yield from sorted(found, key=lambda it: -it.lineno)


def _find_function(frame: FrameType) -> _Function | None:
    return _find_definition(frame.f_code)


@lru_cache(maxsize=256)
def _find_definition(code: CodeType) -> _Function | None:
    for node in parse(code.co_filename):
        if isinstance(node, _Function) and node.name == code.co_name:
            begin = min([node.lineno, *(it.lineno for it in node.decorator_list)])
            if begin == code.co_firstlineno:
                return node
    return None


def _find_test(frame: FrameType) -> tuple[ast.If, ast.expr | None, bool] | None:
    """Return the `if` that a frame is at, the part of its test that is asked, and if it is turned.

    The part is None where the truth of the whole is asked.
    """
    for statement in _list_statements(frame, ast.If):
        test = statement.test
        if not test.lineno <= frame.f_lineno <= (test.end_lineno or 0):
            continue
        if any(isinstance(part, _JUMPS) for part in ast.walk(test)):
            return None
        inner, is_negated = _strip(test)
        name = _name_instruction(frame)
        if "JUMP" in name or name == "TO_BOOL":
            return statement, None, is_negated
        span = [*frame.f_code.co_positions()][frame.f_lasti // 2]
        for part in ast.walk(inner):
            if isinstance(part, ast.Call) and _get_span(part) == span:
                return statement, part, is_negated
        return None
    return None


def _get_span(part: ast.expr) -> tuple[int, int | None, int, int | None]:
    return part.lineno, part.end_lineno, part.col_offset, part.end_col_offset


def _strip(test: ast.expr) -> tuple[ast.expr, bool]:
    """Return a test without `not`, and whether it is turned."""
    is_negated = False
    while isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
        test, is_negated = test.operand, not is_negated
    return test, is_negated


def _read_comparison(
    test: ast.expr, asked: ast.expr | None
) -> tuple[int, Callable[[Any], Any]] | None:
    """Return the number with which a test compares what is asked, and how."""
    if asked is None:
        return None
    if test is asked:
        return 0, lambda number: number != 0
    if not isinstance(test, ast.Compare) or test.left is not asked or len(test.ops) > 1:
        return None
    compare, other = _COMPARED.get(type(test.ops[0])), test.comparators[0]
    if compare is None or not isinstance(other, ast.Constant) or type(other.value) is not int:
        return None
    value = other.value
    return value, lambda number: compare(number, value)


def _find_rest(frame: FrameType, statement: ast.If) -> list[ast.stmt]:
    """Return what follows on a statement in the body of a loop."""
    for loop in _list_statements(frame, (ast.For, ast.While)):  # type: ignore[arg-type]  # several
        if statement in loop.body:
            rest: list[ast.stmt] = loop.body[loop.body.index(statement) + 1 :]
            return rest
    return []


def _explain(frame: FrameType, statement: ast.stmt, block: list[ast.stmt]) -> str:
    """Return what a block does beside writing what masks select; nothing if it does no more."""
    function = _find_function(frame)
    if not block or function is None:
        return " (it leaves out nothing)"
    strange = (part for it in block for part in ast.walk(it) if isinstance(part, _STRANGE))
    bad = next(_list_other(block, frame), next(strange, None))
    if bad is not None:
        return f" (line {bad.lineno}: {ast.unparse(bad).splitlines()[0]})"
    target = [statement.target] if isinstance(statement, ast.For) else []
    bound = {name for name, is_read in _list_uses([*target, *block]) if not is_read}
    far = [it for it in ast.walk(function) if isinstance(it, (ast.Global, ast.Nonlocal))]
    shared = bound.intersection(name for it in far for name in it.names)
    name = (
        min(shared, default="")
        or _find_carried([*target, *block], bound)
        or _find_read(function, statement, block, bound)
    )
    return f" ({name} is kept)" if name else ""


def _list_other(block: Sequence[ast.stmt], frame: FrameType) -> Iterator[ast.stmt]:
    """Yield statements that do more than bind names and change tensors."""
    for it in block:
        if isinstance(it, (ast.Assign, ast.AnnAssign, ast.AugAssign)):
            targets = it.targets if isinstance(it, ast.Assign) else [it.target]
            if not all(_is_target(target, frame) for target in targets):
                yield it
        elif isinstance(it, ast.Expr):
            if not _is_change(it.value):
                yield it
        elif isinstance(it, (ast.If, ast.For)):
            yield from _list_other([*it.body, *it.orelse], frame)
        elif isinstance(it, ast.With):
            yield from _list_other(it.body, frame)
        elif not isinstance(it, _SIMPLE):
            yield it


def _is_target(target: ast.expr, frame: FrameType) -> bool:
    """Return whether a target is a name, or a place in what is not known to be no tensor."""
    if isinstance(target, (ast.Tuple, ast.List)):
        return all(_is_target(part, frame) for part in target.elts)
    if isinstance(target, ast.Starred):
        return _is_target(target.value, frame)
    if isinstance(target, ast.Subscript):
        base: Any = _look_up(target.value, frame)
        return base is None or isinstance(base, Tensor)
    return isinstance(target, ast.Name)


def _look_up(expression: ast.expr, frame: FrameType) -> Any:
    """Return what a name or an attribute of one is in a frame; None if it is not there yet."""
    if isinstance(expression, ast.Name):
        return frame.f_locals.get(expression.id, frame.f_globals.get(expression.id))
    if isinstance(expression, ast.Attribute):
        return getattr(_look_up(expression.value, frame), expression.attr, ())
    return ()


def _is_change(value: ast.expr) -> bool:
    """Return whether an expression is a call of a method that changes a tensor, or nothing."""
    if isinstance(value, ast.Constant):
        return True
    if not isinstance(value, ast.Call) or not isinstance(value.func, ast.Attribute):
        return False
    return value.func.attr.endswith("_") and not value.func.attr.startswith("_")


def _list_uses(nodes: Sequence[ast.AST]) -> Iterator[tuple[str, bool]]:
    """Yield the names that code uses, in order, and if it reads them."""
    for node in nodes:
        if isinstance(node, ast.Name):
            yield node.id, isinstance(node.ctx, ast.Load)
        elif isinstance(node, ast.AugAssign):
            yield from ((name, True) for name, _ in _list_uses([node.target]))
            yield from _list_uses([node.value, node.target])
        elif isinstance(node, (ast.Assign, ast.AnnAssign)):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            yield from _list_uses([*([node.value] if node.value else []), *targets])
        elif isinstance(node, ast.For):
            yield from _list_uses([node.iter, node.target, *node.body, *node.orelse])
        elif isinstance(node, _COMPREHENSIONS):
            yield from _list_uses([*node.generators, *ast.iter_child_nodes(node)])
        elif isinstance(node, ast.comprehension):
            yield from _list_uses([node.iter, node.target, *node.ifs])
        else:
            yield from _list_uses([*ast.iter_child_nodes(node)])


def _find_carried(block: Sequence[ast.AST], bound: set[str]) -> str:
    """Return a name that a block binds, and reads before: what the last time has left."""
    known: set[str] = set()
    for statement in block:
        for name, is_read in _list_uses([statement]):
            if is_read and name in bound and name not in known:
                return name
            known |= set() if is_read else {name}
    return ""


def _find_read(
    function: _Function, statement: ast.stmt, block: Sequence[ast.stmt], bound: set[str]
) -> str:
    """Return a name that a block binds, and that other code reads before it binds it anew.

    The other code is what follows in the function, and in each loop around what comes before.
    """
    inside = {id(part) for it in block for part in ast.walk(it) if isinstance(part, ast.stmt)}
    for body in _list_bodies(function):
        holding = [it for it in body if statement is it or _holds(it, statement)]
        if not holding:
            continue
        place = body.index(holding[0])
        is_loop = body is not function.body
        following = [*body[place + 1 :], *(body[: place + 1] if is_loop else [])]
        rebound: set[str] = set()
        for it in following:
            if id(it) in inside:
                continue
            for name, is_read in _list_uses_outside(it, inside):
                if is_read and name in bound - rebound:
                    return name
            if isinstance(it, (ast.Assign, ast.AnnAssign)):
                rebound |= {name for name, is_read in _list_uses([it]) if not is_read}
    return ""


def _list_uses_outside(node: ast.AST, inside: set[int]) -> Iterator[tuple[str, bool]]:
    """Yield the names that code uses but for a block in it, in order, and if it reads them."""
    if not any(id(part) in inside for part in ast.walk(node)):
        yield from _list_uses([node])
        return
    for part in ast.iter_child_nodes(node):
        if id(part) not in inside:
            yield from _list_uses_outside(part, inside)


def _list_bodies(node: ast.AST) -> Iterator[list[ast.stmt]]:
    for part in ast.walk(node):
        for _, value in ast.iter_fields(part):
            if isinstance(value, list) and value and isinstance(value[0], ast.stmt):
                yield value


def _holds(node: ast.AST, wanted: ast.AST) -> bool:
    return any(part is wanted for part in ast.walk(node))
