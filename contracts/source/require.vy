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
    assert condition, "referee: bond too small"


@internal
@pure
def bond(condition: bool):
    """
    @notice Refuse unless the value is the bond.
    @param condition Whether it is so.
    """
    assert condition, "referee: value is not the bond"


@internal
@pure
def debt(condition: bool):
    """
    @notice Refuse unless the sender is owed something.
    @param condition Whether it is so.
    """
    assert condition, "referee: nothing owed"


@internal
@pure
def dispute(condition: bool):
    """
    @notice Refuse unless two claims differ.
    @param condition Whether it is so.
    """
    assert condition, "referee: no two claims differ"


@internal
@pure
def first_time(condition: bool):
    """
    @notice Refuse unless the sender has no seat yet.
    @param condition Whether it is so.
    """
    assert condition, "referee: already joined"


@internal
@pure
def free_seat(condition: bool):
    """
    @notice Refuse unless the job has a seat left.
    @param condition Whether it is so.
    """
    assert condition, "referee: no seat left"


@internal
@pure
def index_in_range(condition: bool):
    """
    @notice Refuse unless the index is one of those to choose from.
    @param condition Whether it is so.
    """
    assert condition, "referee: index out of range"


@internal
@pure
def job(condition: bool):
    """
    @notice Refuse unless there is such a job.
    @param condition Whether it is so.
    """
    assert condition, "referee: no such job"


@internal
@pure
def matching_chunk(condition: bool):
    """
    @notice Refuse unless the chunk is the disputed one.
    @param condition Whether it is so.
    """
    assert condition, "referee: chunk does not match"


@internal
@pure
def matching_commitment(condition: bool):
    """
    @notice Refuse unless the claim is the one that was committed to.
    @param condition Whether it is so.
    """
    assert condition, "referee: commitment does not match"


@internal
@pure
def matching_opening(condition: bool):
    """
    @notice Refuse unless the opening is the one of the node.
    @param condition Whether it is so.
    """
    assert condition, "referee: opening does not match"


@internal
@pure
def matching_proof(condition: bool):
    """
    @notice Refuse unless the proof leads to what is agreed.
    @param condition Whether it is so.
    """
    assert condition, "referee: proof does not match"


@internal
@pure
def matching_values(condition: bool):
    """
    @notice Refuse unless the accumulators are as many as asked for, or the ones that were posted.
    @param condition Whether it is so.
    """
    assert condition, "referee: values do not match"


@internal
@pure
def mover(condition: bool):
    """
    @notice Refuse unless the move is the sender's to make.
    @param condition Whether it is so.
    """
    assert condition, "referee: not yours to move"


@internal
@pure
def no_dispute(condition: bool):
    """
    @notice Refuse unless no two claims differ.
    @param condition Whether it is so.
    """
    assert condition, "referee: claims still differ"


@internal
@pure
def no_match(condition: bool):
    """
    @notice Refuse unless no match is being played.
    @param condition Whether it is so.
    """
    assert condition, "referee: a match is being played"


@internal
@pure
def no_time_left(condition: bool):
    """
    @notice Refuse unless the side to move has no time left.
    @param condition Whether it is so.
    """
    assert condition, "referee: clock still running"


@internal
@pure
def not_early(condition: bool):
    """
    @notice Refuse unless the time for the call has come.
    @param condition Whether it is so.
    """
    assert condition, "referee: too early"


@internal
@pure
def not_late(condition: bool):
    """
    @notice Refuse unless the time for the call has not passed.
    @param condition Whether it is so.
    """
    assert condition, "referee: too late"


@internal
@pure
def phase(condition: bool):
    """
    @notice Refuse unless the match is in a phase that has this move.
    @param condition Whether it is so.
    """
    assert condition, "referee: not in this phase"


@internal
@pure
def same_position(condition: bool):
    """
    @notice Refuse unless the match stands where the sender thinks.
    @param condition Whether it is so.
    """
    assert condition, "referee: position has changed"


@internal
@pure
def sound_terms(condition: bool):
    """
    @notice Refuse unless the terms of a job are within their bounds.
    @param condition Whether it is so.
    """
    assert condition, "referee: absurd terms"


@internal
@pure
def time_left(condition: bool):
    """
    @notice Refuse unless the side to move has time left.
    @param condition Whether it is so.
    """
    assert condition, "referee: clock expired"


@internal
@pure
def unknown_function(condition: bool):
    """
    @notice Refuse unless the chain does not know the function.
    @param condition Whether it is so.
    """
    assert condition, "referee: the chain knows this function"


@internal
@pure
def unsettled(condition: bool):
    """
    @notice Refuse unless the job is not settled.
    @param condition Whether it is so.
    """
    assert condition, "referee: job is settled"
