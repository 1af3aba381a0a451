"""A codec whose bytes stand for the model's own values: what the ABI says is tested elsewhere."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from functools import lru_cache
from typing import Any
from unittest.mock import patch

from moot.contracts.model.answers import Subject, hash_subject
from moot.contracts.model.types import Event as ModelEvent
from moot.contracts.model.types import Pair
from moot.contracts.model.words import hash_pair
from moot.offchain.chain.receipts import Event, Log
from moot.offchain.commitments.keccak import keccak256
from moot.offchain.errors import BadCall

WHO = {"Demanded": "asker", "Shown": "account", "Broken": "asker"}
OF_MATCH = frozenset({"Found", "Moved", "MatchEnded"})
Question = tuple[str, tuple[Any, ...]]


class Codec:
    """A codec that keeps what its bytes stand for, of one game."""

    def __init__(self) -> None:
        self.calls: dict[bytes, Question] = {}
        self._values: dict[bytes, Any] = {}
        self._events: dict[int, bytes] = {}

    def keep(self, value: Any) -> bytes:
        """Return bytes that stand for a value; the same for the same event."""
        if id(value) in self._events:
            return self._events[id(value)]
        handle = len(self._values).to_bytes(32, "big")
        self._values[handle] = value
        if isinstance(value, ModelEvent):  # which stays, so that nothing else gets its id
            self._events[id(value)] = handle
        return handle

    def find(self, data: bytes) -> Any:
        """Return what bytes stand for; None if for nothing."""
        return self._values.get(data)

    def encode_call(self, name: str, args: Sequence[Any]) -> bytes:
        """Return the calldata of a call; the same for the same call."""
        data = f"{name}{args!r}".encode()
        self.calls[data] = name, tuple(args)
        return data

    def decode_call(self, data: bytes) -> Question | None:
        """Return the call of calldata."""
        return self.calls.get(data)

    def decode_result(self, name: str, args: Sequence[Any], data: bytes) -> Any:
        """Return what a call returned, or raise BadCall as the real one does."""
        del args
        if data not in self._values:
            raise BadCall(name, "it returned what its ABI does not allow")
        return self._values[data]

    def decode_log(self, log: Log) -> Event:
        """Return the event of a log, or raise BadCall if there is none such."""
        found = self._values.get(log.data)
        if not isinstance(found, ModelEvent) or not log.topics or log.topics[0] != get_topic(found):
            raise BadCall("an event", "the ABI does not know it; is this the right contract?")
        return Event(found.name, _name_args(found))


class Reader:
    """Reads events that are the model's already; see EventReader."""

    def __init__(self) -> None:
        self._pairs: set[Pair] = set()

    def note(self, pair: Pair) -> None:
        """Remember the members of a match."""
        self._pairs.add(pair)

    def is_strange(self, name: str, args: Mapping[str, Any]) -> bool:
        """Whether an event is of a match of which nothing is known."""
        return name in OF_MATCH and Pair(*list(args.values())[:3]) not in self._pairs

    def read(self, name: str, args: Sequence[Any]) -> ModelEvent:
        """Return the event."""
        if name == "MatchStarted":
            self.note(Pair(*args[:3]))
        return ModelEvent(name, tuple(args))


def get_topic(event: ModelEvent) -> bytes:
    """Return the topic of an event's kind."""
    return event.name.encode().ljust(32, b"\0")


def get_event_key(event: ModelEvent) -> bytes:
    """Return an event's first indexed argument, as a word."""
    first = event.args[0]
    if event.name in OF_MATCH:
        return hash_pair(Pair(*event.args[:3]))  # type: ignore[arg-type] # the members
    return first if isinstance(first, bytes) else int(str(first)).to_bytes(32, "big")


def _name_args(event: ModelEvent) -> dict[str, Any]:
    """Return an event's arguments by name; those of the referee's are only counted."""
    if event.name in WHO:
        names = ("promise_id", WHO[event.name], "part", "index", "chunk", "deadline")
        return dict(zip(names, event.args, strict=False))
    return {str(place): arg for place, arg in enumerate(event.args)}


@lru_cache(maxsize=1 << 14)
def hash_place(subject: Subject, place: tuple[int, ...]) -> bytes:
    """Return the number of a demand."""
    words = b"".join(int(it).to_bytes(32, "big") for it in place)
    return keccak256(hash_subject(subject) + words)


def _keep(*args: Any) -> Any:
    """Return the arguments of a call as they are."""
    return args[1] if isinstance(args[0], str) else args[0]


@contextmanager
def plain_words() -> Iterator[None]:
    """Let chain access pass the model's values, instead of the contract's words."""
    chain_referee, answers = (
        "moot.offchain.disputes.referee.on_chain",
        "moot.offchain.parties.answers",
    )
    names = [f"{chain_referee}.pack_call", f"{answers}.pack_args"]
    readers = (chain_referee, "moot.offchain.parties.polled_referee")
    names += [f"{it}.unpack_{name}" for it in readers for name in ("job", "member")]
    names += [f"{answers}.unpack_{name}" for name in ("demand", "promise")]
    names.append("moot.offchain.parties.promises.unpack_promise")
    with ExitStack() as stack:
        for name in names:
            stack.enter_context(patch(name, _keep))
        yield
