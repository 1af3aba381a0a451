# pragma version 0.4.3
"""
@title Why the referee refuses a call
@license Apache-2.0
@notice One function for each reason, so that its text is in the code once. The texts are those of
        contracts/reasons.py.
"""


@internal
@pure
def big_bond(condition: bool):
    """
    @notice Refuse unless the bond is large enough to pay for a match.
    @param condition Whether it is so.
    """
    if not condition:
        self._refuse("referee: bond too small")


@internal
@pure
def bond(condition: bool):
    """
    @notice Refuse unless the value is the bond.
    @param condition Whether it is so.
    """
    if not condition:
        self._refuse("referee: value is not the bond")


@internal
@pure
def claim(condition: bool):
    """
    @notice Refuse unless there is such a claim, as the call needs it.
    @param condition Whether it is so.
    """
    if not condition:
        self._refuse("referee: no such claim")


@internal
@pure
def contender(condition: bool):
    """
    @notice Refuse unless the member has shown a claim and has not been defeated.
    @param condition Whether it is so.
    """
    if not condition:
        self._refuse("referee: not a contender")


@internal
@pure
def debt(condition: bool):
    """
    @notice Refuse unless the sender is owed something.
    @param condition Whether it is so.
    """
    if not condition:
        self._refuse("referee: nothing owed")


@internal
@pure
def difference(condition: bool):
    """
    @notice Refuse unless the two sides differ at the place that was picked.
    @param condition Whether it is so.
    """
    if not condition:
        self._refuse("referee: both sides agree there")


@internal
@pure
def dispute(condition: bool):
    """
    @notice Refuse unless the two claims differ.
    @param condition Whether it is so.
    """
    if not condition:
        self._refuse("referee: claims are the same")


@internal
@pure
def first_time(condition: bool):
    """
    @notice Refuse unless the sender has not joined yet.
    @param condition Whether it is so.
    """
    if not condition:
        self._refuse("referee: already joined")


@internal
@pure
def free_claim(condition: bool):
    """
    @notice Refuse unless the claim may meet another.
    @param condition Whether it is so.
    """
    if not condition:
        self._refuse("referee: claim is meeting another")


@internal
@pure
def index_in_range(condition: bool):
    """
    @notice Refuse unless the index is one of those to choose from.
    @param condition Whether it is so.
    """
    if not condition:
        self._refuse("referee: index out of range")


@internal
@pure
def job(condition: bool):
    """
    @notice Refuse unless the job exists.
    @param condition Whether it is so.
    """
    if not condition:
        self._refuse("referee: no such job")


@internal
@pure
def matching_chunk(condition: bool):
    """
    @notice Refuse unless the bytes are those of the leaf.
    @param condition Whether it is so.
    """
    if not condition:
        self._refuse("referee: chunk does not match")


@internal
@pure
def matching_commitment(condition: bool):
    """
    @notice Refuse unless the sender has committed to this claim.
    @param condition Whether it is so.
    """
    if not condition:
        self._refuse("referee: commitment does not match")


@internal
@pure
def matching_opening(condition: bool):
    """
    @notice Refuse unless the nodes are those below the node.
    @param condition Whether it is so.
    """
    if not condition:
        self._refuse("referee: opening does not match")


@internal
@pure
def matching_proof(condition: bool):
    """
    @notice Refuse unless the proof leads where it has to.
    @param condition Whether it is so.
    """
    if not condition:
        self._refuse("referee: proof does not match")


@internal
@pure
def matching_values(condition: bool):
    """
    @notice Refuse unless the accumulators are those that were, or have to be, posted.
    @param condition Whether it is so.
    """
    if not condition:
        self._refuse("referee: values do not match")


@internal
@pure
def mover(condition: bool):
    """
    @notice Refuse unless the sender may make the move.
    @param condition Whether it is so.
    """
    if not condition:
        self._refuse("referee: not yours to move")


@internal
@pure
def no_dispute(condition: bool):
    """
    @notice Refuse unless at most one claim is left.
    @param condition Whether it is so.
    """
    if not condition:
        self._refuse("referee: claims still differ")


@internal
@pure
def no_match(condition: bool):
    """
    @notice Refuse unless the two have not begun a match.
    @param condition Whether it is so.
    """
    if not condition:
        self._refuse("referee: match has begun")


@internal
@pure
def no_time_left(condition: bool):
    """
    @notice Refuse unless the side to move has no time left.
    @param condition Whether it is so.
    """
    if not condition:
        self._refuse("referee: clock still running")


@internal
@pure
def not_early(condition: bool):
    """
    @notice Refuse unless the time for the call has come.
    @param condition Whether it is so.
    """
    if not condition:
        self._refuse("referee: too early")


@internal
@pure
def not_late(condition: bool):
    """
    @notice Refuse unless the time for the call has not passed.
    @param condition Whether it is so.
    """
    if not condition:
        self._refuse("referee: too late")


@internal
@pure
def open_job(condition: bool):
    """
    @notice Refuse unless the job is open.
    @param condition Whether it is so.
    """
    if not condition:
        self._refuse("referee: job is closed")


@internal
@pure
def order(condition: bool):
    """
    @notice Refuse unless the two members come in the order of their addresses.
    @param condition Whether it is so.
    """
    if not condition:
        self._refuse("referee: lower address first")


@internal
@pure
def phase(condition: bool):
    """
    @notice Refuse unless the move exists where the match stands.
    @param condition Whether it is so.
    """
    if not condition:
        self._refuse("referee: not in this phase")


@internal
@pure
def same_position(condition: bool):
    """
    @notice Refuse unless the match stands where the call says.
    @param condition Whether it is so.
    """
    if not condition:
        self._refuse("referee: position has changed")


@internal
@pure
def same_terms(condition: bool):
    """
    @notice Refuse unless the job is the one that the call is about.
    @param condition Whether it is so.
    """
    if not condition:
        self._refuse("referee: job has other terms")


@internal
@pure
def sound_terms(condition: bool):
    """
    @notice Refuse unless the job's counts, windows and clocks are within bounds.
    @param condition Whether it is so.
    """
    if not condition:
        self._refuse("referee: absurd terms")


@internal
@pure
def time_left(condition: bool):
    """
    @notice Refuse unless the side to move has time left.
    @param condition Whether it is so.
    """
    if not condition:
        self._refuse("referee: clock expired")


@internal
@pure
def _refuse(reason: String[40]):
    raise reason
