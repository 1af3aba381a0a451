"""The judge of mutants of the contracts, by all recorded calls and the original's answers."""

from collections import Counter
from collections.abc import Callable, Mapping
from typing import Any, ClassVar

from moot.contracts.compiler import Artifact
from tests.mutants import promises
from tests.mutants.corpus import tell_all
from tests.mutants.generate import Mutant
from tests.mutants.replay import Answer, Contract, Probe, Recorder
from tests.mutants.tape import ACCOUNTS

ALIKE = 4
"""How many calls are kept of those that take the same way through the code, except planned ones."""


class Judge(promises.Judge):
    """A judge that knows the answers of the referee's contracts; others are deployed unchanged."""

    CONTRACTS: ClassVar[tuple[str, ...]] = ("leaf", "referee", "legality")
    EVERYWHERE: ClassVar[frozenset[str]] = frozenset({"", "__init__"})
    _contract: Contract

    def open(self, artifacts: Mapping[str, Artifact]) -> Callable[[Probe], Answer]:
        """Return what makes recorded calls of some contracts."""
        contract = self._contract = Contract(self._kind(ACCOUNTS), artifacts, self.ARITHMETIC)
        return lambda probe: contract.ask(probe.made, probe.to, probe.data, probe.before)

    def can_reach(self, probe: Probe, mutant: Mutant) -> bool:
        """Whether a call may run the changed code."""
        return super().can_reach(probe, mutant) or mutant.function == probe.made.name

    def is_alone(self, name: str, probe: Probe) -> bool:
        """Whether a call is made of a contract that calls no other on the way."""
        return name == "leaf" and probe.made.name in {"compute", "inspect"}

    def record(self) -> tuple[dict[str, Artifact], list[Any]]:
        """Compile the contracts, and record what they answer to the calls of the corpus."""
        artifacts, maps = self.build()
        recorder = Recorder(ACCOUNTS, artifacts, maps, self.ARITHMETIC)
        seen: Counter[tuple[str, int]] = Counter()
        probes = []
        for story in tell_all(self.ARITHMETIC):
            for probe in recorder.record(story.calls):
                way = (probe.made.name, probe.jumps)
                seen[way] += 1
                if story.is_planned or seen[way] <= ALIKE:
                    probes.append(probe)
        return artifacts, probes
