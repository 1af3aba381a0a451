"""The judge of mutants of the contracts, by all recorded calls and the original's answers."""

import re
from collections import Counter
from collections.abc import Collection, Iterator
from typing import ClassVar

from moot.contracts.compiler import SOURCE_DIR, Artifact, read_sources
from moot.offchain.arithmetic.base import Arithmetic
from moot.offchain.arithmetic.ordered import ORDERED
from moot.offchain.errors import CompileError
from tests.mutants.apart import run_apart
from tests.mutants.build import Map, build, load
from tests.mutants.corpus import tell_all
from tests.mutants.generate import Mutant
from tests.mutants.replay import Contract, Probe, Recorder
from tests.mutants.tape import ACCOUNTS

CONTRACTS = ("leaf", "legality", "referee")
"""The contracts whose mutants are made; all others are deployed unchanged."""
RECORDING_SECONDS = 1_000
ALIKE = 4
"""How many calls are kept of those that take the same way through the code, except planned ones."""


class Judge:
    """A judge that knows the contracts' answers; a process with one may judge one mutant.

    Attributes:
        SECONDS: how long a mutant may take.
        ARITHMETIC: that of the referee.
        order: the places of the recorded calls, those first that have told mutants apart lately.
    """

    SECONDS: ClassVar[int] = 300
    ARITHMETIC: ClassVar[Arithmetic] = ORDERED

    def __init__(self) -> None:
        self._sources = read_sources(SOURCE_DIR, self.ARITHMETIC.contracts)
        self._closures = {name: frozenset(self._close(f"{name}.vy")) for name in CONTRACTS}
        recorded = run_apart(_record, self.ARITHMETIC, seconds=RECORDING_SECONDS)
        self._originals, self._probes = recorded
        for name in CONTRACTS:
            load(name, self._sources)
        self.order = list(range(len(self._probes)))

    def _close(self, file: str) -> Iterator[str]:
        """Yield the files that one imports, itself included."""
        yield file
        for module in re.findall(r"^import (\w+)$", self._sources[file], re.MULTILINE):
            for suffix in (".vy", ".vyi"):
                if f"{module}{suffix}" in self._sources:
                    yield from self._close(f"{module}{suffix}")

    def judge(self, mutant: Mutant) -> tuple[str, int]:
        """Return what becomes of a mutant, and the place of the call that kills it, if one does."""
        try:
            artifacts = self._build(mutant)
        except CompileError:
            return "stillborn", -1
        if all(artifacts[name].bytecode == self._originals[name].bytecode for name in artifacts):
            return "same", -1
        contract = Contract(ACCOUNTS, artifacts, self.ARITHMETIC)
        asked = self._list_asked(contract, mutant.file)
        for place in self.order:
            probe = self._probes[place]
            if not _can_reach(probe, mutant, asked):
                continue
            if contract.ask(probe.made, probe.to, probe.data, probe.before) != probe.answer:
                return "killed", place
        return "survived", -1

    def _list_asked(self, contract: Contract, file: str) -> frozenset[bytes]:
        """Return which contracts are called.

        What the referee does not have is asked of those that have it, who would be asked the same.
        """
        names = CONTRACTS
        if file not in self._closures["referee"]:
            names = tuple(name for name in CONTRACTS if file in self._closures[name])
        return frozenset(contract.deployed[name].raw for name in names)

    def _build(self, mutant: Mutant) -> dict[str, Artifact]:
        sources = {**self._sources, mutant.file: mutant.text}
        return {
            name: build(name, sources) if mutant.file in self._closures[name] else original
            for name, original in self._originals.items()
        }


def _can_reach(probe: Probe, mutant: Mutant, asked: Collection[bytes]) -> bool:
    """Whether a call to one of these contracts may run the changed code; constants always do."""
    is_everywhere = mutant.function in {"", "__init__"}
    is_entered = (mutant.file, mutant.function) in probe.functions
    is_near = is_everywhere or is_entered or mutant.function == probe.made.name
    return is_near and probe.to in asked


def _record(arithmetic: Arithmetic) -> tuple[dict[str, Artifact], list[Probe]]:
    """Compile the contracts, and record what they answer to the calls of the corpus."""
    sources = read_sources(SOURCE_DIR, arithmetic.contracts)
    artifacts = {
        name: run_apart(build, name, sources, seconds=RECORDING_SECONDS) for name in CONTRACTS
    }
    maps = {name: Map(name, sources) for name in CONTRACTS}
    recorder = Recorder(ACCOUNTS, artifacts, maps, arithmetic)
    seen: Counter[tuple[str, int]] = Counter()
    probes = []
    for story in tell_all(arithmetic):
        for probe in recorder.record(story.calls):
            way = (probe.made.name, probe.jumps)
            seen[way] += 1
            if story.is_planned or seen[way] <= ALIKE:
                probes.append(probe)
    return artifacts, probes
