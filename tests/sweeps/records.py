"""The records of the sweeps, in a file from which sweeps resume and documents are written."""

import hashlib
import json
import os
from dataclasses import asdict, dataclass, field
from functools import cache, partial
from pathlib import Path
from typing import Any

from llvmlite import ir

from moot.offchain.arithmetic.functions import Function
from moot.offchain.native.transcendental import quick
from moot.offchain.native.transcendental.functions import FUNCTIONS, emit_formula
from tests.sweeps.compare import QUICK, SWEPT, Findings

RESULTS = Path(__file__).with_name("results.json")
ALL = 2**32

_LANES = 16


@dataclass(slots=True)
class Record:
    """The sweep of one function: its operands so far are the bit patterns below `findings.inputs`.

    `code` identifies what was tried: see `get_code`. `seconds` are those of one processor core.
    """

    code: str
    seconds: float = 0.0
    findings: Findings = field(default_factory=Findings)

    @property
    def is_complete(self) -> bool:
        """Whether all operands have been tried."""
        return self.findings.inputs == ALL


@cache
def get_code(name: str) -> str:
    """A digest of the LLVM IR that computes a function; IEEE 754 itself for sqrt and reciprocal."""
    function = SWEPT[name]
    if function not in FUNCTIONS:
        return "IEEE 754"
    text = emit_text(function, is_quick=name in QUICK)
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def emit_text(function: Function, *, is_quick: bool = False) -> str:
    """The LLVM IR of a function's formula, or of its quick road, on vectors of 16 lanes."""
    kind = ir.VectorType(ir.FloatType(), _LANES)
    module = ir.Module(name="sweep")
    host = ir.Function(module, ir.FunctionType(kind, [kind]), function.name.lower())
    builder = ir.IRBuilder(host.append_basic_block())
    emit = partial(quick.emit, formula=emit_formula) if is_quick else emit_formula
    builder.ret(emit(builder, function, host.args[0]))
    return str(module)


def load(path: Path = RESULTS) -> dict[str, Record]:
    """The records in a file, by the name of the function; none if there is no file."""
    if not path.exists():
        return {}
    return {name: _parse(entry) for name, entry in json.loads(path.read_text()).items()}


def _parse(entry: dict[str, Any]) -> Record:
    found = entry["findings"]
    findings = Findings(
        found["inputs"],
        found["decided_by_mpfr"],
        found["mismatches"],
        [(operand, result, correct) for operand, result, correct in found["examples"]],
        [(distance, operand) for distance, operand in found["hard"]],
    )
    return Record(entry["code"], entry["seconds"], findings)


def save(name: str, record: Record, path: Path = RESULTS) -> None:
    """Replace one function's record; whoever reads the file sees all of the change or nothing."""
    entries = {name: asdict(record) for name, record in (load(path) | {name: record}).items()}
    ordered = {name: entries[name] for name in SWEPT if name in entries}
    text = ",\n".join(f"{json.dumps(name)}: {json.dumps(entry)}" for name, entry in ordered.items())
    beside = path.with_suffix(f".{os.getpid()}")
    beside.write_text(f"{{\n{text}\n}}\n")
    beside.replace(path)
