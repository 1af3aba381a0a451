"""The reasons why calls are refused and matches end, shared by contract, model and players."""

from enum import IntEnum, StrEnum

from moot.offchain.errors import RefereeError


class Reason(StrEnum):
    """Revert reasons. The text is what the contract reverts with."""

    ABSURD_TERMS = "referee: absurd terms"
    ALREADY_JOINED = "referee: already joined"
    BAD_CHUNK = "referee: chunk does not match"
    BAD_OPENING = "referee: opening does not match"
    BAD_PROOF = "referee: proof does not match"
    BAD_VALUES = "referee: values do not match"
    BOND_TOO_SMALL = "referee: bond too small"
    CLAIM_MEETING = "referee: claim is meeting another"
    CLOCK_EXPIRED = "referee: clock expired"
    CLOCK_RUNNING = "referee: clock still running"
    CLOSED = "referee: job is closed"
    MATCH_EXISTS = "referee: match has begun"
    NO_DISPUTE = "referee: claims are the same"
    NO_SUCH_CLAIM = "referee: no such claim"
    NO_SUCH_JOB = "referee: no such job"
    NOT_COMMITTED = "referee: commitment does not match"
    NOT_CONTENDER = "referee: not a contender"
    NOT_YOURS = "referee: not yours to move"
    NOTHING_OWED = "referee: nothing owed"
    OTHER_TERMS = "referee: job has other terms"
    OUT_OF_RANGE = "referee: index out of range"
    SAME_NODE = "referee: both sides agree there"
    STALE = "referee: position has changed"
    STILL_DISPUTED = "referee: claims still differ"
    TOO_EARLY = "referee: too early"
    TOO_LATE = "referee: too late"
    WRONG_BOND = "referee: value is not the bond"
    WRONG_ORDER = "referee: lower address first"
    WRONG_PHASE = "referee: not in this phase"
    BAD_OPERAND = "leaf: operand does not match"
    BAD_OPERATOR = "leaf: operator is malformed"
    LEGAL = "legality: that is legal"
    UNPROVEN = "legality: proof does not match"
    ABSURD_PROMISE = "availability: absurd promise"
    DEMANDED = "availability: already demanded"
    NO_SUCH_DEMAND = "availability: no such demand"
    NO_SUCH_PART = "availability: no such part"
    NO_SUCH_PROMISE = "availability: no such promise"
    NOT_CLIENT = "availability: not the client"
    NOT_OF_JOB = "availability: not what the job says"
    NOT_SHOWN = "availability: proof does not match"
    PROMISE_DUE = "availability: too early"
    PROMISE_ENDED = "availability: promise has ended"
    PROMISE_PAST = "availability: too late"
    PROMISED = "availability: already promised"
    STILL_DEMANDED = "availability: demands are open"
    WRONG_DEPOSIT = "availability: value is not the deposit"
    ABSURD_PREMIUM = "delivery: absurd premium"
    CALLED_FOR = "delivery: already called for"
    NO_SHARE = "delivery: nothing owed"
    NO_SUCH_PREMIUM = "delivery: no such premium"
    NOT_SHARER = "delivery: not a sharer"
    NOT_WON = "delivery: job is not won"
    OFFERED = "delivery: already offered"
    PREMIUM_TOO_LATE = "delivery: job is closed"
    REGISTERED = "delivery: already registered"
    ABSURD_BATCH = "service: absurd batch"
    ABSURD_RECEIPT = "service: absurd receipt"
    AT_FAULT = "service: provider is at fault"
    BAD_SIGNATURE = "service: signature does not match"
    BEING_CHALLENGED = "service: receipt is being challenged"
    BOND_EXHAUSTED = "service: bond is exhausted"
    HAS_LOST = "service: provider has lost by it"
    NO_AMOUNT = "service: no amount"
    NO_FAULT = "service: that is no fault"
    NO_SUCH_BATCH = "service: no such batch"
    NOT_ANNOUNCED = "service: not announced before"
    NOT_LEFT = "service: too early"
    NOT_NEXT = "service: not the next number"
    NOT_THAT_MUCH = "service: more than there is"
    NOTHING_DUE = "service: nothing owed"
    RECEIPT_PAST = "service: too late"
    UNPROVEN_FAULT = "service: proof does not match"
    WRONG_VALUE = "service: value is not the bond"
    NO_REASON = "no reason given"
    """What the compiler itself refuses: value for a call that takes none, a list too long."""


class Revert(RefereeError):  # noqa: N818 - the chain's own word for it
    """The model refuses a call; nothing has changed."""

    def __init__(self, reason: Reason) -> None:
        super().__init__(str(reason))


class Ending(IntEnum):
    """The reason why a match ended, by its number in the contract's event."""

    CLOCK = 1
    """The side to move let its clock run out."""
    SCALAR = 2
    """The contract computed the scalar operation."""
    SINK = 3
    """The state after the step is, or is not, made of the step's outputs."""
    EMPTY = 4
    """A tensor without elements has, or has not, the one root that it can have."""
    VERIFIER = 5
    """The bounded verifier has ruled."""


class Outcome(IntEnum):
    """The winner of a match, by its number in the contract's event."""

    FIRST = 0
    """The member with the lower address."""
    SECOND = 1
    """The member with the higher address."""
    NEITHER = 2
    """Both were wrong, and both lose."""
    UNDECIDED = 3
    """The verifier has not ruled: both are out of the job, and keep their bonds and prizes."""


class Phase(IntEnum):
    """The phase of a match, by the contract's number."""

    NONE = 0
    HISTORY = 1
    INTERVAL = 2
    TRACE = 3
    TENSOR = 4
    STATE = 5
    CHUNK = 6
    FOLD = 7
    LEAF = 8
    SINK = 9
    VERIFIER = 10


class LeafMode(IntEnum):
    """Who decides a job's leaves."""

    SCALAR = 0
    """The contract, by one scalar operation."""
    OPERATOR = 1
    """The bounded verifier, by the whole operator, as in Verde."""


class Standing(IntEnum):
    """The standing of a member in a job."""

    NONE = 0
    COMMITTED = 1
    REVEALED = 2
    """Has shown the claim that it committed to: shares the reward if the claim wins."""
    LATE = 3
    """Has joined when claims had been shown: gets prizes, but no share of the reward."""
    DEFEATED = 4
    PAID = 5
    RELEASED = 6
    """Is out without having lost: the verifier has not ruled on a match of its own."""


class Status(IntEnum):
    """The status of a job."""

    OPEN = 0
    WON = 1
    """One claim was left; its members are paid."""
    EMPTY = 2
    """No claim was left, or the verifier has not ruled on a match: the client gets the reward."""
    VOID = 3
    """The program was not legal: everybody gets back what it has brought."""


class Part(IntEnum):
    """The parts of a job that a client promises to show."""

    PROGRAM = 0
    START = 1
    """The state before the first step; where a result is promised, the state after the last."""
    DATA = 2


class PromiseStatus(IntEnum):
    """The status of a promise that what a job commits to, or its result, can be had."""

    KEPT = 1
    """Nothing was demanded in vain so far: what was bonded stands."""
    WITHDRAWN = 2
    """The client has its bond back."""
    BROKEN = 3
    """A demand was not answered in time: whoever has promised has lost what was bonded."""


class PremiumStatus(IntEnum):
    """The status of the premium for a job's result."""

    OFFERED = 1
    """Nobody has promised the result."""
    WITHDRAWN = 2
    """The client has it back, because there is no result or nobody has promised it."""
    PROMISED = 3
    """Sharers of the winning claim have promised the result, and the premium is for them."""


class Fault(IntEnum):
    """The reason why a provider lost its whole bond without a match, by the event's number."""

    OTHER_ANSWER = 1
    """A receipt's answer is not what its own last state has."""
    CONFLICT = 2
    """Two of its receipts do not go together."""
    UNLISTED = 3
    """It has published another receipt under a receipt's number."""


class DemandStatus(IntEnum):
    """The status of a demand."""

    OPEN = 1
    SHOWN = 2
    UNANSWERED = 3
    """The promise was broken by this demand, whose asker is owed its deposit and any prize."""
    RETURNED = 4
    """The asker has what it was owed."""
