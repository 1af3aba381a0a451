"""The judge of mutants of the contracts of receipts, by the calls of their tests.

Each call that a test makes is made again alone, on the storage that it was made on. The tests
compare what it has said, logged, written and paid with the models; so what differs here fails them.
"""

import re
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from moot.contracts.compiler import SOURCE_DIR, Artifact, compile_contract, read_sources
from moot.contracts.model.types import NOBODY
from moot.offchain.arithmetic.ordered import ORDERED
from moot.offchain.errors import CompileError
from tests.machine import Machine, Memory
from tests.mutants.apart import run_apart
from tests.mutants.build import Function, Map, build, load
from tests.mutants.generate import Mutant
from tests.mutants.played import Made
from tests.mutants.served import play_tests
from tests.referee.services import ACCOUNTS

CONTRACTS = ("challenges", "service")
RECORDING_SECONDS = 1_000


@dataclass(frozen=True, slots=True)
class Probe:
    """A call, the contracts' answer, and the functions that it enters."""

    made: Made
    answer: tuple[Any, ...]
    functions: frozenset[Function]


class Stage:
    """A machine with a service and its challenges, deployed as `deploy_service` does."""

    def __init__(self, artifacts: Mapping[str, Artifact]) -> None:
        self.machine = Machine((*ACCOUNTS, NOBODY))
        below = self.machine.deploy(compile_contract("transcendental"))
        leaf = self.machine.deploy(compile_contract("leaf"), below.address)
        challenges = self.machine.deploy(artifacts["challenges"], leaf.address)
        service = self.machine.deploy(artifacts["service"], challenges.address)
        self.raw = {"challenges": challenges.raw, "service": service.raw}

    def ask(self, made: Made) -> tuple[Any, ...]:
        """Make a call; return the reason for a refusal, or output, logs and what is written."""
        memory = Memory(made.before)
        self.machine.remember_in(memory)
        where = {"sender": made.sender, "value_wei": made.value_wei, "block": made.block}
        result = self.machine.call(self.raw[made.contract], made.data, **where)  # type: ignore[arg-type] # by name
        if result.reason is not None:
            return (result.reason,)
        return (result.output, result.logs, memory.list_changes())


class Judge:
    """A judge that knows the contracts' answers; a process with one may judge one mutant.

    Attributes:
        SECONDS: how long a mutant may take.
        order: the places of the calls, those first that have told mutants apart lately.
    """

    SECONDS: ClassVar[int] = 300

    def __init__(self) -> None:
        self._sources = read_sources(SOURCE_DIR, ORDERED.contracts)
        self._closures = {name: frozenset(self._close(f"{name}.vy")) for name in CONTRACTS}
        self._originals, self._probes = run_apart(_record, seconds=RECORDING_SECONDS)
        for name in CONTRACTS:
            load(name, self._sources)
        self.order = list(range(len(self._probes)))

    def _close(self, file: str) -> Iterator[str]:
        """Yield the files that one imports, itself included."""
        yield file
        for module in re.findall(r"^import (\w+)$", self._sources[file], re.MULTILINE):
            if f"{module}.vy" in self._sources:
                yield from self._close(f"{module}.vy")

    def judge(self, mutant: Mutant) -> tuple[str, int]:
        """Return what becomes of a mutant, and the place of the call that kills it, if one does."""
        names = [name for name in CONTRACTS if mutant.file in self._closures[name]]
        sources = {**self._sources, mutant.file: mutant.text}
        try:
            artifacts = {name: build(name, sources) for name in names}
        except CompileError:
            return "stillborn", -1
        if all(artifacts[name].bytecode == self._originals[name].bytecode for name in names):
            return "same", -1
        stage = Stage({**self._originals, **artifacts})
        for place in self.order:
            probe = self._probes[place]
            is_near = mutant.function in {"", "__init__"}
            is_near = is_near or (mutant.file, mutant.function) in probe.functions
            if is_near and stage.ask(probe.made) != probe.answer:
                return "killed", place
        return "survived", -1


def _record() -> tuple[dict[str, Artifact], list[Probe]]:
    """Compile the contracts, and record what they answer to the calls of the tests."""
    sources = read_sources(SOURCE_DIR, ORDERED.contracts)
    artifacts = {
        name: run_apart(build, name, sources, seconds=RECORDING_SECONDS) for name in CONTRACTS
    }
    calls: list[Made] = run_apart(_play, seconds=RECORDING_SECONDS)
    maps = {name: Map(name, sources) for name in CONTRACTS}
    stage, jumps = Stage(artifacts), list[tuple[bytes, int]]()
    stage.machine.watch_jumps(lambda *jump: jumps.append(jump))
    seen: Counter[tuple[str, int]] = Counter()
    probes: list[tuple[int, Probe]] = []
    for made in calls:
        jumps.clear()
        answer = stage.ask(made)
        way = (made.contract, hash(tuple(jumps)))
        seen[way] += 1
        found = {
            maps[name].find(place)
            for name, raw in stage.raw.items()
            for code, place in set(jumps)
            if code == raw
        }
        probes.append((seen[way], Probe(made, answer, frozenset(it for it in found if it))))
    # Those first that take a way through the code which few have taken before.
    return artifacts, [probe for _, probe in sorted(probes, key=lambda each: each[0])]


def _play() -> list[Made]:
    return play_tests()[0]
