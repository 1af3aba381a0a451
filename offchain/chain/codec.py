"""Encodes calls and decodes results and events by a contract's ABI."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from eth_abi.abi import decode, encode
from eth_abi.exceptions import DecodingError, EncodingError
from eth_utils.abi import collapse_if_tuple
from eth_utils.crypto import keccak

from moot.offchain.chain.receipts import Event, Log
from moot.offchain.errors import BadCall, UsageError

CONSTRUCTOR = "constructor"


@dataclass(frozen=True, slots=True)
class _Function:
    selector: bytes
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class _EventField:
    name: str
    type: str
    indexed: bool


@dataclass(frozen=True, slots=True)
class _EventLayout:
    name: str
    fields: tuple[_EventField, ...]


class Codec:
    """The ABI of one contract, ready to encode and decode.

    Python values are those of eth_abi: integers, bytes, lower-case addresses, tuples for
    structs. A single output is not wrapped in a tuple.
    """

    def __init__(self, abi: Iterable[Mapping[str, Any]]) -> None:
        self._functions: dict[tuple[str, int], _Function] = {}
        self._events: dict[bytes, _EventLayout] = {}
        constructor = _Function(b"", (), ())
        for entry in abi:
            if entry["type"] == "function":
                # Vyper's default arguments are overloads, which differ in their number.
                self._functions[entry["name"], len(entry["inputs"])] = _read_function(entry)
            elif entry["type"] == "constructor":
                constructor = _Function(b"", _read_types(entry["inputs"]), ())
            elif entry["type"] == "event":
                topic, layout = _read_event(entry)
                self._events[topic] = layout
        self._constructor = constructor

    def encode_call(self, name: str, args: Sequence[Any]) -> bytes:
        """Return the calldata of a call.

        Raises:
            BadCall: the arguments do not fit.
            UsageError: the contract has no such function.
        """
        function = self._get_function(name, args)
        return function.selector + _encode(name, function.inputs, args)

    def encode_constructor(self, args: Sequence[Any]) -> bytes:
        """Return what follows the bytecode in the calldata of a deployment, or raise BadCall."""
        return _encode(CONSTRUCTOR, self._constructor.inputs, args)

    def decode_call(self, data: bytes) -> tuple[str, tuple[Any, ...]] | None:
        """Return the function and the arguments of calldata; None if it is none of the contract."""
        for (name, _), function in self._functions.items():
            if data[:4] == function.selector:
                try:
                    return name, decode(function.inputs, data[4:])
                except (DecodingError, OverflowError):
                    return None
        return None

    def decode_result(self, name: str, args: Sequence[Any], data: bytes) -> Any:
        """Return what a call with these arguments returned, or raise BadCall."""
        types = self._get_function(name, args).outputs
        try:
            values = _decode(types, data)
        except (DecodingError, OverflowError) as error:
            problem = "it returned what its ABI does not allow; is this the right contract?"
            raise BadCall(name, problem) from error
        return values[0] if len(values) == 1 else values

    def decode_log(self, log: Log) -> Event:
        """Return the event of a log, or raise BadCall if the contract has no such event."""
        if not log.topics or log.topics[0] not in self._events:
            raise BadCall("an event", "the ABI does not know it; is this the right contract?")
        layout = self._events[log.topics[0]]
        indexed = sum(field.indexed for field in layout.fields)
        if len(log.topics) != 1 + indexed:
            raise BadCall(layout.name, f"it has {len(log.topics)} topics, not {1 + indexed}")
        try:
            return Event(layout.name, _decode_fields(layout, log))
        except (DecodingError, OverflowError) as error:
            raise BadCall(layout.name, "the event is not as its ABI says") from error

    def _get_function(self, name: str, args: Sequence[Any]) -> _Function:
        function = self._functions.get((name, len(args)))
        if function is not None:
            return function
        arities = sorted(arity for known, arity in self._functions if known == name)
        if not arities:
            raise UsageError.unknown("function", name, {known for known, _ in self._functions})
        wanted = " or ".join(map(str, arities))
        raise BadCall(name, f"it takes {wanted} arguments, not {len(args)}")


def _encode(call: str, types: tuple[str, ...], args: Sequence[Any]) -> bytes:
    try:
        return encode(types, args)
    except (EncodingError, OverflowError, TypeError, ValueError) as error:
        raise BadCall(call, f"it takes ({', '.join(types)}), and {error}") from error


def _decode(types: Sequence[str], data: bytes) -> tuple[Any, ...]:
    """Return values as contracts encode them, in one way only; DecodingError if it is another."""
    values = decode(types, data)
    if encode(types, values) != data:
        raise DecodingError("there is more than the values")
    return values


def _decode_fields(layout: _EventLayout, log: Log) -> dict[str, Any]:
    plain = [field.type for field in layout.fields if not field.indexed]
    values = iter(_decode(plain, log.data))
    topics = iter(log.topics[1:])
    args = {}
    for field in layout.fields:
        if not field.indexed:
            args[field.name] = next(values)
        elif _is_one_word(field.type):
            (args[field.name],) = _decode([field.type], next(topics))
        else:
            args[field.name] = next(topics)
    return args


def _is_one_word(type_name: str) -> bool:
    return type_name not in {"bytes", "string"} and not type_name.endswith((")", "]"))


def _read_types(components: Iterable[Mapping[str, Any]]) -> tuple[str, ...]:
    return tuple(collapse_if_tuple(dict(component)) for component in components)


def _hash_signature(name: str, types: Iterable[str]) -> bytes:
    return keccak(text=f"{name}({','.join(types)})")


def _read_function(entry: Mapping[str, Any]) -> _Function:
    inputs = _read_types(entry["inputs"])
    selector = _hash_signature(entry["name"], inputs)[:4]
    return _Function(selector, inputs, _read_types(entry["outputs"]))


def _read_event(entry: Mapping[str, Any]) -> tuple[bytes, _EventLayout]:
    types = _read_types(entry["inputs"])
    fields = tuple(
        _EventField(component["name"], type_name, component["indexed"])
        for component, type_name in zip(entry["inputs"], types, strict=True)
    )
    return _hash_signature(entry["name"], types), _EventLayout(entry["name"], fields)
