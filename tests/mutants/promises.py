"""The judge of mutants of the contracts of promises and premiums, by the calls of their tests.

Each call that a test makes is made again alone, on the storage that it was made on. The tests
compare what it has said, logged, written and paid with the model; so what differs here fails them.
"""

import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from moot.contracts.compiler import SOURCE_DIR, Artifact, read_sources
from moot.contracts.deployment import deploy_referee
from moot.contracts.model.types import NOBODY
from moot.offchain.arithmetic.ordered import ORDERED
from moot.offchain.errors import CompileError
from tests.machine import Machine, Memory
from tests.mutants.apart import run_apart
from tests.mutants.build import Function, Map, build, load
from tests.mutants.generate import Mutant
from tests.mutants.played import Made, play_tests
from tests.referee.stage import ACCOUNTS

CONTRACTS = ("availability", "delivery")
RECORDING_SECONDS = 1_000


@dataclass(frozen=True, slots=True)
class Probe:
    """A call, the contract's answer, and the functions that it enters."""

    made: Made
    answer: tuple[Any, ...]
    functions: frozenset[Function]


Recording = Callable[[], tuple[dict[str, Artifact], list[Probe]]]
Answering = Callable[[Made], tuple[Any, ...] | None]


class Stage:
    """A machine with the referee and one of the contracts."""

    def __init__(self, artifact: Artifact) -> None:
        self.machine = Machine((*ACCOUNTS, NOBODY))
        deploy_referee(self.machine, NOBODY, ORDERED)
        self.raw = self.machine.deploy(artifact).raw

    def ask(self, made: Made) -> tuple[Any, ...]:
        """Make a call; return the reason for a refusal, or output, logs and what is written."""
        return ask(self.machine, self.raw, made)


def ask(machine: Machine, raw: bytes, made: Made) -> tuple[Any, ...]:
    """Make a call of a contract of a machine, on the storage that it was made on.

    Returns:
        The reason for a refusal, or output, logs and what is written.
    """
    memory = Memory(made.before)
    machine.remember_in(memory)
    where = {"sender": made.sender, "value_wei": made.value_wei, "block": made.block}
    result = machine.call(raw, made.data, **where)  # type: ignore[arg-type] # by name
    if result.reason is not None:
        return (result.reason,)
    return (result.output, result.logs, memory.list_changes())


class Judge:
    """A judge that knows the contracts' answers; a process with one may judge one mutant.

    Attributes:
        SECONDS: how long a mutant may take.
        CONTRACTS: the names of the contracts.
        EVERYWHERE: functions of which no call is known not to enter them.
        RECORD: compiles the contracts, and records what they answer.
        order: the places of the calls, those first that have told mutants apart lately.
    """

    SECONDS: ClassVar[int] = 300
    CONTRACTS: ClassVar[tuple[str, ...]] = CONTRACTS
    EVERYWHERE: ClassVar[frozenset[str]] = frozenset({""})
    RECORD: ClassVar[Recording]

    def __init__(self) -> None:
        self._sources = read_sources(SOURCE_DIR, ORDERED.contracts)
        self._closures = {name: frozenset(self._close(f"{name}.vy")) for name in self.CONTRACTS}
        self._originals, self._probes = run_apart(self.RECORD, seconds=RECORDING_SECONDS)
        for name in self.CONTRACTS:
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
        names = [name for name in self.CONTRACTS if mutant.file in self._closures[name]]
        sources = {**self._sources, mutant.file: mutant.text}
        try:
            artifacts = {name: build(name, sources) for name in names}
        except CompileError:
            return "stillborn", -1
        if all(artifacts[name].bytecode == self._originals[name].bytecode for name in names):
            return "same", -1
        answer = self.open(artifacts)
        is_everywhere = mutant.function in self.EVERYWHERE
        for place in self.order:
            probe = self._probes[place]
            is_near = is_everywhere or (mutant.file, mutant.function) in probe.functions
            if is_near and answer(probe.made) not in (None, probe.answer):
                return "killed", place
        return "survived", -1

    def open(self, artifacts: Mapping[str, Artifact]) -> Answering:
        """Return what answers calls by contracts of which some are mutants.

        It returns None for a call of a contract that is none of these.
        """
        stages = {name: Stage(artifact) for name, artifact in artifacts.items()}
        return lambda made: stages[made.contract].ask(made) if made.contract in stages else None


def _record() -> tuple[dict[str, Artifact], list[Probe]]:
    """Compile the contracts, and record what they answer to the calls of the tests."""
    sources = read_sources(SOURCE_DIR, ORDERED.contracts)
    artifacts = {
        name: run_apart(build, name, sources, seconds=RECORDING_SECONDS) for name in CONTRACTS
    }
    calls: list[Made] = run_apart(_play, seconds=RECORDING_SECONDS)
    maps = {name: Map(name, sources) for name in CONTRACTS}
    stages = {name: Stage(artifact) for name, artifact in artifacts.items()}
    jumps: list[tuple[bytes, int]] = []
    stages[CONTRACTS[0]].machine.watch_jumps(lambda *jump: jumps.append(jump))
    seen: Counter[tuple[str, int]] = Counter()
    probes: list[tuple[int, Probe]] = []
    for made in calls:
        jumps.clear()
        answer, raw = stages[made.contract].ask(made), stages[made.contract].raw
        way = (made.contract, hash(tuple(jumps)))
        seen[way] += 1
        places = {place for code, place in jumps if code == raw}
        found = {maps[made.contract].find(place) for place in places}
        probes.append((seen[way], Probe(made, answer, frozenset(it for it in found if it))))
    # Those first that take a way through the code which few have taken before.
    return artifacts, [probe for _, probe in sorted(probes, key=lambda each: each[0])]


def _play() -> list[Made]:
    return play_tests()[0]


Judge.RECORD = staticmethod(_record)
