"""The replay of recorded calls: in a row on the model, and each alone on the contracts."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from moot.contracts.compiler import Artifact, compile_contract
from moot.contracts.deployment import deploy_referee
from moot.contracts.model.abi import pack_call
from moot.contracts.model.checks import name_match
from moot.contracts.model.leaf import compute_leaf, read_node
from moot.contracts.model.ledger import calculate_debt
from moot.contracts.model.referee import call
from moot.contracts.model.types import NOBODY, Message, Pair, Store
from moot.contracts.model.words import hash_pair, pack_claim, pack_member, pack_tally
from moot.contracts.reasons import Revert, Status
from moot.offchain.arithmetic.base import Arithmetic
from moot.offchain.arithmetic.ordered import ORDERED
from moot.offchain.errors import BadCall
from tests.machines.base import Deployed, Machine, Words, name_contract
from tests.machines.pyevm import PyEvm, watch_jumps
from tests.mutants.build import Function, Map
from tests.referee.leaf_contract import pack_question


def locate_referee(arithmetic: Arithmetic) -> str:
    """Return where machines put the referee: after three contracts, or four."""
    return "0x" + name_contract(3 if arithmetic == ORDERED else 4).hex()


@dataclass(frozen=True, slots=True)
class Call:
    """One call that was made, whether it was accepted or not."""

    block: int
    sender: str
    name: str
    args: tuple[Any, ...]
    value_wei: int = 0


Trace = Sequence[Call]


@dataclass(frozen=True, slots=True)
class Story:
    """All calls to an arithmetic's referee, from its first on; in a planned story each counts."""

    calls: Trace
    is_planned: bool = False
    arithmetic: Arithmetic = ORDERED


def replay_model(story: Story, chain_id: int) -> Iterator[str]:
    """Yield what the model says to each call, and at last how it stands."""
    arithmetic = story.arithmetic
    store = Store(chain_id, locate_referee(arithmetic), arithmetic=arithmetic)
    for made in story.calls:
        message = Message(made.sender, made.value_wei, made.block)
        try:
            yield repr(_MODEL.get(made.name, call)(store, made.name, message, *made.args))
        except Revert as refusal:
            yield str(refusal)
        except Exception as error:  # noqa: BLE001 - a mutant may fail in any way
            yield type(error).__name__
    tables = (store.jobs, store.members, store.claims, store.matches)
    yield repr((*tables, store.balance_wei, store.burned_wei))
    try:
        yield repr(list(_list_words(store)))
    except Exception as error:  # noqa: BLE001 - likewise
        yield type(error).__name__


def _list_words(store: Store) -> Iterator[Any]:
    """Yield the words that the contract would remember, and what its callers look up."""
    yield from map(pack_tally, store.jobs.values())
    yield from map(pack_member, store.members.values())
    yield from map(pack_claim, store.claims.values())
    yield from map(hash_pair, store.matches)
    for (job_id, one), (_, other) in pairwise(store.members):
        yield name_match(store, Pair(job_id, one, other))


def _view(store: Store, name: str, message: Message, *args: Any) -> Any:
    """Return what the model says to a question, which changes nothing."""
    del message
    if name == "get_debt":
        job_id, account = args
        job = store.jobs[job_id]
        is_open = job.status is Status.OPEN
        return 0 if is_open else calculate_debt(store, job_id, job, account)
    if name == "inspect":
        return read_node(*args, store.arithmetic)
    context, encoding, evidence = args
    return compute_leaf(store.arithmetic, context, read_node(encoding, store.arithmetic), evidence)


_MODEL = {"get_debt": _view, "inspect": _view, "compute": _view}
"""The calls that change nothing."""

Answer = tuple[Any, ...]
"""The reason for a refusal; or else the output, the logs, and all that has been written."""


@dataclass(frozen=True, slots=True)
class Probe:
    """One call, the contracts' storage before it, and their answer.

    Attributes:
        made: the call.
        to: the contract that is called.
        data: the call's data.
        before: what they remember: see `Machine.answer`.
        answer: what they answer.
        jumps: a digest of all jumps of their code on the way.
        functions: those that were entered.
    """

    made: Call
    to: bytes
    data: bytes
    before: Words
    answer: Answer
    jumps: int
    functions: frozenset[Function]


class Contract:
    """The deployed contracts, ready to be asked.

    Args:
        machine: where nothing is deployed.
        artifacts: what to deploy in place of the arithmetic's contracts of the same names.
        arithmetic: that of the referee.
    """

    def __init__(
        self,
        machine: Machine,
        artifacts: Mapping[str, Artifact],
        arithmetic: Arithmetic = ORDERED,
    ) -> None:
        self.machine = machine
        self._artifacts = artifacts
        self._arithmetic = arithmetic
        self.deployed: dict[str, Deployed] = {}
        self._deployed_by_call: dict[str, Deployed] = {}
        self._referee = locate_referee(arithmetic)
        assert deploy_referee(self, NOBODY, arithmetic).address == self._referee

    def deploy(self, artifact: Artifact, *args: Any, sender: Any) -> Deployed:
        """Deploy a contract, or what replaces it."""
        chosen = self._artifacts.get(artifact.name, artifact)
        own = compile_contract(artifact.name, arithmetic=self._arithmetic.contracts)
        if artifact != own:
            chosen = artifact
        deployed = self.machine.deploy(chosen, *args, sender=sender)
        self.deployed[artifact.name] = deployed
        for entry in artifact.abi:
            if entry["type"] == "function":
                self._deployed_by_call[entry["name"]] = deployed
        return deployed

    def at(self, artifact: Artifact, address: str) -> Deployed:
        """Return a contract that has been deployed."""
        return self.machine.at(artifact, address)

    def encode(self, made: Call) -> tuple[bytes, bytes]:
        """Return where a call goes, and its data; a leaf is told which referee it is for."""
        deployed = self._deployed_by_call[made.name]
        args = pack_call(made.name, made.args, self._referee)
        if made.name == "compute":
            args = (*pack_question(self._arithmetic, made.args[0]), *made.args[1:])
        return deployed.raw, deployed.codec.encode_call(made.name, args)

    def ask(self, made: Call, to: bytes, data: bytes, before: Words) -> Answer:
        """Make a call."""
        where = {"sender": made.sender, "value_wei": made.value_wei, "block": made.block}
        return self.machine.answer(to, data, before, **where)


class Recorder:
    """Records what the contracts answer to the calls of stories.

    Args:
        accounts: those that send calls.
        artifacts: the contracts.
        maps: which functions their code belongs to, by their names.
        arithmetic: that of the referee.
    """

    def __init__(
        self,
        accounts: Sequence[str],
        artifacts: Mapping[str, Artifact],
        maps: Mapping[str, Map],
        arithmetic: Arithmetic = ORDERED,
    ) -> None:
        self._contract = Contract(PyEvm(accounts), artifacts, arithmetic)
        self._maps = {self._contract.deployed[name].raw: found for name, found in maps.items()}
        self._jumps: list[tuple[bytes, int]] = []
        watch_jumps(lambda *jump: self._jumps.append(jump))

    def record(self, trace: Trace) -> Iterator[Probe]:
        """Yield every call of a story that its ABI can say."""
        before: dict[tuple[bytes, int], int] = {}
        for made in trace:
            try:
                to, data = self._contract.encode(made)
            except BadCall:
                continue
            self._jumps.clear()
            answer = self._contract.ask(made, to, data, before)
            yield Probe(made, to, data, before, answer, hash(tuple(self._jumps)), self._find())
            if len(answer) > 1:
                before = before | dict(answer[2])

    def _find(self) -> frozenset[Function]:
        maps = self._maps
        found = {maps[code].find(place) for code, place in set(self._jumps) if code in maps}
        return frozenset(function for function in found if function is not None)
