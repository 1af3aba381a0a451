"""The record of a referee as data: its JSON form, which `docs/how-to/court.md` describes.

A record is a list of frames, one for each call that the referee accepted, in order. A frame has
whole new values of what the call changed, so that the state after any frame is the union of the
frames up to it, the latest value of each entity.
"""

from pathlib import Path
from typing import Annotated, Literal

import msgspec
from msgspec import Meta, Struct

from moot.offchain.errors import UsageError

FORMAT: Literal["moot court record"] = "moot court record"
VERSION: Literal[1] = 1
MAX_BYTES = 1 << 28
"""More than the record of a hundred thousand moves takes."""

Side = Literal[0, 1]
Place = Annotated[int, Meta(ge=0)]
MAX_PARTS = 256
"""A move divides what is in dispute into so many parts at most: a chunk of bytes."""
Parts = Annotated[list[Place], Meta(min_length=1, max_length=MAX_PARTS)]
Wei = Annotated[str, Meta(pattern="^[0-9]{1,40}$")]
"""An amount, in decimal digits: more than a number of JSON holds."""


class _Form(Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """A part of a record; what has its default is left out of the JSON."""


class Value(_Form, frozen=True):
    """An element or accumulator: its bits in hexadecimal, and the number that they mean."""

    bits: str
    number: str = ""


class Opening(_Form, frozen=True):
    """A side's commitment to the parts of what is in dispute.

    Attributes:
        by: the side that shows them.
        tree: what is divided: history, interval, trace, state, tensor, chunk or fold.
        count: the places in all of it.
        low: the first place of the range that is opened.
        high: the place after its last.
        starts: where each part begins.
        values: the elements or accumulators that are shown; of a fold those at the inner
            boundaries.
        labels: the names of the parts, where each is one place and has a name.
    """

    by: Side
    tree: str
    count: Place
    low: Place
    high: Place
    starts: Parts
    values: Annotated[list[Value], Meta(max_length=MAX_PARTS)] = []
    labels: Annotated[list[str], Meta(max_length=MAX_PARTS)] = []


class Pick(_Form, frozen=True):
    """A side's choice: the first part in which the two sides differ.

    All before `low` is the same on both sides, or was accepted by the side that picks.
    """

    by: Side
    tree: str
    low: Place
    high: Place
    label: str = ""


class Operator(_Form, frozen=True):
    """A disputed operator: its place in the program, its name if that is known, and its meaning."""

    index: Place
    name: str = ""
    kind: str = ""
    function: str = ""


class Found(_Form, frozen=True):
    """What a match has found out so far; of a fold, the steps [low, high) that are in dispute."""

    checkpoint: Place | None = None
    step: Place | None = None
    operator: Operator | None = None
    element: Place | None = None
    low: Place | None = None
    high: Place | None = None
    fold_length: Place = 0
    agreed: Value | None = None
    claimed: tuple[Value, Value] | None = None


class Scalar(_Form, frozen=True):
    """The scalar operation that the contract computed: from which operands, and what it is."""

    function: str
    operands: list[Value]
    computed: Value


class End(_Form, frozen=True):
    """How a match ended: which side was right (first, second, neither, undecided), and why.

    `stopped` are matches that nobody can end, because a member or the job is out.
    """

    ending: str
    outcome: str
    block: Place


class Match(_Form, frozen=True):
    """A match after a frame."""

    number: Place
    job: Place
    sides: tuple[str, str]
    claims: tuple[str, str]
    started_block: Place
    phase: str
    mover: Side
    moves: Place
    deadline: Place
    spare_blocks: Place
    clock_blocks: Place
    increment_blocks: Place
    digest: str
    found: Found = Found()
    scalar: Scalar | None = None
    end: End | None = None


class Member(_Form, frozen=True):
    """A member of a job after a frame; `claim` is empty as long as it is hidden."""

    job: Place
    address: str
    standing: str
    claim: str = ""
    prizes: Place = 0
    paid_wei: Wei = "0"


class Claim(_Form, frozen=True):
    """A claim of a job after a frame."""

    job: Place
    top: str
    contenders: Place
    sharers: Place
    meeting: Place
    window_end: Place


class Job(_Form, frozen=True):
    """A job after a frame; amounts are wei, in decimal digits."""

    number: Place
    client: str
    status: str
    leaf: str
    reward_wei: Wei
    bond_wei: Wei
    prize_wei: Wei
    opened_block: Place
    commit_deadline: Place
    reveal_deadline: Place
    window_end: Place
    steps: Place
    checkpoint_every: Place
    operators: Place
    state_slots: Place
    hidden: Place = 0
    claims: Place = 0
    defeated: Place = 0
    burned_wei: Wei = "0"
    paid_wei: Wei = "0"
    winner: str = ""


class Call(_Form, frozen=True):
    """A transaction; without its costs where the referee is a model.

    `name` is empty where the referee was called through a contract that we do not know.
    """

    name: str
    sender: str
    transaction: str = ""
    gas: Place = 0
    calldata_bytes: Place = 0
    gas_price_wei: Wei = "0"


class Frame(_Form, frozen=True):
    """One accepted call, and what it changed.

    Attributes:
        block: the block that it is in.
        job: the job that it is about.
        text: what it does, in words.
        call: the transaction.
        match: the number of the match in which it is a move.
        pick: what the move picks in the other side's opening.
        opening: what the move opens.
        jobs, members, claims, matches: what has changed, as it is now.
    """

    block: Place
    job: Place
    text: str
    call: Call
    match: Place | None = None
    pick: Pick | None = None
    opening: Opening | None = None
    jobs: list[Job] = []
    members: list[Member] = []
    claims: list[Claim] = []
    matches: list[Match] = []


class RecordedReferee(_Form, frozen=True):
    """What a record is about: the referee, its chain, and the arithmetic that it computes in."""

    referee: str
    chain_id: Place
    arithmetic: str


class Record(Struct, frozen=True, forbid_unknown_fields=True):
    """A record: the referee, names of accounts, the frames, and the block up to which they go."""

    format: Literal["moot court record"]
    version: Literal[1]
    court: RecordedReferee
    names: dict[str, str]
    head: Place
    frames: list[Frame]


def make_record(
    court: RecordedReferee, names: dict[str, str], head: int, frames: list[Frame]
) -> Record:
    """Return a record of this version."""
    return Record(FORMAT, VERSION, court, names, head, frames)


def encode_record(record: Record) -> bytes:
    """Return a record as JSON."""
    return msgspec.json.encode(record)


def decode_record(data: bytes, name: str) -> Record:
    """Return the record of a file's bytes, which may be anybody's.

    Raises:
        UsageError: it is none, or of another version.
    """
    advice = "`moot dispute --replay FILE.json` writes one"
    try:
        head = msgspec.json.decode(data, type=_Head)
        if head.format != FORMAT:
            raise UsageError(f"{name} is no record of a court; {advice}")
        if head.version != VERSION:
            raise UsageError(
                f"{name} is a record of version {head.version}, and this is version {VERSION}; "
                "write it again with this version"
            )
        return msgspec.json.decode(data, type=Record)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise UsageError(f"{name} is no record of a court: {error}; {advice}") from error


class _Head(Struct):
    """What any version of a record says of itself."""

    format: str = ""
    version: int = 0


def read_record(path: Path) -> Record:
    """Return the record in a file.

    Raises:
        UsageError: it cannot be read, or is no record.
    """
    try:
        with path.open("rb") as file:
            data = file.read(MAX_BYTES + 1)
    except OSError as error:
        raise UsageError(f"cannot read {path}: {error.strerror}") from error
    if len(data) > MAX_BYTES:
        raise UsageError(f"{path} is longer than the {MAX_BYTES:,} bytes that a record may have")
    return decode_record(data, str(path))
