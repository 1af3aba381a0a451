"""Makes every mutant of the contract or of the model, and counts those that the corpus kills.

Use it as `python -m tests.mutants.run contract` (or `model`), with `--sample 200 --seed 1` for some
of them, or `--file turns.vy` for those of one file. A mutant is killed by the first recorded call
to which it says something else; one that does not compile, or compiles to the same code, does not
count. Survivors are printed; those that tests/mutants/survivors.json gives a reason for are known.
"""

import argparse
import json
import os
import random
import re
import sys
import warnings
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from multiprocessing import get_context
from pathlib import Path
from types import FunctionType, ModuleType
from typing import Any

from rich.console import Console
from rich.progress import track

from contracts.compiler import SOURCE_DIR, Artifact, compile_sources, read_sources
from offchain.errors import CompileError
from tests.mutants.corpus import ACCOUNTS, CHAIN_ID, make_corpus
from tests.mutants.generate import Mutant, make_mutants
from tests.mutants.replay import Contract, replay_model

MODEL_DIR = Path(import_module("contracts.model").__path__[0])
CONTRACTS = ("transcendental", "leaf", "referee")
CONTRACT_FILES = (
    "referee.vy",
    "ledger.vy",
    "tournament.vy",
    "turns.vy",
    "descent.vy",
    "verdicts.vy",
    "merkle.vy",
    "tensors.vy",
    "leaf.vy",
)
MODEL_FILES = (
    "referee.py",
    "ledger.py",
    "tournament.py",
    "turns.py",
    "descent.py",
    "verdicts.py",
    "checks.py",
    "leaf.py",
    "words.py",
    "types.py",
)
SURVIVORS = Path(__file__).with_name("survivors.json")


@dataclass(frozen=True, slots=True)
class Fate:
    """What became of a mutant: "killed", "survived", "stillborn" or "same"."""

    name: str
    kind: str


def main(arguments: Sequence[str]) -> int:
    """Run the mutants that were asked for; return 1 if the score is below the aim."""
    parser = argparse.ArgumentParser(prog="python -m tests.mutants.run", description=__doc__)
    parser.add_argument("subject", choices=("contract", "model"))
    parser.add_argument("--file", help="mutants of this file only")
    parser.add_argument("--sample", type=int, help="this many, drawn with the seed")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--processes", type=int, default=os.cpu_count())
    parser.add_argument("--json", type=Path, help="write all fates to this file")
    options = parser.parse_args(arguments)
    mutants = list(_get_mutants(options.subject, options.file))
    if options.sample is not None:
        chosen = sorted(random.Random(options.seed).sample(range(len(mutants)), options.sample))
        mutants = [mutants[i] for i in chosen]
    judge: Callable[[Mutant], Fate] = try_contract if options.subject == "contract" else try_model
    pool = ProcessPoolExecutor(options.processes, mp_context=get_context("fork"))
    console = Console(stderr=True)
    with pool:
        fates = list(
            track(pool.map(judge, mutants), total=len(mutants), console=console, description="")
        )
    if options.json:
        options.json.write_text(json.dumps([[f.name, f.kind] for f in fates], indent=0))
    return _report(fates)


def _report(fates: Sequence[Fate]) -> int:
    known = json.loads(SURVIVORS.read_text()) if SURVIVORS.exists() else {}
    count = Counter(fate.kind for fate in fates)
    console = Console(width=140)
    for fate in fates:
        if fate.kind == "survived":
            console.print(fate.name, "-", known.get(fate.name, "no reason known"), markup=False)
    tried = count["killed"] + count["survived"]
    console.print(
        f"{count['killed']} of {tried} killed ({count['killed'] / max(tried, 1):.1%}); "
        f"{count['stillborn']} did not compile, {count['same']} were the same code"
    )
    return int(count["killed"] < 0.95 * tried)


def _get_mutants(subject: str, file: str | None) -> Iterator[Mutant]:
    folder, files = (
        (SOURCE_DIR, CONTRACT_FILES) if subject == "contract" else (MODEL_DIR, MODEL_FILES)
    )
    for name in files:
        if file in {None, name}:
            yield from make_mutants(name, (folder / name).read_text(encoding="utf-8"))


@cache
def _get_sources() -> Mapping[str, str]:
    return read_sources(SOURCE_DIR)


@cache
def _get_closure(name: str) -> frozenset[str]:
    """Return the files that a contract imports, itself included."""
    sources = _get_sources()
    found = {name}
    for module in re.findall(r"^import (\w+)$", sources[name], re.MULTILINE):
        if f"{module}.vy" in sources:
            found |= _get_closure(f"{module}.vy")
    return frozenset(found)


@cache
def _get_artifact(name: str) -> Artifact:
    return compile_sources(name, _get_sources())


@cache
def _get_expected() -> list[list[Any]]:
    contract = Contract(ACCOUNTS, *map(_get_artifact, CONTRACTS))
    return [contract.replay(trace) for trace in make_corpus()]


def try_contract(mutant: Mutant) -> Fate:
    """Compile a mutant of the contract, and replay the corpus on it."""
    sources = {**_get_sources(), mutant.file: mutant.text}
    artifacts = {}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for name in CONTRACTS:
            artifacts[name] = original = _get_artifact(name)
            if mutant.file in _get_closure(f"{name}.vy"):
                try:
                    artifacts[name] = compile_sources(name, sources)
                except CompileError:
                    return Fate(mutant.name, "stillborn")
                if artifacts[name].bytecode == original.bytecode:
                    artifacts[name] = original
    if all(artifacts[name] is _get_artifact(name) for name in artifacts):
        return Fate(mutant.name, "same")
    contract = Contract(ACCOUNTS, *artifacts.values())
    for trace, expected in zip(make_corpus(), _get_expected(), strict=True):
        if contract.replay(trace, expected) != expected:
            return Fate(mutant.name, "killed")
    return Fate(mutant.name, "survived")


@cache
def _get_said() -> list[list[str]]:
    return [replay_model(trace, CHAIN_ID) for trace in make_corpus()]


def try_model(mutant: Mutant) -> Fate:
    """Put a mutant of the model in its place in a process of its own, and replay the corpus."""
    expected = _get_said()
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        os.write(writer, _judge_model(mutant, expected).encode())
        os._exit(0)
    os.close(writer)
    with os.fdopen(reader) as answer:
        kind = answer.read()
    os.waitpid(child, 0)
    return Fate(mutant.name, kind or "killed")


def _judge_model(mutant: Mutant, expected: Sequence[Sequence[str]]) -> str:
    try:
        _install(mutant)
    except Exception:  # noqa: BLE001 - a mutant may fail in any way
        return "stillborn"
    for trace, said in zip(make_corpus(), expected, strict=True):
        if replay_model(trace, CHAIN_ID) != said:
            return "killed"
    return "survived"


def _install(mutant: Mutant) -> None:
    """Run a module's mutant in place of it, and give its functions to whoever imported them."""
    module = import_module(f"contracts.model.{mutant.file.removesuffix('.py')}")
    before = dict(vars(module))
    exec(compile(mutant.text, mutant.file, "exec"), vars(module))  # noqa: S102 - our own source
    changed = {
        id(old): vars(module)[name]
        for name, old in before.items()
        if isinstance(old, (FunctionType, type)) and old.__module__ == module.__name__
    }
    constants = {
        name: vars(module)[name]
        for name, old in before.items()
        if name.isupper() and vars(module)[name] is not old
    }
    for other in [m for n, m in sys.modules.items() if n.startswith(("contracts.model", __name__))]:
        _rebind(other, changed, constants)
    _rebind(sys.modules["tests.mutants.replay"], changed, constants)


def _rebind(module: ModuleType, changed: Mapping[int, Any], constants: Mapping[str, Any]) -> None:
    for name, value in list(vars(module).items()):
        if id(value) in changed:
            setattr(module, name, changed[id(value)])
        elif isinstance(value, dict) and name in {"CALLS", "_LEAVES"}:
            for key, handler in value.items():
                value[key] = changed.get(id(handler), handler)
        elif name in constants:
            setattr(module, name, constants[name])


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
