"""The coverage that a long walk must reach: changes of phase, endings, and reasons of refusals."""

from collections.abc import Iterable, Iterator

from moot.contracts.reasons import Phase, Reason

ACCEPTED: dict[str, dict[Phase, tuple[str, ...]]] = {
    "open_job": {
        Phase.NONE: ("JobOpened",),
    },
    "commit": {
        Phase.NONE: ("Committed",),
    },
    "reveal": {
        Phase.NONE: ("Claimed",),
    },
    "join": {
        Phase.NONE: ("Claimed",),
    },
    "start_match": {
        Phase.NONE: ("MatchStarted",),
    },
    "settle": {
        Phase.NONE: (
            "EMPTY",
            "WON",
        ),
    },
    "collect": {
        Phase.NONE: ("Collected",),
    },
    "descend": {
        Phase.HISTORY: ("HISTORY",),
        Phase.INTERVAL: ("INTERVAL",),
        Phase.TRACE: (
            "TRACE",
            "VERIFIER",
        ),
        Phase.TENSOR: ("TENSOR",),
        Phase.STATE: ("SINK",),
    },
    "enter_claimed": {
        Phase.HISTORY: (
            "INTERVAL",
            "TRACE",
        ),
        Phase.INTERVAL: (
            "INTERVAL",
            "TRACE",
        ),
        Phase.TRACE: ("TRACE",),
    },
    "enter_tensor": {
        Phase.TRACE: ("TENSOR",),
        Phase.TENSOR: ("TENSOR",),
    },
    "enter_state": {
        Phase.TRACE: ("STATE",),
        Phase.STATE: ("STATE",),
    },
    "reach_chunk": {
        Phase.TENSOR: ("CHUNK",),
    },
    "pick_element": {
        Phase.CHUNK: (
            "FOLD",
            "LEAF",
        ),
    },
    "pick_segment": {
        Phase.FOLD: (
            "FOLD",
            "LEAF",
        ),
    },
    "leaf": {
        Phase.LEAF: (
            "SCALAR FIRST",
            "SCALAR NEITHER",
            "SCALAR SECOND",
        ),
    },
    "prove_sink": {
        Phase.SINK: (
            "SINK FIRST",
            "SINK NEITHER",
            "SINK SECOND",
        ),
    },
    "rule": {
        Phase.VERIFIER: (
            "VERIFIER FIRST",
            "VERIFIER NEITHER",
            "VERIFIER SECOND",
        ),
    },
}
"""By call and phase: the phase that comes next, or how the match or the job ends."""

TIMED = frozenset(Phase) - {Phase.NONE, Phase.VERIFIER}
"""The phases in which a member loses by its clock; in VERIFIER nobody does."""

REFUSED: dict[str, tuple[Reason, ...]] = {
    "open_job": (
        Reason.ABSURD_TERMS,
        Reason.BOND_TOO_SMALL,
    ),
    "commit": (
        Reason.ALREADY_JOINED,
        Reason.CLOSED,
        Reason.NO_SUCH_JOB,
        Reason.TOO_LATE,
        Reason.WRONG_BOND,
    ),
    "reveal": (
        Reason.CLOSED,
        Reason.NOT_COMMITTED,
        Reason.NO_SUCH_JOB,
        Reason.TOO_EARLY,
        Reason.TOO_LATE,
    ),
    "join": (
        Reason.ALREADY_JOINED,
        Reason.CLOSED,
        Reason.NO_SUCH_JOB,
        Reason.TOO_EARLY,
        Reason.TOO_LATE,
        Reason.WRONG_BOND,
    ),
    "start_match": (
        Reason.CLAIM_MEETING,
        Reason.CLOSED,
        Reason.MATCH_EXISTS,
        Reason.NOT_CONTENDER,
        Reason.NO_DISPUTE,
        Reason.NO_SUCH_CLAIM,
        Reason.NO_SUCH_JOB,
        Reason.TOO_EARLY,
        Reason.WRONG_ORDER,
    ),
    "settle": (
        Reason.CLOSED,
        Reason.NO_REASON,
        Reason.NO_SUCH_CLAIM,
        Reason.NO_SUCH_JOB,
        Reason.STILL_DISPUTED,
        Reason.TOO_EARLY,
    ),
    "collect": (
        Reason.NOTHING_OWED,
        Reason.NO_SUCH_JOB,
        Reason.TOO_EARLY,
    ),
    "descend": (
        Reason.BAD_OPENING,
        Reason.BAD_PROOF,
        Reason.CLOCK_EXPIRED,
        Reason.NO_REASON,
        Reason.OUT_OF_RANGE,
        Reason.SAME_NODE,
        Reason.STALE,
        Reason.WRONG_PHASE,
    ),
    "enter_claimed": (
        Reason.BAD_OPENING,
        Reason.BAD_PROOF,
        Reason.CLOCK_EXPIRED,
        Reason.NOT_YOURS,
        Reason.NO_REASON,
        Reason.OUT_OF_RANGE,
        Reason.STALE,
        Reason.WRONG_PHASE,
    ),
    "enter_tensor": (
        Reason.BAD_OPENING,
        Reason.BAD_PROOF,
        Reason.CLOCK_EXPIRED,
        Reason.NO_REASON,
        Reason.STALE,
        Reason.WRONG_PHASE,
    ),
    "enter_state": (
        Reason.BAD_OPENING,
        Reason.BAD_PROOF,
        Reason.CLOCK_EXPIRED,
        Reason.STALE,
        Reason.WRONG_PHASE,
    ),
    "reach_chunk": (
        Reason.BAD_PROOF,
        Reason.CLOCK_EXPIRED,
        Reason.STALE,
        Reason.WRONG_PHASE,
    ),
    "pick_element": (
        Reason.BAD_CHUNK,
        Reason.BAD_VALUES,
        Reason.CLOCK_EXPIRED,
        Reason.NOT_YOURS,
        Reason.STALE,
        Reason.WRONG_PHASE,
    ),
    "pick_segment": (
        Reason.BAD_VALUES,
        Reason.NOT_YOURS,
        Reason.OUT_OF_RANGE,
        Reason.STALE,
        Reason.WRONG_PHASE,
    ),
    "leaf": (
        Reason.BAD_OPERAND,
        Reason.BAD_PROOF,
        Reason.CLOCK_EXPIRED,
        Reason.CLOSED,
        Reason.NOT_CONTENDER,
        Reason.STALE,
        Reason.WRONG_PHASE,
    ),
    "prove_sink": (
        Reason.BAD_PROOF,
        Reason.CLOCK_EXPIRED,
        Reason.CLOSED,
        Reason.STALE,
        Reason.WRONG_PHASE,
    ),
    "rule": (
        Reason.CLOCK_EXPIRED,
        Reason.CLOSED,
        Reason.NOT_CONTENDER,
        Reason.NOT_YOURS,
        Reason.OUT_OF_RANGE,
        Reason.STALE,
        Reason.WRONG_PHASE,
    ),
    "timeout": (
        Reason.CLOCK_RUNNING,
        Reason.CLOSED,
        Reason.NOT_CONTENDER,
        Reason.STALE,
    ),
}
"""By call: why it is refused."""


def find_gaps(seen: Iterable[tuple[str, str, str]]) -> Iterator[str]:
    """Yield what has not been met, of (call, phase, answer)."""
    met = set(seen)
    for call, phases in ACCEPTED.items():
        for phase, answers in phases.items():
            yield from (
                f"{call} {phase.name} {a}" for a in answers if (call, phase.name, a) not in met
            )
    timed = {phase for call, phase, answer in met if call == "timeout" and "CLOCK" in answer}
    yield from (f"timeout {phase.name}" for phase in TIMED if phase.name not in timed)
    if ("timeout", "VERIFIER", "CLOCK UNDECIDED") not in met:
        yield "timeout VERIFIER"
    reasons = {(call, answer) for call, _, answer in met}
    for call, refusals in REFUSED.items():
        yield from (
            f"{call}: {reason}" for reason in refusals if (call, str(reason)) not in reasons
        )
