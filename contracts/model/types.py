"""What the referee remembers, what it is told and what it announces."""

from collections.abc import Hashable
from dataclasses import dataclass, field
from typing import Any, ClassVar, TypeVar

from moot.contracts.reasons import LeafMode, Phase, Standing, Status
from moot.offchain.arithmetic.base import Arithmetic
from moot.offchain.arithmetic.ordered import ORDERED
from moot.offchain.commitments.tree import Digest

Address = str
"""A checksummed hexadecimal address."""

MatchArgs = tuple[int, Address, Address, tuple[Digest, Digest], tuple[Digest, Digest]]
"""The arguments of the call that begins a match: the job, the members, the tops of their histories
and those of the claims that these met last, as far as they have to be shown."""

NOBODY = "0x0000000000000000000000000000000000000000"
ZERO = bytes(32)

MIN_BOND_WEI = 2 * 2_000_000 * 50 * 10**9
"""The prize of a match, half a bond, pays 2,000,000 gas at 50 gwei."""
MAX_BOND_WEI = (1 << 80) - 1
MAX_REWARD_WEI = (1 << 96) - 1
MAX_BLOCKS = 1 << 20
"""Longest window or clock, in blocks."""
FOLD_ARITY = 64
"""Segments into which one round divides a fold whose accumulators are elements."""
WIDE_FOLD_ARITY = 17
"""Segments into which one round divides a fold of wider accumulators, which cost more to show."""
PRIZE_DIVISOR = 2
"""The winner of a match gets one part in so many of the loser's bond; the rest is burned."""

KEY_BYTES = 28
"""How much of a commitment, or of the hash of a top, a member's word keeps."""
TERMS_BYTES = 20
"""How much of the hash of its terms, client and reward a job keeps."""

_Key = TypeVar("_Key", bound=Hashable)
_Value = TypeVar("_Value")


@dataclass(frozen=True, slots=True)
class Terms:
    """What a client asks for; fixed when the job is opened. Windows and clocks are in blocks.

    Providers commit for `commit_blocks`, then reveal for `reveal_blocks`, and then anybody may
    join for `window_blocks` more, as anybody may in as many blocks from the meeting of two claims.
    """

    operators: int
    state_slots: int
    batch_slots: int
    layout: Digest
    program_top: Digest
    start_root: Digest
    data_top: Digest
    steps: int
    checkpoint_every: int
    leaf_mode: LeafMode
    verifier: Address
    bond_wei: int
    commit_blocks: int
    reveal_blocks: int
    window_blocks: int
    clock_blocks: int
    increment_blocks: int

    @property
    def checkpoints(self) -> int:
        """Leaves of a history: a checkpoint after every interval."""
        return -(-self.steps // self.checkpoint_every)

    @property
    def prize_wei(self) -> int:
        """What the winner of a match gets."""
        return self.bond_wei // PRIZE_DIVISOR


@dataclass(frozen=True, slots=True)
class Member:
    """A provider with a bond at stake.

    `key` is what its word keeps (KEY_BYTES) of its commitment and, once that is revealed, of the
    hash of its history's top. `prizes` is how many members it has defeated.
    """

    standing: Standing = Standing.NONE
    key: bytes = bytes(KEY_BYTES)
    prizes: int = 0

    @property
    def is_contender(self) -> bool:
        """Whether it has shown a claim and is not out."""
        return self.standing in {Standing.REVEALED, Standing.LATE}

    def keeps_bond(self, status: Status) -> bool:
        """Whether a job that was closed like this owes it its bond.

        It owes everybody who has joined, if it is void.
        """
        if status is Status.VOID:
            return self.standing not in {Standing.NONE, Standing.PAID}
        return self.is_contender or self.standing is Standing.RELEASED


@dataclass(frozen=True, slots=True)
class Claim:
    """The top of a history that somebody has bonded.

    `contenders` are its members that have not been defeated, `sharers` those of them that share
    the reward. `meeting` is the number of its last with another claim (0: none); anybody may join
    either up to and including block `window_end`.
    """

    top: Digest
    contenders: int = 0
    sharers: int = 0
    meeting: int = 0
    window_end: int = 0


@dataclass(frozen=True, slots=True)
class Job:
    """A job: its terms, its money, and the tallies of its members.

    `claims` counts those that have a contender, `hidden` the members that have not revealed,
    `defeated` the lost bonds, `forfeits` the prizes that nobody is owed, `meetings` those begun.
    Up to and including block `window_end` somebody may still join. `is_client_owed` says that
    nobody earned the reward and that the client has not collected it yet, `is_undecided` that the
    verifier has not ruled on a match.
    """

    client: Address
    terms: Terms
    reward_wei: int
    opened_block: int
    window_end: int
    claims: int = 0
    hidden: int = 0
    defeated: int = 0
    forfeits: int = 0
    meetings: int = 0
    status: Status = Status.OPEN
    is_client_owed: bool = False
    is_undecided: bool = False

    @property
    def commit_deadline(self) -> int:
        """Last block in which a provider may commit."""
        return self.opened_block + self.terms.commit_blocks

    @property
    def reveal_deadline(self) -> int:
        """Last block in which a member may reveal its claim."""
        return self.commit_deadline + self.terms.reveal_blocks


@dataclass(frozen=True, slots=True)
class Pair:
    """The two members of a match; `first`, side 0, has the lower address."""

    job_id: int
    first: Address
    second: Address


@dataclass(frozen=True, slots=True)
class Position:
    """Where a match stands. The contract keeps its digest alone, and every call brings it along.

    In a tree of `count` leaves, `nodes` are the two sides' nodes `index` of `level`, which differ,
    and the side that is not to move has opened `span` levels below its own. `entered` is how many
    sides have committed to their trees of this phase; while it is 1, the node of the side that has
    not is the leaf above. Once a leaf has been reached, entered, level and span are 0. In FOLD a
    node is the digest of posted accumulators. Up to block `deadline` side `mover` may move, and the
    other will have `spare_blocks`; `clock_blocks` and `increment_blocks` are the job's.
    """

    phase: Phase
    mover: int
    deadline: int
    spare_blocks: int
    clock_blocks: int
    increment_blocks: int
    nodes: tuple[Digest, Digest]
    count: int = 0
    level: int = 0
    index: int = 0
    span: int = 0
    entered: int = 0
    moves: int = 0
    facts: Digest = ZERO


@dataclass(frozen=True, slots=True)
class Facts:
    """What a match has found out; its digest is in the position, and calls that need it bring it.

    `checkpoint` is the first that the sides dispute (the one after interval 0 is checkpoint 0),
    `first_step` the first step of its interval, `step` the first step of which they agree on the
    state before and not on the one after, `operator` the first whose output they dispute, `element`
    the first of its elements. Both tops of the trees over the interval's states and over
    the outputs of the step's operators are kept. An element's accumulator after `low` steps of its
    fold is agreed to be `low_bits`; after `high` steps the two sides have `bits`. `fold_length`
    counts the step that finishes the fold, where that is one.
    """

    accumulator_bytes: ClassVar[int] = 0
    """The width of all these bits; 0 where accumulators are elements."""

    first_step: int = 0
    step: int = 0
    checkpoint: int = 0
    operator: int = 0
    intervals: tuple[Digest, Digest] = (ZERO, ZERO)
    traces: tuple[Digest, Digest] = (ZERO, ZERO)
    encoding_digest: Digest = ZERO
    elements: int = 0
    element: int = 0
    fold_length: int = 0
    width: int = 0
    low: int = 0
    high: int = 0
    low_bits: int = 0
    bits: tuple[int, int] = (0, 0)

    @property
    def bits_bytes(self) -> int:
        """Bytes of an accumulator, or of a claimed element."""
        return self.accumulator_bytes or self.width


@dataclass(frozen=True, slots=True)
class WideFacts(Facts):
    """What a match has found out whose accumulators are wider than elements."""

    accumulator_bytes: ClassVar[int] = 96


def start_facts(arithmetic: Arithmetic) -> Facts:
    """Return what a match knows at its beginning."""
    return WideFacts() if arithmetic.accumulator_bytes else Facts()


@dataclass(frozen=True, slots=True)
class Dive:
    """One step down a tree: the mover picks where the other side opened, and opens its own node.

    `child` is the place among the opened nodes, `node` the other side's node there, `siblings`
    lead from there up to the nodes of the position, and `nodes` are the mover's own, below its
    node there (the leaf itself, at level 0). Siblings ascend: one, shared, where the path comes
    from the right, and where it comes from the left the other side's and then the mover's.
    """

    child: int
    node: Digest
    siblings: tuple[Digest, ...]
    nodes: tuple[Digest, ...]


@dataclass(frozen=True, slots=True)
class Message:
    """Who calls, with what value in wei, in which block."""

    sender: Address
    value_wei: int
    block: int


@dataclass(frozen=True, slots=True)
class Event:
    """An announcement: the name and arguments of the contract's event."""

    name: str
    args: tuple[object, ...]


@dataclass(slots=True)
class Undoable:
    """A store whose tables are written through `put`, so that a refused call can be undone."""

    _undo: list[tuple[dict[Any, Any], Any, Any]] = field(default_factory=list, init=False)

    def put(self, table: dict[_Key, _Value], key: _Key, value: _Value | None) -> None:
        """Write an entry of a table; None removes it."""
        self._undo.append((table, key, table.get(key)))
        _write(table, key, value)

    def commit(self) -> None:
        """Forget how to undo what has been written."""
        self._undo.clear()

    def rollback(self) -> None:
        """Undo what has been written since the last commit."""
        for table, key, value in reversed(self._undo):
            _write(table, key, value)
        self._undo.clear()


@dataclass(slots=True)
class Store(Undoable):
    """Everything the referee remembers. Money is in wei; `burned_wei` has left for ever.

    `arithmetic` is the one whose scalar operations its leaf contract computes.
    """

    chain_id: int
    address: Address
    jobs: dict[int, Job] = field(default_factory=dict)
    members: dict[tuple[int, Address], Member] = field(default_factory=dict)
    claims: dict[tuple[int, bytes], Claim] = field(default_factory=dict)
    matches: dict[Pair, Digest] = field(default_factory=dict)
    balance_wei: int = 0
    burned_wei: int = 0
    arithmetic: Arithmetic = ORDERED
    events: list[Event] = field(default_factory=list)


def copy_store(store: Store) -> Store:
    """Return a store that remembers the same, and goes its own way."""
    return Store(
        store.chain_id,
        store.address,
        dict(store.jobs),
        dict(store.members),
        dict(store.claims),
        dict(store.matches),
        store.balance_wei,
        store.burned_wei,
        store.arithmetic,
    )


def _write(table: dict[_Key, _Value], key: _Key, value: _Value | None) -> None:
    if value is None:
        table.pop(key, None)
    else:
        table[key] = value
