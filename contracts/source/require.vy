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
    assert condition, "referee: bond too small"


@internal
@pure
def bond(condition: bool):
    assert condition, "referee: value is not the bond"


@internal
@pure
def debt(condition: bool):
    assert condition, "referee: nothing owed"


@internal
@pure
def dispute(condition: bool):
    assert condition, "referee: no two claims differ"


@internal
@pure
def first_time(condition: bool):
    assert condition, "referee: already joined"


@internal
@pure
def free_seat(condition: bool):
    assert condition, "referee: no seat left"


@internal
@pure
def index_in_range(condition: bool):
    assert condition, "referee: index out of range"


@internal
@pure
def job(condition: bool):
    assert condition, "referee: no such job"


@internal
@pure
def matching_chunk(condition: bool):
    assert condition, "referee: chunk does not match"


@internal
@pure
def matching_commitment(condition: bool):
    assert condition, "referee: commitment does not match"


@internal
@pure
def matching_opening(condition: bool):
    assert condition, "referee: opening does not match"


@internal
@pure
def matching_proof(condition: bool):
    assert condition, "referee: proof does not match"


@internal
@pure
def matching_values(condition: bool):
    assert condition, "referee: values do not match"


@internal
@pure
def mover(condition: bool):
    assert condition, "referee: not yours to move"


@internal
@pure
def no_dispute(condition: bool):
    assert condition, "referee: claims still differ"


@internal
@pure
def no_match(condition: bool):
    assert condition, "referee: a match is being played"


@internal
@pure
def no_time_left(condition: bool):
    assert condition, "referee: clock still running"


@internal
@pure
def not_early(condition: bool):
    assert condition, "referee: too early"


@internal
@pure
def not_late(condition: bool):
    assert condition, "referee: too late"


@internal
@pure
def phase(condition: bool):
    assert condition, "referee: not in this phase"


@internal
@pure
def same_position(condition: bool):
    assert condition, "referee: position has changed"


@internal
@pure
def sound_terms(condition: bool):
    assert condition, "referee: absurd terms"


@internal
@pure
def time_left(condition: bool):
    assert condition, "referee: clock expired"


@internal
@pure
def unknown_function(condition: bool):
    assert condition, "referee: the chain knows this function"


@internal
@pure
def unsettled(condition: bool):
    assert condition, "referee: job is settled"
