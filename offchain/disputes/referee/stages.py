"""The stages of a dispute, to which its calls are counted."""

from moot.contracts.model.types import Pair
from moot.contracts.reasons import Phase
from moot.offchain.disputes.referee.port import Call

STAGE_ORDER = ("joining", "history", "trace", "tensor", "fold", "leaf", "payout")
"""The stages in the order of a game."""

_STAGES = {
    Phase.HISTORY: "history",
    Phase.INTERVAL: "history",
    Phase.TRACE: "trace",
    Phase.TENSOR: "tensor",
    Phase.CHUNK: "tensor",
    Phase.STATE: "tensor",
    Phase.FOLD: "fold",
    Phase.LEAF: "leaf",
    Phase.SINK: "leaf",
    Phase.VERIFIER: "leaf",
}
"""The stage to which a move in each phase of the contract is counted."""

_JOINING = frozenset({"open_job", "commit", "reveal", "join"})


def get_stage(call: Call) -> str:
    """Return the stage of a dispute to which a call is counted."""
    if isinstance(call.args[0], Pair):
        return _STAGES[call.args[1].phase]
    if call.name == "start_match":
        return "history"
    return "joining" if call.name in _JOINING else "payout"
