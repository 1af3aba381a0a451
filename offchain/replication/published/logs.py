"""Logs of roundings: three codes, five to a byte, and a header that says what they belong to.

A step's log holds two streams, forward and backward, in the order in which the tensors are rounded.
An element's code is `DOWN`, `UNLOGGED` or `UP`; five codes make one byte in base 3, the first one
in the lowest place, and a stream's last byte is filled up with zeros: 1.6 bits a code.
"""

import os
import struct
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from moot.offchain.errors import LogError

Codes = NDArray[np.uint8]

DOWN, UNLOGGED, UP = 0, 1, 2

PER_BYTE = 5
MAX_BYTE = 3**PER_BYTE - 1

_WEIGHTS = tuple(3**place for place in range(PER_BYTE))
_DIGITS = (np.arange(MAX_BYTE + 1)[:, None] // np.array(_WEIGHTS) % 3).astype(np.uint8)

_MAGIC = b"moot-log"
_HEADER = struct.Struct("<8s32sQQQ")
"""Magic, the run's digest, the step, the codes forward, the codes backward."""

MAX_CODES = 1 << 40
"""Codes of a stream above which a header is refused."""


def pack(codes: Codes) -> Codes:
    """Return codes five to a byte."""
    whole = len(codes) // PER_BYTE * PER_BYTE
    rows = codes[:whole].reshape(-1, PER_BYTE)
    packed = rows[:, 0].copy()
    for place in range(1, PER_BYTE):
        packed += rows[:, place] * np.uint8(_WEIGHTS[place])
    if whole == len(codes):
        return packed
    last = sum(int(code) * weight for code, weight in zip(codes[whole:], _WEIGHTS, strict=False))
    return np.append(packed, np.uint8(last))


def unpack_bytes(packed: Codes) -> Codes:
    """Return the codes of checked bytes, five of each."""
    codes: Codes = _DIGITS[packed].reshape(-1)
    return codes


def unpack(packed: Codes, count: int) -> Codes:
    """Return the `count` codes of packed bytes.

    Raises:
        LogError: the bytes are too few or too many, hold no codes, or are not filled up with zeros.
    """
    check_stream(packed, count, "the stream")
    return unpack_bytes(packed)[:count]


def check_stream(packed: Codes, count: int, name: str) -> None:
    """Refuse bytes that are not the packed form of `count` codes, as `unpack` does."""
    expected = -(-count // PER_BYTE)
    if len(packed) != expected:
        fault = "is cut short" if len(packed) < expected else "has a surplus"
        raise LogError(
            f"{name} {fault}: {count:,} codes take {expected:,} bytes, not {len(packed):,}"
        )
    if len(packed) and int(packed.max()) > MAX_BYTE:
        raise LogError(f"{name} has a byte above {MAX_BYTE}, which is no five codes")
    rest = count % PER_BYTE
    if rest and _DIGITS[packed[-1], rest:].any():
        raise LogError(f"{name} has codes after its last one; fill it up with zeros")


class Packer:
    """A stream that is packed as it grows."""

    def __init__(self) -> None:
        self.count = 0
        self._parts: list[Codes] = []
        self._rest = np.empty(0, np.uint8)

    def add(self, codes: Codes) -> None:
        """Append codes."""
        self.count += len(codes)
        codes = np.concatenate([self._rest, codes])
        whole = len(codes) // PER_BYTE * PER_BYTE
        self._parts.append(pack(codes[:whole]))
        self._rest = codes[whole:]

    def finish(self) -> Codes:
        """Return all packed bytes."""
        return np.concatenate([*self._parts, pack(self._rest)])


class Unpacker:
    """A packed stream that is read from its start.

    Args:
        packed: the bytes, checked.
        count: how many codes they hold.
        name: what an error calls the stream.
    """

    def __init__(self, packed: Codes, count: int, name: str) -> None:
        self._packed, self._count, self._name = packed, count, name
        self._at = 0

    def take(self, count: int) -> Codes:
        """Return the next codes.

        Raises:
            LogError: there are fewer.
        """
        start, stop = self._at, self._at + count
        if stop > self._count:
            raise LogError(f"{self._name} ends after {self._count:,} codes, and the step has more")
        self._at = stop
        first = start // PER_BYTE
        codes = unpack_bytes(self._packed[first : -(-stop // PER_BYTE)])
        return codes[start - first * PER_BYTE : stop - first * PER_BYTE]

    def finish(self) -> None:
        """Refuse codes that were not taken with `LogError`."""
        if self._at != self._count:
            raise LogError(
                f"{self._name} has {self._count:,} codes, and the step only {self._at:,}"
            )


@dataclass(frozen=True, slots=True)
class StepLog:
    """The log of one step.

    Attributes:
        run: 32 bytes that name the run: its program and its settings.
        step: the step's number.
        streams: the packed bytes and the number of codes of each stream, by name, in order.
    """

    run: bytes
    step: int
    streams: Mapping[str, tuple[Codes, int]]


STREAMS = ("forward", "backward")


def encode_log(log: StepLog) -> bytes:
    """Return a log as bytes: a header of 64 bytes, then both streams."""
    counts = (log.streams[name][1] for name in STREAMS)
    header = _HEADER.pack(_MAGIC, log.run, log.step, *counts)
    return header + b"".join(log.streams[name][0].tobytes() for name in STREAMS)


def read_log(path: Path, run: bytes, step: int) -> StepLog:
    """Return the log in a file of another party, which is not read if it is not as it declares.

    Raises:
        LogError: there is none, or as `decode_log`.
    """
    try:
        with path.open("rb") as file:
            head = file.read(_HEADER.size)
            size = os.fstat(file.fileno()).st_size
            if len(head) == _HEADER.size:
                counts = _HEADER.unpack(head)[-len(STREAMS) :]
                declared = _HEADER.size + sum(-(-count // PER_BYTE) for count in counts)
                if size > declared:
                    raise LogError(f"the log has a surplus: it declares {declared:,} bytes")
            return decode_log(head + file.read(), run, step)
    except OSError as error:
        raise LogError(f"{path} can't be read: {error.strerror}") from error


def decode_log(data: bytes, run: bytes, step: int) -> StepLog:
    """Return the log that bytes of another party hold, if it is that of a step of a run.

    Raises:
        LogError: it is no log, belongs to another run or step, or is not as long as it declares.
    """
    if len(data) < _HEADER.size:
        raise LogError(f"the log is cut short: its header takes {_HEADER.size} bytes")
    magic, its_run, its_step, *counts = _HEADER.unpack_from(data)
    if magic != _MAGIC:
        raise LogError("this is no log of roundings; its first bytes say something else")
    if its_run != run:
        raise LogError("the log is of another run: its program or its settings differ")
    if its_step != step:
        raise LogError(f"the log is of step {its_step}; give that of step {step}")
    if max(counts) > MAX_CODES:
        raise LogError(f"the log declares {max(counts):,} codes; {MAX_CODES:,} are allowed")
    body, streams = np.frombuffer(data, np.uint8, offset=_HEADER.size), {}
    sizes = [-(-count // PER_BYTE) for count in counts]
    if len(body) != sum(sizes):
        fault = "is cut short" if len(body) < sum(sizes) else "has a surplus"
        raise LogError(f"the log {fault}: it declares {sum(sizes):,} bytes, not {len(body):,}")
    for name, packed, count in zip(STREAMS, np.split(body, sizes[:1]), counts, strict=True):
        check_stream(packed, count, f"the stream {name}")
        streams[name] = (packed, count)
    return StepLog(run, step, streams)
