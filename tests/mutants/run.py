"""Makes every mutant of the contract or of the model, and counts those that the corpus kills.

Use it as `python -m tests.mutants.run contract` (or `model`; for promises and premiums `promises`
or `promises_model`, and for receipts `service` or `service_model`, whose corpus is the calls of
their tests), with `--sample 200 --seed 1` for
some of them, or `--file turns.vy` for those of one file. With `--semantic` it takes the ones that
are written down in semantic.json instead. A mutant is killed by the first recorded call to which it
says something else; one that does not compile, or compiles to the same code, does not count.
Survivors are printed; those that tests/mutants/survivors.json gives a reason for are known.
"""

import argparse
import gc
import json
import os
import random
import resource
import sys
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import nullcontext
from dataclasses import dataclass, replace
from importlib import import_module
from multiprocessing import get_context
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.progress import track

from moot.contracts.compiler import SOURCE_DIR
from moot.offchain.arithmetic.table import ARITHMETICS
from tests.machines.table import NAMES, find_kind
from tests.mutants import promises
from tests.mutants.apart import run_apart
from tests.mutants.generate import Mutant, make_mutants
from tests.mutants.python import TESTS, is_of_names, prepare
from tests.mutants.semantic import make_semantic

CONTRACT_FILES = (
    "referee.vy",
    "ledger.vy",
    "tournament.vy",
    "turns.vy",
    "descent.vy",
    "verdicts.vy",
    "folding.vy",
    "merkle.vy",
    "tensors.vy",
    "decoder.vy",
    "nodes.vy",
    "leaf.vy",
    "operands.vy",
    "legality.vy",
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
    "legality.py",
    "words.py",
    "types.py",
)
SERVICE_FILES = (
    "service.py",
    "bonds.py",
    "faults.py",
    "challenges.py",
    "receipts.py",
    "signatures.py",
)
_MODEL_DIR = Path(import_module("moot.contracts.model").__path__[0])
_OFFCHAIN_DIR = SOURCE_DIR.parents[1] / "offchain"
SUBJECTS = {
    "contract": (SOURCE_DIR, CONTRACT_FILES),
    "exact": (SOURCE_DIR / "wide", ("folding.vy", "leaf.vy", "exact/folds.vy", "exact/sums.vy")),
    "hopper": (SOURCE_DIR / "wide" / "tensor", ("factors.vy", "folds.vy", "sums.vy")),
    "promises": (SOURCE_DIR, ("answers.vy", "availability.vy", "delivery.vy")),
    "promises_model": (_MODEL_DIR, ("answers.py", "availability.py", "delivery.py")),
    "service": (SOURCE_DIR, ("service.vy", "receipts.vy", "challenges.vy")),
    "service_model": (_MODEL_DIR, SERVICE_FILES),
    "model": (_MODEL_DIR, MODEL_FILES),
    "python": (_OFFCHAIN_DIR, tuple(TESTS)),
}
SURVIVORS = Path(__file__).with_name("survivors.json")
AIM = 0.95


@dataclass(frozen=True, slots=True)
class Fate:
    """The fate of a mutant: "killed", "survived", "stillborn" or "same"; seconds of a core."""

    name: str
    kind: str
    seconds: float


def main(arguments: Sequence[str]) -> int:
    """Run the mutants that were asked for; return 1 if the score is below the aim."""
    parser = argparse.ArgumentParser(prog="python -m tests.mutants.run", description=__doc__)
    parser.add_argument("subject", choices=SUBJECTS)
    parser.add_argument("--file", action="append", help="mutants of this file, or of several")
    parser.add_argument("--semantic", action="store_true", help="those of semantic.json")
    parser.add_argument("--sample", type=int, help="this many, drawn with the seed")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--again", type=Path, help="those that survived in such a file of --json")
    parser.add_argument("--machine", choices=NAMES, default=NAMES[0], help="where contracts are")
    parser.add_argument("--processes", type=int, default=os.cpu_count())
    parser.add_argument("--json", type=Path, help="write every fate to this file when it is known")
    options = parser.parse_args(arguments)
    make = make_semantic if options.semantic else make_mutants
    mutants = list(list_mutants(options.subject, options.file, make))
    if options.sample is not None and options.sample < len(mutants):
        chosen = sorted(random.Random(options.seed).sample(range(len(mutants)), options.sample))
        mutants = [mutants[i] for i in chosen]
    if options.again:
        lines = map(json.loads, options.again.read_text().splitlines())
        left = {name for name, kind, _ in lines if kind == "survived"}
        mutants = [mutant for mutant in mutants if mutant.name in left]
    fates = []
    with options.json.open("w") if options.json else nullcontext() as file:
        for fate in _judge_all(options, mutants):
            fates.append(fate)
            if file:
                print(json.dumps([fate.name, fate.kind, fate.seconds]), file=file, flush=True)
    return _report(fates)


def list_mutants(
    subject: str,
    chosen: Collection[str] | None,
    make: Callable[[str, str], Iterator[Mutant]] = make_mutants,
) -> Iterator[Mutant]:
    """Yield the mutants of the contract or of the model, or of the files that are chosen."""
    folder, files = SUBJECTS[subject]
    for name in files:
        if chosen is None or not {name, Path(name).name}.isdisjoint(chosen):
            file = name if folder == _OFFCHAIN_DIR else Path(name).name
            for mutant in make(file, (folder / name).read_text(encoding="utf-8")):
                if subject == "python" and is_of_names(mutant):
                    continue
                is_of_all = subject not in ARITHMETICS
                yield mutant if is_of_all else replace(mutant, name=f"{subject} {mutant.name}")


def _judge_all(options: argparse.Namespace, mutants: Sequence[Mutant]) -> Iterator[Fate]:
    global _judge  # noqa: PLW0603 - the workers are forks of this process
    if options.subject == "python":
        _judge = prepare(sorted({mutant.file for mutant in mutants}))
    else:
        judge = import_module(f"tests.mutants.{options.subject}").Judge
        has_contracts = issubclass(judge, promises.Judge)
        _judge = judge(find_kind(options.machine)) if has_contracts else judge()
    # What is there now is there to stay: children do not copy it to look for garbage.
    gc.collect()
    gc.freeze()
    console = Console(stderr=True)
    with ProcessPoolExecutor(options.processes, mp_context=get_context("fork")) as pool:
        fates = pool.map(_try, mutants)
        yield from track(fates, total=len(mutants), console=console, description="")


_judge: Any = None


def _try(mutant: Mutant) -> Fate:
    """Judge a mutant; what kills it is tried first on the next one, which is mostly near it."""
    started = _measure()
    kind, place = run_apart(_judge.judge, mutant, seconds=_judge.SECONDS) or ("killed", -1)
    if place >= 0:
        _judge.order.remove(place)
        _judge.order.insert(0, place)
    return Fate(mutant.name, kind, _measure() - started)


def _measure() -> float:
    """Return the seconds of a core that this process's children have taken."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def _report(fates: Sequence[Fate]) -> int:
    known = read_reasons()
    count = Counter(fate.kind for fate in fates)
    console = Console(width=140)
    for fate in fates:
        if fate.kind == "survived":
            reason = known.get(fate.name, "no reason known")
            console.print(f"{fate.name} - {reason}", markup=False, highlight=False)
    tried = count["killed"] + count["survived"]
    seconds = sum(fate.seconds for fate in fates) / max(len(fates), 1)
    console.print(
        f"{count['killed']} of {tried} killed ({count['killed'] / max(tried, 1):.1%}); "
        f"{count['stillborn']} did not compile, {count['same']} were the same code; "
        f"{seconds:.2f} s of a core each"
    )
    return int(count["killed"] < AIM * tried)


def read_reasons() -> Mapping[str, str]:
    """Return why known survivors survive, by their names; the file has a list for each reason."""
    reasons: Mapping[str, Sequence[str]] = json.loads(SURVIVORS.read_text(encoding="utf-8"))
    return {name: reason for reason, names in reasons.items() for name in names}


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
