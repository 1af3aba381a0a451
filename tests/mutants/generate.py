"""Single-operator mutants of a source, in Vyper or Python: both have the same tokens."""

import io
import tokenize
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

SWAPS: Mapping[str, Sequence[str]] = {
    "==": ("!=",),
    "!=": ("==",),
    "<": ("<=", ">="),
    "<=": ("<", ">"),
    ">": (">=", "<="),
    ">=": (">", "<"),
    "and": ("or",),
    "or": ("and",),
    "+": ("-",),
    "-": ("+",),
    "*": ("//",),
    "//": ("*",),
    "%": ("//",),
    "&": ("|",),
    "|": ("&",),
    "^": ("|",),
    "<<": (">>",),
    ">>": ("<<",),
    "unsafe_add": ("unsafe_sub",),
    "unsafe_sub": ("unsafe_add",),
    "unsafe_mul": ("unsafe_div",),
    "unsafe_div": ("unsafe_mul",),
    "min": ("max",),
    "max": ("min",),
    "True": ("False",),
    "False": ("True",),
    "mine": ("theirs",),
    "theirs": ("mine",),
    "first": ("second",),
    "second": ("first",),
    "winner": ("loser",),
    "loser": ("winner",),
    "rival": ("claim",),
    "REVEALED": ("LATE",),
    "LATE": ("REVEALED",),
}
"""What each operator, flag or party may be mistaken for."""

REMOVED = ("not",)
"""Operators that may have been forgotten."""

CHECKS = ("require", "assert", "self.require", "operands.require", "verdicts.require")
"""A statement that begins with one of these may have been forgotten, or any assignment."""


@dataclass(frozen=True, slots=True)
class Mutant:
    """A source with one change.

    Attributes:
        file: the source's name.
        function: the function in which the change is, "" outside of all.
        name: how a report calls it; what it says survives edits elsewhere in the source.
        text: the changed source.
    """

    file: str
    function: str
    name: str
    text: str


def make_mutants(file: str, text: str) -> Iterator[Mutant]:
    """Yield every mutant of a source, in the order of its lines."""
    lines = text.splitlines(keepends=True)
    functions = list(name_functions(text, len(lines)))
    seen: Counter[str] = Counter()
    for row, changed, change in sorted(_list_changes(text, lines), key=lambda found: found[0]):
        function = functions[row - 1]
        name = f"{file} {function}: {lines[row - 1].strip()} | {change}"
        seen[name] += 1
        if seen[name] > 1:
            name += f" #{seen[name]}"
        yield Mutant(file, function, name, "".join((*lines[: row - 1], changed, *lines[row:])))


def _list_changes(text: str, lines: Sequence[str]) -> Iterator[tuple[int, str, str]]:
    """Yield the number of a line, what it is changed to, and what the change is."""
    for token in _get_code(text):
        for new in _get_replacements(token):
            row, column = token.start
            line = lines[row - 1]
            changed = line[:column] + new + line[token.end[1] :]
            yield row, changed, f"{token.string} -> {new or 'nothing'}"
    for row in _find_statements(lines):
        line = lines[row - 1]
        yield row, f"{line[: len(line) - len(line.lstrip())]}pass\n", "without"


def name_functions(text: str, count: int) -> Iterator[str]:
    """Yield for each of so many lines the name of the function that it belongs to, or ""."""
    starts = {}
    tokens = list(tokenize.generate_tokens(io.StringIO(text).readline))
    for token, following in pairwise(tokens):
        if token.string == "def":
            starts[token.start[0]] = following.string
        elif token.start[1] == 0 and token.type == tokenize.NAME:
            starts.setdefault(token.start[0], "")
    name = ""
    for row in range(1, count + 1):
        name = starts.get(row, name)
        yield name


_DECLARATIONS = frozenset({"event", "struct", "interface"})
_SIGNATURES = frozenset(
    {"@", "import", "from", "initializes", "uses", "exports", "implements", "def"}
)


def _get_code(text: str) -> Iterator[tokenize.TokenInfo]:
    """Yield the tokens of constants and of bodies of functions, without decorators."""
    is_signature = is_declaration = False
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type == tokenize.NAME and token.start[1] == 0:
            is_declaration = token.string in _DECLARATIONS
        if token.line[: token.start[1]].strip() == "":
            is_signature |= token.string in _SIGNATURES
        is_code = token.type in {tokenize.OP, tokenize.NAME, tokenize.NUMBER}
        if is_code and not is_signature and not is_declaration:
            yield token
        if token.type == tokenize.NEWLINE:
            is_signature = False


def _get_replacements(token: tokenize.TokenInfo) -> Sequence[str]:
    word = token.string
    if token.type == tokenize.NUMBER:
        return _change_number(word)
    if word in REMOVED:
        return ("",)
    before, after = token.line[: token.start[1]], token.line[token.end[1] :]
    is_argument = after.startswith("=") and not after.startswith("==")
    if token.type == tokenize.NAME and (is_argument or after.startswith(":")):
        return ()
    if word in {"*", "-"} and before.rstrip().endswith(("(", ",", "=", "[")):
        return ()
    if word == "-" and after.startswith(">"):
        return ()
    return SWAPS.get(word, ())


def _change_number(word: str) -> Sequence[str]:
    if not word.replace("_", "").isdigit() and not word.startswith("0x"):
        return (repr(2 * float(word) or 1.0),)
    number = int(word.replace("_", ""), 0)
    return (str(number + 1), *(("0",) if number == 1 else ()))


def _find_statements(lines: Sequence[str]) -> Iterator[int]:
    """Yield the lines that are a whole statement of a function: a check or an assignment."""
    text = "".join(lines)
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type != tokenize.NEWLINE or token.line.count("\n") != 1:
            continue
        line = token.line
        body = line.strip()
        is_inside = line.startswith("    ")
        is_check = body.startswith(CHECKS)
        is_call = body.startswith(("self._", "turns.", "ledger.", "log ", "turn.", "store.", "_"))
        is_change = " = " in body and ": " not in body.split(" = ")[0]
        if is_inside and body.endswith((")", "]")) and (is_check or is_call) and " = " not in body:
            yield token.start[0]
        is_change |= any(f" {op}= " in body for op in ("|", "&", "+", "-", "<<", ">>"))
        is_change &= not body.startswith(("return", "if", "elif", "for", "assert"))
        if is_inside and is_change and not is_check:
            yield token.start[0]
