"""Why a call is refused and why a match ends: one table for the contract, the model and players."""

from enum import IntEnum, StrEnum

from offchain.errors import RefereeError


class Reason(StrEnum):
    """Revert reasons. The text is what the contract reverts with."""

    ABSURD_TERMS = "referee: absurd terms"
    ALREADY_JOINED = "referee: already joined"
    BAD_CHUNK = "referee: chunk does not match"
    BAD_OPENING = "referee: opening does not match"
    BAD_PROOF = "referee: proof does not match"
    BAD_VALUES = "referee: values do not match"
    BOND_TOO_SMALL = "referee: bond too small"
    CLOCK_EXPIRED = "referee: clock expired"
    CLOCK_RUNNING = "referee: clock still running"
    FULL = "referee: no seat left"
    FUNCTION_KNOWN = "referee: the chain knows this function"
    MATCH_ACTIVE = "referee: a match is being played"
    NO_DISPUTE = "referee: no two claims differ"
    NO_SUCH_JOB = "referee: no such job"
    NOT_COMMITTED = "referee: commitment does not match"
    NOT_YOURS = "referee: not yours to move"
    NOTHING_OWED = "referee: nothing owed"
    OUT_OF_RANGE = "referee: index out of range"
    SETTLED = "referee: job is settled"
    STALE = "referee: position has changed"
    STILL_DISPUTED = "referee: claims still differ"
    TOO_EARLY = "referee: too early"
    TOO_LATE = "referee: too late"
    WRONG_BOND = "referee: value is not the bond"
    WRONG_PHASE = "referee: not in this phase"
    UNKNOWN_FUNCTION = "leaf: the chain does not know this function"
    BAD_OPERAND = "leaf: operand does not match"
    BAD_OPERATOR = "leaf: operator is malformed"
    NO_REASON = "no reason given"
    """What the compiler itself refuses: value for a call that takes none, a list too long."""


class Revert(RefereeError):  # noqa: N818 - the chain's own word for it
    """The model refuses a call; nothing has changed."""

    def __init__(self, reason: Reason) -> None:
        super().__init__(str(reason))


class Ending(IntEnum):
    """Why a match ended; the number is what the contract's event carries."""

    CLOCK = 1
    """The side to move let its clock run out."""
    SCALAR = 2
    """The contract computed the scalar operation."""
    START = 3
    """The history begins, or does not begin, in the job's start state."""
    SINK = 4
    """The state after the step is, or is not, made of the step's outputs."""
    EMPTY = 5
    """A tensor without elements has, or has not, the one root that it can have."""
    VERIFIER = 6
    """The bounded verifier has ruled."""


class Phase(IntEnum):
    """Where a match stands; the number is the contract's."""

    NONE = 0
    HISTORY = 1
    ENTER_INTERVAL = 2
    INTERVAL = 3
    ENTER_TRACE = 4
    TRACE = 5
    ENTER_OPERATOR = 6
    TENSOR = 7
    CHUNK = 8
    FOLD = 9
    LEAF = 10
    ENTER_STATE = 11
    STATE = 12
    SINK = 13
    VERIFIER = 14


class LeafMode(IntEnum):
    """Who decides a job's leaves."""

    SCALAR = 0
    """The contract, by one scalar operation."""
    OPERATOR = 1
    """The bounded verifier, by the whole operator, as in Verde."""


class Standing(IntEnum):
    """Where a member of a job stands."""

    COMMITTED = 1
    REVEALED = 2
    DEFEATED = 3
