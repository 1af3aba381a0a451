"""The judge of mutants of the contracts of promises and premiums, by the calls of their tests.

Each call that a test makes is made again alone, on the storage that it was made on. The tests
compare what it has said, logged, written and paid with the model; so what differs here fails them.
"""

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from moot.contracts.compiler import SOURCE_DIR, Artifact, read_sources
from moot.contracts.deployment import deploy_referee
from moot.contracts.model.types import NOBODY
from moot.offchain.arithmetic.base import Arithmetic
from moot.offchain.arithmetic.ordered import ORDERED
from moot.offchain.errors import CompileError
from tests.machines.base import Deployed, Kind, Machine
from tests.machines.pyevm import PyEvm, watch_jumps
from tests.mutants.apart import run_apart
from tests.mutants.build import Function, Map, build, list_imports, prepare
from tests.mutants.generate import Mutant
from tests.mutants.played import Made, play_tests
from tests.referee.stage import ACCOUNTS

RECORDING_SECONDS = 1_000


@dataclass(frozen=True, slots=True)
class Probe:
    """A call, the contract's answer, and the functions that it enters."""

    made: Made
    answer: tuple[Any, ...]
    functions: frozenset[Function]


Stages = Mapping[str, tuple[Machine, Deployed]]
"""The contracts by their names, each in a machine, which may be another's, too."""


def ask(stages: Stages, made: Made) -> tuple[Any, ...]:
    """Make a call of a contract, on the storage that it was made on: see `Machine.answer`."""
    machine, contract = stages[made.contract]
    where = {"sender": made.sender, "value_wei": made.value_wei, "block": made.block}
    return machine.answer(contract.raw, made.data, made.before, **where)


class Judge:
    """A judge that knows the contracts' answers; a process with one may judge one mutant.

    Args:
        kind: that of the machines in which mutants are asked.

    Attributes:
        SECONDS: how long a mutant may take.
        CONTRACTS: the names of the contracts. Where a mutant is in several, what the first says
            alone may tell it apart, so that no other is compiled; all is asked of all in the end.
        EVERYWHERE: functions of which no call is known not to enter them.
        ARITHMETIC: that of the referee.
        order: the places of the calls, those first that have told mutants apart lately.
    """

    SECONDS: ClassVar[int] = 300
    CONTRACTS: ClassVar[tuple[str, ...]] = ("availability", "delivery")
    EVERYWHERE: ClassVar[frozenset[str]] = frozenset({""})
    ARITHMETIC: ClassVar[Arithmetic] = ORDERED

    def __init__(self, kind: Kind = PyEvm) -> None:
        self._kind = kind
        self._sources = read_sources(SOURCE_DIR, self.ARITHMETIC.contracts)
        files = ((name, f"{name}.vy") for name in self.CONTRACTS)
        self._closures = {
            name: frozenset((file, *list_imports(file, self._sources))) for name, file in files
        }
        self._originals, self._probes = run_apart(self.record, seconds=RECORDING_SECONDS)
        if kind is not PyEvm:
            assert run_apart(self.count_differences, seconds=RECORDING_SECONDS) == 0
        for name in self.CONTRACTS:
            prepare(name, self._sources)
        self.order = list(range(len(self._probes)))

    @staticmethod
    def deploy(artifacts: Mapping[str, Artifact], kind: Kind) -> Stages:
        """Deploy the contracts, each in a machine of its own, behind the referee."""
        stages = {}
        for name, artifact in artifacts.items():
            machine = kind((*ACCOUNTS, NOBODY))
            deploy_referee(machine, NOBODY, ORDERED)
            stages[name] = (machine, machine.deploy(artifact))
        return stages

    @staticmethod
    def play() -> list[Made]:
        """Return the calls that the tests make."""
        return play_tests()[0]

    def judge(self, mutant: Mutant) -> tuple[str, int]:
        """Return what becomes of a mutant, and the place of the call that kills it, if one does."""
        sources = {**self._sources, mutant.file: mutant.text}
        artifacts, kind = dict(self._originals), "same"
        names = [name for name in self.CONTRACTS if mutant.file in self._closures[name]]
        for name in names:
            try:
                artifacts[name] = build(name, sources)
            except CompileError:
                return "stillborn", -1
            if artifacts[name].bytecode != self._originals[name].bytecode:
                kind = "survived"
            is_last = name == names[-1]
            asked = [it for it in self.order if is_last or self.is_alone(name, self._probes[it])]
            if kind == "same" or not asked:
                continue
            answer = self.open(artifacts)
            for place in asked:
                probe = self._probes[place]
                if self.can_reach(probe, mutant) and answer(probe) != probe.answer:
                    return "killed", place
        return kind, -1

    def open(self, artifacts: Mapping[str, Artifact]) -> Callable[[Any], tuple[Any, ...]]:
        """Return what makes recorded calls of some contracts."""
        stages = self.deploy(artifacts, self._kind)
        return lambda probe: ask(stages, probe.made)

    def count_differences(self) -> int:
        """Count the calls that the original answers otherwise where mutants are asked."""
        answer = self.open(self._originals)
        return sum(answer(probe) != probe.answer for probe in self._probes)

    def is_alone(self, name: str, probe: Any) -> bool:
        """Whether a call is made of a contract that calls no other on the way."""
        del name, probe
        return False

    def can_reach(self, probe: Any, mutant: Mutant) -> bool:
        """Whether a call may run the changed code; constants always do."""
        is_everywhere = mutant.function in self.EVERYWHERE
        return is_everywhere or (mutant.file, mutant.function) in probe.functions

    def build(self) -> tuple[dict[str, Artifact], dict[str, Map]]:
        """Return the contracts as they are, and where their functions are in their code."""
        artifacts = {
            name: run_apart(build, name, self._sources, seconds=RECORDING_SECONDS)
            for name in self.CONTRACTS
        }
        return artifacts, {name: Map(name, self._sources) for name in self.CONTRACTS}

    def record(self) -> tuple[dict[str, Artifact], list[Any]]:
        """Compile the contracts, and record what they answer to the calls of the tests."""
        calls: list[Made] = run_apart(self.play, seconds=RECORDING_SECONDS)
        artifacts, maps = self.build()
        stages, jumps = self.deploy(artifacts, PyEvm), list[tuple[bytes, int]]()
        watch_jumps(lambda *jump: jumps.append(jump))
        seen: Counter[tuple[str, int]] = Counter()
        probes: list[tuple[int, Probe]] = []
        for made in calls:
            jumps.clear()
            answer = ask(stages, made)
            way = (made.contract, hash(tuple(jumps)))
            seen[way] += 1
            machine, _ = stages[made.contract]
            near = {it.raw: maps[name] for name, (its, it) in stages.items() if its is machine}
            found = {near[code].find(place) for code, place in set(jumps) if code in near}
            probes.append((seen[way], Probe(made, answer, frozenset(it for it in found if it))))
        # Those first that take a way through the code which few have taken before.
        return artifacts, [probe for _, probe in sorted(probes, key=lambda each: each[0])]
