# pragma version 0.4.3
"""
@title The numbers of phases, endings and standings
@license Apache-2.0
@notice contracts/reasons.py has the same, and says what they mean.
"""

# Where a match stands.
HISTORY: constant(uint256) = 1
ENTER_INTERVAL: constant(uint256) = 2
INTERVAL: constant(uint256) = 3
ENTER_TRACE: constant(uint256) = 4
TRACE: constant(uint256) = 5
ENTER_OPERATOR: constant(uint256) = 6
TENSOR: constant(uint256) = 7
CHUNK: constant(uint256) = 8
FOLD: constant(uint256) = 9
LEAF: constant(uint256) = 10
ENTER_STATE: constant(uint256) = 11
STATE: constant(uint256) = 12
SINK: constant(uint256) = 13
VERIFIER: constant(uint256) = 14

# Sets of phases: bit p stands for phase p.
TREES: constant(uint256) = 1 << HISTORY | 1 << INTERVAL | 1 << TRACE | 1 << TENSOR | 1 << STATE
CHALLENGER_TO_MOVE: constant(uint256) = 1 << LEAF | 1 << SINK
# Those in which a disputed state, a trace, an operator's output, one of its elements is known.
HAVE_ELEMENT: constant(uint256) = 1 << FOLD | 1 << LEAF | 1 << VERIFIER
HAVE_TENSOR: constant(uint256) = HAVE_ELEMENT | 1 << TENSOR | 1 << CHUNK
HAVE_TRACE: constant(uint256) = (
    HAVE_TENSOR | 1 << TRACE | 1 << ENTER_OPERATOR | 1 << ENTER_STATE | 1 << STATE | 1 << SINK
)
HAVE_PLACE: constant(uint256) = HAVE_TRACE | 1 << ENTER_INTERVAL | 1 << INTERVAL | 1 << ENTER_TRACE

# Why a match ended.
BY_CLOCK: constant(uint256) = 1
BY_SCALAR: constant(uint256) = 2
BY_START: constant(uint256) = 3
BY_SINK: constant(uint256) = 4
BY_EMPTY: constant(uint256) = 5
BY_VERIFIER: constant(uint256) = 6

# Where a member stands.
COMMITTED: constant(uint256) = 1
REVEALED: constant(uint256) = 2
DEFEATED: constant(uint256) = 3

# Who decides a job's leaves.
SCALAR_LEAF: constant(uint256) = 0
OPERATOR_LEAF: constant(uint256) = 1
