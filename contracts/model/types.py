"""What the referee remembers, what it is told and what it announces."""

from dataclasses import dataclass, field

from contracts.reasons import Ending, LeafMode, Phase, Standing
from offchain.commitments.tree import Digest

Address = str
"""A checksummed hexadecimal address."""

NOBODY = "0x0000000000000000000000000000000000000000"
ZERO = bytes(32)

MAX_MEMBERS = 8
MIN_BOND_WEI = 2 * 2_000_000 * 50 * 10**9
"""Half of it, the winner's share, pays 2,000,000 gas at 50 gwei."""
MAX_STEPS = 1 << 32
MAX_OPERATORS = 1 << 20
MAX_SLOTS = 1 << 16
MAX_BLOCKS = 1 << 20
"""Longest window or clock, in blocks."""
FOLD_ARITY = 64
"""Segments into which one round divides a fold."""
WINNER_SHARE = 2
"""The winner of a match gets one part in so many of the loser's bond; the rest is burned."""


@dataclass(frozen=True, slots=True)
class Terms:
    """What a client asks for; fixed when the job is opened. Windows and clocks are in blocks."""

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
    clock_blocks: int
    increment_blocks: int

    @property
    def checkpoints(self) -> int:
        """Leaves of a history: the start and the state after every interval."""
        return -(-self.steps // self.checkpoint_every) + 1


@dataclass(frozen=True, slots=True)
class Member:
    """A provider with a bond at stake for a claim (the top of a history tree)."""

    address: Address
    digest: Digest
    top: Digest = ZERO
    standing: Standing = Standing.COMMITTED


@dataclass(frozen=True, slots=True)
class Match:
    """A dispute between two members: the defender opens its trees, the challenger picks.

    `node`, `level`, `index` and `count` are the place in the tree that is being descended: a node,
    its height, its index at that height, and the tree's number of leaves. A leaf that has been
    picked stays `node` until the defender enters the tree below it. `tree_top` is the top of the
    history or interval tree in which the disputed states lie. In the phases from CHUNK on,
    `index` is a chunk; in FOLD and LEAF the accumulators `low_bits` after `low` fold steps and
    `high_bits` after `high` fold steps are the agreed and the disputed one. `node` is then the
    digest of the values posted.
    """

    number: int
    defender: int
    challenger: int
    defender_clock: int
    challenger_clock: int
    since: int
    phase: Phase = Phase.HISTORY
    opened: bool = False
    moves: int = 0
    node: Digest = ZERO
    level: int = 0
    index: int = 0
    count: int = 0
    tree_top: Digest = ZERO
    tree_count: int = 0
    tree_index: int = 0
    first_step: int = 0
    step: int = 0
    before: Digest = ZERO
    trace_top: Digest = ZERO
    operator: int = 0
    encoding_digest: Digest = ZERO
    width: int = 0
    elements: int = 0
    element: int = 0
    fold_length: int = 0
    low: int = 0
    high: int = 0
    low_bits: int = 0
    high_bits: int = 0


@dataclass(frozen=True, slots=True)
class Job:
    """A job: its terms, its money, its members and the match that is being played."""

    client: Address
    terms: Terms
    reward_wei: int
    opened_block: int
    members: tuple[Member, ...] = ()
    matches: int = 0
    match: Match | None = None
    is_settled: bool = False

    @property
    def commit_deadline(self) -> int:
        """Last block in which a provider may join."""
        return self.opened_block + self.terms.commit_blocks

    @property
    def reveal_deadline(self) -> int:
        """Last block in which a member may reveal its claim."""
        return self.commit_deadline + self.terms.reveal_blocks


@dataclass(frozen=True, slots=True)
class Opening:
    """Proof of an operand's element: its chunk, up to the tensor root, up to an agreed root."""

    header: bytes
    chunk: bytes
    chunk_proof: tuple[Digest, ...]
    root_proof: tuple[Digest, ...]


NO_OPENING = Opening(b"", b"", (), ())
"""Stands where a leaf does not need an operand: a constant, or an access out of range."""


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
class Store:
    """Everything the referee remembers. Money is in wei; `burned_wei` has left for ever."""

    chain_id: int
    address: Address
    jobs: list[Job] = field(default_factory=list)
    credits_wei: dict[Address, int] = field(default_factory=dict)
    balance_wei: int = 0
    burned_wei: int = 0
    paid_wei: dict[Address, int] = field(default_factory=dict)
    events: list[Event] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Verdict:
    """How a match ended: who won it and why."""

    defender_wins: bool
    ending: Ending
