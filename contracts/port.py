"""The translator of pure Vyper functions to Python, for fast runs of the chain's integer code.

Vyper's own front end reads and types a module, so that there is no second text of it. Numbers are
Python's; checked operations raise `Reverted` where the contract's would revert, unsafe ones wrap.
What the translator does not know, it refuses.
"""

import linecache
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from vyper import ast as vy
from vyper.compiler.input_bundle import FilesystemInputBundle
from vyper.compiler.phases import CompilerData
from vyper.compiler.settings import Settings

from moot.contracts.compiler import EVM_VERSION, SOURCE_DIR, list_folders
from moot.offchain.errors import CompileError, Reverted

_WIDTH = 256
_MASK = (1 << _WIDTH) - 1
_TOP = 1 << (_WIDTH - 1)

_NUMBERS = ("uint256", "int256")
_SCALARS = (*_NUMBERS, "bool")
_DECORATORS = {"pure", "internal", "external"}
_BITWISE = {vy.BitAnd: "&", vy.BitOr: "|", vy.BitXor: "^"}
_CHECKED = {vy.Add: "+", vy.Sub: "-", vy.Mult: "*"}
_UNSAFE = {"unsafe_add": "+", "unsafe_sub": "-", "unsafe_mul": "*"}
_ORDER = {vy.Eq: "==", vy.NotEq: "!=", vy.Lt: "<", vy.LtE: "<=", vy.Gt: ">", vy.GtE: ">="}


def _revert(reason: str = "") -> None:
    raise Reverted(reason, "port")


def _check_uint256(value: int) -> int:
    if value >> _WIDTH:
        _revert()
    return value


def _check_int256(value: int) -> int:
    if not -_TOP <= value < _TOP:
        _revert()
    return value


def _unsigned_quotient(dividend: int, divisor: int) -> int:
    return dividend // divisor if divisor else 0


def _shift_left(value: int, places: int) -> int:
    return value << places if places < _WIDTH else 0


def _quotient(dividend: int, divisor: int) -> int:
    """Toward zero; by zero it is 0."""
    if divisor == 0:
        return 0
    size = abs(dividend) // abs(divisor)
    return size if (dividend < 0) == (divisor < 0) else -size


def _divide(dividend: int, divisor: int) -> int:
    if divisor == 0:
        _revert()
    return _quotient(dividend, divisor)


def _remainder(dividend: int, divisor: int) -> int:
    return dividend - _divide(dividend, divisor) * divisor


def _multiply_modulo(x: int, y: int, modulus: int) -> int:
    return _remainder(x * y, modulus)


def _place(length: int, index: int) -> int:
    if not 0 <= index < length:
        _revert()
    return index


def _count(start: int, stop: int, bound: int) -> range:
    if not start <= stop <= start + bound:
        _revert()
    return range(start, stop)


# Vyper's names get a suffix in the text that is made (`x_v`, `exp_f`, `float32_m`), these none.
_HELPERS: Mapping[str, Any] = {
    "__builtins__": {"int": int, "list": list, "min": min, "max": max, "range": range, "abs": abs},
    "isqrt": math.isqrt,
    "revert": _revert,
    "check_uint256": _check_uint256,
    "check_int256": _check_int256,
    "shift_left": _shift_left,
    "quotient": _quotient,
    "unsigned_quotient": _unsigned_quotient,
    "divide": _divide,
    "remainder": _remainder,
    "multiply_modulo": _multiply_modulo,
    "place": _place,
    "count": _count,
}


@cache
def load(name: str, source_dir: Path = SOURCE_DIR, arithmetic: str = "ordered") -> SimpleNamespace:
    """Return the functions of the module `name`.vy as attributes, under their own names.

    It is that of an arithmetic, as `compile_contract` finds it.

    Numbers and booleans are Python's, fixed arrays are lists, several results a tuple. Arguments
    must be in the range of their types: nothing checks them.

    Raises:
        CompileError: the module has something other than pure functions of numbers, booleans and
            arrays of them; names the file and the line. What Vyper itself refuses raises Vyper's
            own error.
        Reverted: raised by the functions, where the contract would revert.
    """
    bundle = FilesystemInputBundle(list_folders(source_dir, arithmetic))
    file = bundle.load_file(f"{name}.vy")
    settings = Settings(evm_version=EVM_VERSION)
    module = CompilerData(file, input_bundle=bundle, settings=settings).annotated_vyper_module
    scope: dict[str, Any] = dict(_HELPERS)
    translator = _Translator(f"{name}.vy", scope)
    functions = []
    for node in module.body:
        if isinstance(node, vy.Import) and "." not in node.name:
            scope[f"{node.alias or node.name}_m"] = load(node.name, source_dir, arithmetic)
        elif isinstance(node, vy.FunctionDef):
            _define(scope, translator.translate(node), f"<{file.resolved_path}:{node.lineno}>")
            functions.append(node.name)
        elif not isinstance(node, vy.VariableDecl) or not node.is_constant:
            raise translator.refuse(node)
    return SimpleNamespace(**{each: scope[f"{each}_f"] for each in functions})


def _define(scope: dict[str, Any], text: str, place: str) -> None:
    """Define a function from its text, which `inspect` and tracebacks find under its place."""
    linecache.cache[place] = (len(text), None, text.splitlines(keepends=True), place)
    exec(compile(text, place, "exec"), scope)  # noqa: S102 (made here, of known parts only)


class _Translator:
    """Writes the Python text of functions of one file."""

    def __init__(self, file: str, scope: dict[str, Any]) -> None:
        """Take the file's name, for errors, and the names that the text can use."""
        self._file = file
        self._scope = scope
        self._tables: dict[tuple[Any, ...], str] = {}

    def refuse(self, node: Any) -> CompileError:
        """Return the error that names a construct and its place."""
        source = node.node_source_code.strip().split("\n")[0]
        problem = f"the port does not know {type(node).__name__}: {source}"
        return CompileError(problem, file=self._file, line=node.lineno)

    def translate(self, node: Any) -> str:
        """Return the text of a function."""
        decorators = {getattr(each, "id", None) for each in node.decorator_list}
        if "pure" not in decorators or decorators - _DECORATORS or node.args.defaults:
            raise self.refuse(node)
        for each in node.args.args:
            self._require_data(each, each.annotation)
        arguments = ", ".join(f"{each.arg}_v" for each in node.args.args)
        return f"def {node.name}_f({arguments}):\n{self._block(node.body, ' ')}"

    def _require_data(self, node: Any, annotation: Any) -> None:
        """Refuse a variable unless it is a number, a boolean or a fixed array of them."""
        element = annotation.value if isinstance(annotation, vy.Subscript) else annotation
        if getattr(element, "id", None) not in _SCALARS:
            raise self.refuse(node)

    def _block(self, body: Sequence[Any], indent: str) -> str:
        return "".join(self._statement(each, indent) for each in body)

    def _statement(self, node: Any, indent: str) -> str:
        deeper = indent + " "
        match node:
            case vy.If():
                text = f"{indent}if {self._expression(node.test)}:\n"
                text += self._block(node.body, deeper)
                if node.orelse:
                    text += f"{indent}else:\n" + self._block(node.orelse, deeper)
                return text
            case vy.For():
                self._require_data(node, node.target.annotation)
                variable, values = self._target(node.target.target), self._sequence(node.iter)
                return f"{indent}for {variable} in {values}:\n" + self._block(node.body, deeper)
        return f"{indent}{self._simple(node)}\n"

    def _simple(self, node: Any) -> str:  # noqa: PLR0911 (a case for each kind of statement)
        match node:
            case vy.AnnAssign():
                self._require_data(node, node.annotation)
                return f"{self._target(node.target)} = {self._copy(node.value)}"
            case vy.Assign():
                return f"{self._target(node.target)} = {self._copy(node.value)}"
            case vy.AugAssign():
                value = self._operate(node.op, node.target, node.value, node)
                return f"{self._target(node.target)} = {value}"
            case vy.Return(value=None) | vy.Pass() | vy.Continue() | vy.Break():
                return type(node).__name__.lower()
            case vy.Return():
                return f"return {self._copy(node.value)}"
            case vy.Assert():
                return f"{self._expression(node.test)} or revert({self._reason(node.msg)})"
            case vy.Raise():
                return f"revert({self._reason(node.exc)})"
        raise self.refuse(node)

    def _reason(self, node: Any) -> str:
        if node is not None and not isinstance(node, vy.Str):
            raise self.refuse(node)
        return repr(node.value if node is not None else "")

    def _target(self, node: Any) -> str:
        match node:
            case vy.Name():
                return f"{node.id}_v"
            case vy.Tuple() if all(isinstance(each, vy.Name) for each in node.elements):
                return ", ".join(self._target(each) for each in node.elements)
            case vy.Subscript(value=vy.Name()):
                return self._element(node)
        raise self.refuse(node)

    def _sequence(self, node: Any) -> str:
        if not (isinstance(node, vy.Call) and getattr(node.func, "id", None) == "range"):
            return self._copy(node)
        start, stop = ["0", *self._all(node.args)][-2:]
        if not node.keywords:
            return f"range({start}, {stop})"
        return f"count({start}, {stop}, {self._expression(node.keywords[0].value)})"

    def _all(self, nodes: Iterable[Any]) -> list[str]:
        return [self._copy(each) for each in nodes]

    def _copy(self, node: Any) -> str:
        """Return an expression whose array is nobody else's: arrays are values."""
        text = self._expression(node)
        return f"list({text})" if hasattr(_type(node), "count") else text

    def _number(self, node: Any) -> str:
        kind = str(_type(node))
        if kind not in _NUMBERS:
            raise self.refuse(node)
        return kind

    def _expression(self, node: Any) -> str:  # noqa: C901, PLR0911 (a case for each kind of node)
        reduced = node.reduced()
        match reduced:
            case vy.Int() | vy.NameConstant():
                return f"({reduced.value})"
            case vy.List() if reduced is not node:
                return self._table(reduced)
            case vy.Name():
                return f"{node.id}_v"
            case vy.List():
                return f"[{', '.join(self._all(node.elements))}]"
            case vy.Tuple():
                return f"({', '.join(self._all(node.elements))},)"
            case vy.BinOp():
                return self._operate(node.op, node.left, node.right, node)
            case vy.UnaryOp():
                return self._unary(node)
            case vy.BoolOp():
                joint = " and " if isinstance(node.op, vy.And) else " or "
                return f"({joint.join(self._all(node.values))})"
            case vy.Compare() if type(node.op) in _ORDER:
                left, right = self._all((node.left, node.right))
                return f"({left} {_ORDER[type(node.op)]} {right})"
            case vy.IfExp():
                value, test, other = self._all((node.body, node.test, node.orelse))
                return f"({value} if {test} else {other})"
            case vy.Subscript():
                return self._element(node)
            case vy.Call():
                return self._call(node)
        raise self.refuse(node)

    def _table(self, folded: Any) -> str:
        """Return the name under which the text finds a constant array."""
        values = tuple(getattr(each.reduced(), "value", None) for each in folded.elements)
        if not all(isinstance(value, int) for value in values):
            raise self.refuse(folded)
        name = self._tables.setdefault(values, f"table_{len(self._tables)}")
        self._scope[name] = values
        return name

    def _element(self, node: Any) -> str:
        length = getattr(_type(node.value), "count", None)
        if length is None:
            raise self.refuse(node)
        array, index = self._expression(node.value), self._expression(node.slice)
        return f"{array}[place({length}, {index})]"

    def _operate(self, operator: Any, left: Any, right: Any, node: Any) -> str:
        kind, (x, y) = self._number(left), self._all((left, right))
        if symbol := _CHECKED.get(type(operator)):
            return f"check_{kind}({x} {symbol} {y})"
        if symbol := _BITWISE.get(type(operator)):
            return f"({x} {symbol} {y})"
        if isinstance(operator, vy.FloorDiv):
            return f"check_{kind}(divide({x}, {y}))"
        if isinstance(operator, vy.Mod):
            return f"remainder({x}, {y})"
        # Vyper lets no shift be negative.
        if isinstance(operator, vy.LShift):
            return _wrap(kind, f"shift_left({x}, {y})")
        if isinstance(operator, vy.RShift):
            return f"({x} >> {y})"
        raise self.refuse(node)

    def _unary(self, node: Any) -> str:
        operand = self._expression(node.operand)
        if isinstance(node.op, vy.Not):
            return f"(not {operand})"
        kind = self._number(node.operand)
        if isinstance(node.op, vy.USub):
            return f"check_{kind}(-{operand})"
        return _wrap(kind, f"~{operand}")

    def _call(self, node: Any) -> str:
        function = node.func
        if isinstance(function, vy.Attribute) and isinstance(function.value, vy.Name):
            owner = "" if function.value.id == "self" else f"{function.value.id}_m."
            name = f"{function.attr}_f" if not owner else function.attr
            return f"{owner}{name}({', '.join(self._all(node.args))})"
        name = str(getattr(function, "id", ""))
        if name == "convert":
            return self._convert(node)
        arguments = self._all(node.args)
        kind = self._number(node.args[0]) if node.args else ""
        if name in _UNSAFE and kind:
            return _wrap(kind, f"({arguments[0]} {_UNSAFE[name]} {arguments[1]})")
        if name in _BUILT_IN and kind:
            return _BUILT_IN[name](kind, ", ".join(arguments))
        raise self.refuse(node)

    def _convert(self, node: Any) -> str:
        source, target = str(_type(node.args[0])), str(_type(node))
        text = self._expression(node.args[0])
        if source == "bool" and target in _NUMBERS:
            return f"int({text})"
        if source in _NUMBERS and target == "bool":
            return f"({text} != 0)"
        if source in _NUMBERS and target in _NUMBERS:
            return f"check_{target}({text})"
        raise self.refuse(node)


def _type(node: Any) -> Any:
    return node._metadata["type"]  # noqa: SLF001 (where Vyper leaves the types)


def _wrap(kind: str, text: str) -> str:
    """Return the text of an integer reduced modulo 2^256 into the range of its type."""
    if kind == "uint256":
        return f"({text} & {_MASK})"
    return f"((({text} + {_TOP}) & {_MASK}) - {_TOP})"


_BUILT_IN: Mapping[str, Callable[[str, str], str]] = {
    "min": lambda _, arguments: f"min({arguments})",
    "max": lambda _, arguments: f"max({arguments})",
    "abs": lambda _, arguments: f"check_int256(abs({arguments}))",
    "isqrt": lambda _, arguments: f"isqrt({arguments})",
    "unsafe_div": lambda kind, arguments: (
        f"unsigned_quotient({arguments})"
        if kind == "uint256"
        else _wrap(kind, f"quotient({arguments})")
    ),
    "uint256_mulmod": lambda _, arguments: f"multiply_modulo({arguments})",
}
