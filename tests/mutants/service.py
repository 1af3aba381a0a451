"""The judge of mutants of the contracts of receipts, by the calls of their tests.

Each call that a test makes is made again alone, on the storage that it was made on. The tests
compare what it has said, logged, written and paid with the models; so what differs here fails them.
"""

from collections import Counter
from collections.abc import Mapping
from typing import Any, ClassVar

from moot.contracts.compiler import SOURCE_DIR, Artifact, compile_contract, read_sources
from moot.contracts.model.types import NOBODY
from moot.offchain.arithmetic.ordered import ORDERED
from tests.machine import Machine
from tests.mutants import promises
from tests.mutants.apart import run_apart
from tests.mutants.build import Map, build
from tests.mutants.played import Made
from tests.mutants.promises import RECORDING_SECONDS, Probe
from tests.mutants.served import play_tests
from tests.referee.services import ACCOUNTS

CONTRACTS = ("challenges", "service")


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
        """See `promises.ask`."""
        return promises.ask(self.machine, self.raw[made.contract], made)


class Judge(promises.Judge):
    """A judge that knows the answers of the contracts of receipts, of which both are on a stage."""

    CONTRACTS: ClassVar[tuple[str, ...]] = CONTRACTS
    EVERYWHERE: ClassVar[frozenset[str]] = frozenset({"", "__init__"})

    def open(self, artifacts: Mapping[str, Artifact]) -> promises.Answering:
        """See `promises.Judge`."""
        return Stage({**self._originals, **artifacts}).ask


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


Judge.RECORD = staticmethod(_record)
